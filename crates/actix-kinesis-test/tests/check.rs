//! The example `check`, as a program.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "../../../tests/support/example.rs"]
mod example;

use std::process::{Command, Output};

use example::example;

const PUT: &str = r#"
{"unix_ms":1,"event":"shard","shard":"a","parents":[]}
{"unix_ms":2,"event":"put","shard":"a","seq":"1","sub":0,"pk":"k"}
"#;
const DELIVERED: &str = r#"{"t_ms":0,"unix_ms":3,"worker":"w","event":"delivery","shard":"a","seq":"1","sub":0,"pk":"k",
"ehk":null,"len":1,"sha256":"00","attempt":1,"token":1,"aggregated":false}"#;

/// Lets the program check files with these contents.
fn check(contents: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let files = contents.iter().enumerate().map(|(index, content)| {
        let file = folder.path().join(index.to_string());
        std::fs::write(&file, content).unwrap();
        file
    });
    Command::new(example("check", &[])).args(files).output().unwrap()
}

#[test]
fn a_history_without_violations_in_several_files_is_good() {
    let delivered = DELIVERED.replace('\n', "");
    let output = check(&[&delivered, PUT]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{output:?}");
}

#[test]
fn violations_are_printed_and_fail() {
    let output = check(&[PUT]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("0:3: Complete at 2 ms: 1 records of a were never delivered"), "{text}");
}

#[test]
fn a_line_that_cannot_be_read_is_told_with_its_place() {
    let output = check(&[PUT, "{\"unix_ms\":1}\n"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("1:1: missing field `event`"), "{text}");
}

#[test]
fn what_a_process_that_was_killed_has_left_of_a_line_is_left_out() {
    let delivered = DELIVERED.replace('\n', "");
    let output = check(&[PUT, &format!("{delivered}\n{}", &delivered[..40])]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("1:2: cut off, left out"));
}

#[test]
fn a_history_that_tells_nothing_is_not_a_good_one() {
    let misspelt = PUT.replace("\"put\"", "\"putt\"").replace("\"shard\",\"shard\"", "\"shart\",\"shard\"");
    for history in ["", "\n\n", &misspelt] {
        let output = check(&[history]);
        assert_eq!(output.status.code(), Some(2), "{history}: {output:?}");
    }
}

#[test]
fn a_long_history_without_answers_takes_no_longer_for_each_line() {
    let delivered: String = (0..50_000)
        .map(|number| {
            let line = r#"{"unix_ms":1,"worker":"w","event":"delivery","shard":"a","attempt":1,"sub":0,"#;
            format!("{line}\"seq\":\"{number}\"}}\n")
        })
        .collect();
    assert_eq!(check(&[&delivered]).status.code(), Some(0));
}
