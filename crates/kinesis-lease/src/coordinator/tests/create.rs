//! Rows that cannot be created.

use super::harness::*;
use super::*;
use crate::testing::{child, open};

fn creations_within(world: &mut World, time: Duration) -> usize {
    let before = world.count(Call::Create);
    world.pass(time);
    world.count(Call::Create) - before
}

#[test]
fn rows_that_cannot_be_created_are_tried_less_and_less_often_and_one_at_a_time() {
    for fault in [Fault::Denied, Fault::Throttled, Fault::LostRequest] {
        let mut world = World::new(Checkpoint::TrimHorizon);
        world.stream = (0..100).map(|number| open(&format!("s{number:03}"), &[])).collect();
        world.fail_always(Call::Create, fault);
        world.start();
        assert_eq!(world.count(Call::Create), 100);
        let (lists, first) = (world.count(Call::List), creations_within(&mut world, secs(60)));
        let later = creations_within(&mut world, secs(600));
        assert!((4..16).contains(&first), "{first}");
        assert!((50..75).contains(&later), "{later}");
        assert!(world.count(Call::List) - lists < 90);

        world.heal();
        world.pass(secs(12));
        assert_eq!(world.held().len(), 100);
    }
}

#[test]
fn children_that_cannot_be_created_are_tried_less_and_less_often() {
    let mut world = World::holding_a();
    world.stream = vec![crate::testing::closed("a", &[]), open("b", &["a"]), open("c", &["a"])];
    world.fail_always(Call::Create, Fault::Denied);
    let request = world.end("a", vec![child("b", &["a"]), child("c", &["a"])]);
    world.pass(secs(60));
    let later = creations_within(&mut world, secs(600));
    assert!((50..75).contains(&later), "{later}");
    assert!(!world.answers.contains_key(&request));

    world.heal();
    world.pass(secs(12));
    assert_eq!(world.answers[&request], Ok(()));
    assert_eq!(world.held(), ["b", "c"]);
}
