use std::time::Duration;

use kinesis_local::model::{
    ConsumerStatus, ConsumerTarget, ListStreamConsumersRequest, ListStreamConsumersResponse, Settings,
    StreamTarget, Timestamp,
};

use crate::{Bench, code};

const STREAM_ARN: &str = "arn:aws:kinesis:us-east-1:000000000000:stream/flights";

fn slow() -> Bench {
    let mut bench = Bench::with(Settings { transition: Duration::from_secs(10), ..Default::default() }, 1);
    bench.pass(10_000);
    bench
}

fn by_name(name: &str) -> ConsumerTarget {
    ConsumerTarget::by_name(STREAM_ARN, name)
}

fn status(bench: &mut Bench, target: &ConsumerTarget) -> Result<ConsumerStatus, &'static str> {
    let described = bench.model.describe_stream_consumer(target, bench.now);
    described.map(|consumer| consumer.status).map_err(|error| error.code())
}

fn list(bench: &mut Bench, token: Option<String>, max: u32) -> ListStreamConsumersResponse {
    let stream = StreamTarget::from(STREAM_ARN);
    let request = ListStreamConsumersRequest {
        stream,
        next_token: token,
        max_results: Some(max),
        ..Default::default()
    };
    bench.model.list_stream_consumers(request, bench.now).unwrap()
}

#[test]
fn a_consumer_is_creating_then_active_then_deleting_then_gone() {
    let mut bench = slow();
    let consumer = bench.register(STREAM_ARN, "radar").unwrap();
    assert_eq!(consumer.status, ConsumerStatus::Creating);
    assert_eq!(consumer.stream_arn, STREAM_ARN);
    let seconds = bench.now.as_secs();
    assert_eq!(consumer.consumer_arn, format!("{STREAM_ARN}/consumer/radar:{seconds}"));
    bench.pass(10_000);
    assert_eq!(status(&mut bench, &by_name("radar")), Ok(ConsumerStatus::Active));
    bench.model.deregister_stream_consumer(&by_name("radar"), bench.now).unwrap();
    assert_eq!(status(&mut bench, &by_name("radar")), Ok(ConsumerStatus::Deleting));
    assert_eq!(code(bench.register(STREAM_ARN, "radar")), "ResourceInUseException");
    bench.pass(10_000);
    assert_eq!(status(&mut bench, &by_name("radar")), Err("ResourceNotFoundException"));
}

#[test]
fn a_consumer_is_addressed_by_its_arn_or_by_name_and_stream() {
    let mut bench = Bench::new(1);
    let arn = bench.register("flights", "radar").unwrap().consumer_arn;
    let both = ConsumerTarget { arn: Some(arn.clone()), ..by_name("radar") };
    for target in [ConsumerTarget::by_arn(&arn), by_name("radar"), both] {
        assert_eq!(status(&mut bench, &target), Ok(ConsumerStatus::Active), "{target:?}");
    }
    let odd = ConsumerTarget { arn: Some(arn.clone()), ..by_name("tower") };
    let lone = ConsumerTarget { name: Some("radar".to_owned()), ..Default::default() };
    for target in [odd, lone, ConsumerTarget::default()] {
        assert_eq!(status(&mut bench, &target), Err("InvalidArgumentException"), "{target:?}");
    }
    for target in [by_name("tower"), ConsumerTarget::by_arn(arn.replace("radar:", "radar:1"))] {
        assert_eq!(status(&mut bench, &target), Err("ResourceNotFoundException"), "{target:?}");
    }
    for arn in ["radar", STREAM_ARN, &format!("{STREAM_ARN}/consumer/radar")] {
        assert_eq!(status(&mut bench, &ConsumerTarget::by_arn(arn)), Err("ValidationException"), "{arn}");
    }
}

#[test]
fn a_name_is_taken_once_per_stream() {
    let mut bench = Bench::new(1);
    bench.create("trains", 1);
    bench.register("flights", "radar").unwrap();
    assert_eq!(code(bench.register("flights", "radar")), "ResourceInUseException");
    bench.register("trains", "radar").unwrap();
    for name in ["", "a b", "a/b", &"x".repeat(129)] {
        assert_eq!(code(bench.register("flights", name)), "ValidationException", "{name:?}");
    }
    assert_eq!(code(bench.register("ships", "radar")), "ResourceNotFoundException");
}

#[test]
fn a_consumer_that_is_registered_again_has_another_arn() {
    let mut bench = Bench::new(1);
    let first = bench.register("flights", "radar").unwrap().consumer_arn;
    bench.model.deregister_stream_consumer(&ConsumerTarget::by_arn(&first), bench.now).unwrap();
    let second = bench.register("flights", "radar").unwrap().consumer_arn;
    assert_ne!(first, second);
    assert_eq!(status(&mut bench, &ConsumerTarget::by_arn(first)), Err("ResourceNotFoundException"));
}

#[test]
fn a_stream_has_twenty_consumers_of_which_five_are_creating() {
    let mut bench = slow();
    for number in 0..20 {
        if number > 0 && number % 5 == 0 {
            assert_eq!(code(bench.register("flights", "more")), "LimitExceededException", "{number}");
            bench.pass(10_000);
        }
        bench.register("flights", &format!("radar-{number}")).unwrap();
    }
    bench.pass(10_000);
    assert_eq!(code(bench.register("flights", "more")), "LimitExceededException");
    let summary = bench.model.describe_stream_summary(&"flights".into(), bench.now).unwrap();
    assert_eq!(summary.consumer_count, 20);
}

#[test]
fn pages_of_consumers_follow_one_another() {
    let mut bench = Bench::new(1);
    for number in 0..7 {
        bench.register("flights", &format!("radar-{number}")).unwrap();
    }
    let (mut names, mut token) = (Vec::new(), None);
    loop {
        let page = list(&mut bench, token, 3);
        names.extend(page.consumers.into_iter().map(|consumer| consumer.consumer_name));
        token = page.next_token;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(names, (0..7).map(|number| format!("radar-{number}")).collect::<Vec<_>>());
}

#[test]
fn a_token_of_consumers_is_good_for_five_minutes_and_for_its_stream() {
    let mut bench = Bench::new(1);
    bench.create("trains", 1);
    for name in ["a", "b"] {
        bench.register("flights", name).unwrap();
    }
    let token = list(&mut bench, None, 1).next_token;
    let mut ask = |stream: &str, token: Option<String>, created: Option<Timestamp>, wait: u64| {
        bench.pass(wait);
        let request = ListStreamConsumersRequest {
            stream: stream.into(),
            next_token: token,
            stream_created: created,
            ..Default::default()
        };
        bench
            .model
            .list_stream_consumers(request, bench.now)
            .map_err(|error| error.code())
            .map(|page| page.consumers.len())
    };
    let created = Timestamp::from_millis(1_800_000_000_000);
    assert_eq!(ask("trains", token.clone(), None, 0), Err("InvalidArgumentException"));
    assert_eq!(ask("flights", token.clone(), Some(created), 0), Err("InvalidArgumentException"));
    assert_eq!(ask("flights", Some("garbage".to_owned()), None, 0), Err("InvalidArgumentException"));
    assert_eq!(ask("flights", None, Some(created), 0), Ok(2));
    assert_eq!(ask("flights", None, Some(Timestamp::default()), 0), Err("ResourceNotFoundException"));
    assert_eq!(ask("flights", token.clone(), None, 300_000), Ok(1));
    assert_eq!(ask("flights", token, None, 1), Err("ExpiredNextTokenException"));
}
