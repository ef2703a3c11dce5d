//! Where a configuration comes from: substitutions, the environment, files and broken texts.

use crate::SECOND;
use crate::support::{assert_tells, load, load_in, orders, refused, with_orders};
use actix_kinesis::config::{ConfigError, ConfigLoader, KinesisConfig};
use proptest::prelude::proptest;

#[test]
fn variables_that_are_set_but_empty_are_refused_by_name() {
    let text = with_orders("polling.max-records = 1000\n polling.max-records = ${?MAX}");
    let error = load_in(&text, &[("MAX", "")]).unwrap_err().to_string();
    assert_tells(
        &error,
        &["kinesis.orders.polling.max-records", "an empty text", "set, but to nothing: MAX", "10000"],
    );
    let error = load_in(&with_orders("stream-name = ${?S}"), &[("S", "")]).unwrap_err().to_string();
    assert_tells(&error, &["kinesis.orders.stream-name", "an empty text", ": S)"]);
    let error =
        load_in(&with_orders(""), &[("KINESIS__ORDERS__WORKER__ARBITERS", "")]).unwrap_err().to_string();
    assert_tells(
        &error,
        &["kinesis.orders.worker.arbiters (in the environment variable KINESIS__ORDERS", "empty"],
    );
}

#[test]
fn an_optional_substitution_without_a_value_changes_nothing() {
    let conf = orders(
        "polling.max-records = 5\n polling.max-records = ${?NOPE}\n worker.arbiters = ${?NOPE}
         lease.table-name = ${?A}${?B}\n lease.worker-id = ${?A}\"-suffix\"",
    );
    assert_eq!((conf.polling.max_records, conf.worker.arbiters), (5, 1));
    assert_eq!((conf.lease.table_name, conf.lease.worker_id.as_deref()), (None, Some("-suffix")));
}

#[test]
fn a_required_substitution_without_a_value_is_refused_with_key_place_and_variable() {
    let text = with_orders("stream-name = ${STREAM}");
    assert_tells(&refused(&text), &["the configuration text:5:", "kinesis.orders.stream-name: ${STREAM}"]);
    let config = load_in(&text, &[("STREAM", "from-environment")]).unwrap();
    assert_eq!(config.consumer("orders").unwrap().stream_name, "from-environment");
}

#[test]
fn substitutions_see_other_keys_and_the_defaults() {
    let conf = orders(
        "worker { batch-timeout = 1m, shutdown-timeout = ${kinesis.orders.worker.batch-timeout} }
         polling.max-records = ${kinesis.default-consumer.polling.max-records}
         lease.worker-id = ${?kinesis.default-consumer.initial-position}",
    );
    assert_eq!(conf.worker.shutdown_timeout, 60 * SECOND);
    assert_eq!(conf.polling.max_records, 10_000);
    assert_eq!(conf.lease.worker_id.as_deref(), Some("trim-horizon"));
}

#[test]
fn a_section_can_inherit_from_any_other() {
    let config = load(
        "kinesis { application-name = a, base.worker.batch-timeout = 3s
         orders = ${kinesis.base} { stream-name = orders }
         all = ${kinesis.default-consumer} { stream-name = all, worker.arbiters = 2 } }",
    )
    .unwrap();
    assert_eq!(config.consumer("orders").unwrap().worker.batch_timeout, 3 * SECOND);
    assert_eq!(config.consumer("all").unwrap().worker.arbiters, 2);
}

#[test]
fn environment_variables_lie_over_the_file_and_code_over_both() {
    let text = with_orders("worker.arbiters = 2\n worker.max-bytes = 8MiB\n polling.max-records = 5");
    let environment = [
        ("KINESIS__ORDERS__WORKER__ARBITERS", "3"),
        ("KINESIS__ORDERS__WORKER__MAX_BYTES", "16MiB"),
        ("KINESIS__DEFAULT_CONSUMER__LEASE__FAILOVER_TIME", "20s"),
        ("KINESIS__APPLICATION_NAME", "shipping"),
        ("KINESIS_SERVICE_HOST", "10.0.0.1"),
    ];
    let conf = ConfigLoader::text(text)
        .environment(environment)
        .overrides("kinesis.orders.worker.arbiters = 4")
        .overrides("kinesis.orders.polling.max-records = null")
        .load()
        .and_then(|config| config.consumer("orders"))
        .unwrap();
    assert_eq!((conf.worker.arbiters, conf.worker.max_bytes), (4, 16 << 20));
    assert_eq!((conf.polling.max_records, conf.lease.failover_time), (10_000, 20 * SECOND));
    assert_eq!(conf.application_name, "shipping");
}

#[test]
fn a_variable_finds_a_section_whatever_its_spelling() {
    let text = "kinesis { application-name = a, clickStream.stream-name = c, \"my.stream\".stream-name = m }";
    let environment = [
        ("KINESIS__CLICKSTREAM__POLLING__MAX_RECORDS", "5"),
        ("KINESIS__MY_STREAM__POLLING__MAX_RECORDS", "6"),
    ];
    let config = load_in(text, &environment).unwrap();
    assert_eq!(config.consumer("clickStream").unwrap().polling.max_records, 5);
    assert_eq!(config.consumer("my.stream").unwrap().polling.max_records, 6);
}

#[test]
fn a_variable_that_names_no_key_or_no_value_is_refused_by_its_name() {
    let error =
        |name: &str, value: &str| load_in(&with_orders(""), &[(name, value)]).unwrap_err().to_string();
    assert_tells(
        &error("KINESIS__ORDERS__WORKER__ARBITER", "2"),
        &["the environment variable KINESIS__ORDERS__WORKER__ARBITER", "kinesis.orders.worker.arbiters?"],
    );
    assert_tells(
        &error("KINESIS__ORDERS__WORKER__ARBITERS", "two"),
        &["KINESIS__ORDERS__WORKER__ARBITERS", "1 to 64"],
    );
}

#[test]
fn the_environment_of_the_process_is_used_when_none_is_given() {
    const CHILD: &str = "CONFIG_TEST_CHILD";
    let text = with_orders("stream-name = ${?CONFIG_TEST_STREAM}");
    if std::env::var_os(CHILD).is_some() {
        let conf = text.parse::<KinesisConfig>().and_then(|config| config.consumer("orders")).unwrap();
        assert_eq!((conf.stream_name.as_str(), conf.worker.arbiters), ("from-process", 7));
        return;
    }
    let name = "sources::the_environment_of_the_process_is_used_when_none_is_given";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact"])
        .env(CHILD, "1")
        .env("CONFIG_TEST_STREAM", "from-process")
        .env("KINESIS__ORDERS__WORKER__ARBITERS", "7")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn byte_order_mark_carriage_returns_comments_and_repeated_keys_are_no_obstacle() {
    let text = "\u{feff}// head\r\nkinesis {\r\n application-name = first # }\r\n application-name = second\r\n\
                orders { stream-name = orders }\r\n orders.worker { arbiters = 2 }\r\n \
                orders.worker.arbiters = 3\r\n}\r\n";
    let conf = load(text).and_then(|config| config.consumer("orders")).unwrap();
    assert_eq!((conf.application_name.as_str(), conf.worker.arbiters), ("second", 3));
}

#[test]
fn broken_texts_are_refused_with_their_place() {
    let cases = [
        (
            "kinesis { application-name = a }\n}\nkinesis.orders.stream-name = o",
            "the configuration text:2:1",
            "closes nothing",
        ),
        (
            "kinesis {\n application-name =\n orders { stream-name = o }\n}",
            "the configuration text:2:19",
            "without a value",
        ),
        ("kinesis { application-name = a orders { stream-name = o } }", "", ""),
        ("kinesis { application-name = \"a }", "the configuration text:1:30", "unterminated"),
        ("kinesis { application-name = a", "the configuration text:1:", "expected }"),
        ("[1]", "the configuration text:1:1", "array"),
    ];
    for (text, place, problem) in cases {
        assert_tells(&refused(text), &[place, problem]);
    }
}

#[test]
fn a_file_names_itself_in_every_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("application.conf");
    let error = |text: &str| {
        std::fs::write(&file, text).unwrap();
        KinesisConfig::load(&file).unwrap_err().to_string()
    };
    let name = file.display().to_string();
    assert_tells(&error("a = 1\n}"), &[&format!("{name}:2:1")]);
    assert_tells(
        &error(&with_orders("worker.arbiters = 0")),
        &[&format!("kinesis.orders.worker.arbiters (in {name})")],
    );
    assert_tells(
        &error(&with_orders("stream-name = ${NOPE_NOT_SET}")),
        &[&format!("{name}:5:"), "${NOPE_NOT_SET}"],
    );
    let missing = directory.path().join("missing.conf");
    let error = KinesisConfig::load(&missing).unwrap_err();
    assert!(matches!(&error, ConfigError::Read { file, .. } if *file == missing), "{error}");
    assert_tells(&error.to_string(), &["missing.conf", "cannot be read"]);
}

#[test]
fn included_files_are_read_and_guarded_too() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    let load =
        || ConfigLoader::file(directory.path().join("application.conf")).environment([("N", "5")]).load();
    std::fs::create_dir(directory.path().join("sub")).unwrap();
    write(
        "application.conf",
        "include \"sub/common\"\ninclude \"nowhere\"\nkinesis.orders.stream-name = orders",
    );
    write("sub/common.conf", "kinesis { application-name = a, include required(\"aws.conf\") }");
    write("sub/aws.conf", "aws.region = eu-west-1\ndefault-consumer.polling.max-records = ${N}");
    let config = load().unwrap();
    let orders = config.consumer("orders").unwrap();
    assert_eq!((orders.aws.region.as_deref(), orders.polling.max_records), (Some("eu-west-1"), 5));
    assert_tells(&config.warnings().join("\n"), &["application.conf:2: include \"nowhere\" finds no file"]);

    write("sub/aws.conf", "aws.region = eu-west-1\n}\naws.profile = lost");
    assert_tells(&load().unwrap_err().to_string(), &["sub/aws.conf:2:1", "closes nothing"]);
    write("sub/aws.conf", "aws.region = eu-west-1 ]");
    assert_tells(&load().unwrap_err().to_string(), &["sub/aws.conf:1:"]);
    write("sub/aws.conf", "aws.region = ${REGION}");
    assert_tells(
        &load().unwrap_err().to_string(),
        &["sub/aws.conf:1:", "kinesis.aws.region: ${REGION} is neither"],
    );
    write("sub/aws.conf", "include \"common.conf\"");
    assert_tells(&load().unwrap_err().to_string(), &["circular include"]);
    std::fs::remove_file(directory.path().join("sub/aws.conf")).unwrap();
    assert_tells(&load().unwrap_err().to_string(), &["required include file not found", "sub/aws.conf"]);
}

proptest! {
    #[test]
    fn no_text_makes_the_loader_panic(parts in proptest::collection::vec(proptest::sample::select(PARTS), 0..40)) {
        let _ = load_in(&parts.concat(), &[("E", ""), ("N", "5")]);
    }
}

const PARTS: &[&str] = &[
    "kinesis",
    "application-name",
    "default-consumer",
    "orders",
    "stream-name",
    "worker",
    "kcl",
    "workerId",
    "null",
    "aws",
    "akka",
    "a",
    "{",
    "}",
    "[",
    "]",
    "=",
    ":",
    "+=",
    ",",
    ".",
    "\n",
    " ",
    "#",
    "//",
    "\"",
    "\"\"\"",
    "\\",
    "$",
    "${E}",
    "${?N}",
    "${kinesis.orders}",
    "${?kinesis.default-consumer}",
    "include \"x\"",
    "5",
    "-1",
    "1e3",
    "10s",
    "\u{feff}",
];
