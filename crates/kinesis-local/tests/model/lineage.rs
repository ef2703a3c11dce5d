use kinesis_local::model::UpdateShardCountRequest;
use kinesis_record::{HashKey, HashRange, Shard, ShardId};
use proptest::prelude::*;

use crate::{Bench, HOUR, SHARD_0, SHARD_1, SHARD_2, code};

fn update_count(bench: &mut Bench, target: u32) -> Result<(), &'static str> {
    let request = UpdateShardCountRequest { stream: "flights".into(), target_shard_count: target };
    bench.model.update_shard_count(request, bench.now).map(|_| ()).map_err(|error| error.code())
}

fn open(shards: &[Shard]) -> Vec<&Shard> {
    let mut open: Vec<&Shard> = shards.iter().filter(|shard| shard.is_open()).collect();
    open.sort_by_key(|shard| shard.hash_range.start);
    open
}

/// What holds of every stream at any time.
fn check_lineage(shards: &[Shard]) {
    let open = open(shards);
    assert_eq!(open.first().unwrap().hash_range.start, HashKey::MIN);
    assert_eq!(open.last().unwrap().hash_range.end, HashKey::MAX);
    for pair in open.windows(2) {
        assert!(pair[0].hash_range.is_followed_by(&pair[1].hash_range));
    }
    assert!(shards.is_sorted_by(|a, b| a.id < b.id), "ids are unique and in order");
    for shard in shards {
        assert!(shard.ending_sequence.as_ref().is_none_or(|ending| *ending > shard.starting_sequence));
        for parent in &shard.parents {
            let parent = shards.iter().find(|known| known.id == *parent).unwrap();
            assert!(*parent.ending_sequence.as_ref().unwrap() < shard.starting_sequence);
            assert!(parent.id < shard.id);
        }
    }
}

#[test]
fn a_split_gives_two_new_shards_with_the_halves_of_the_parent() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.split(SHARD_0, 1000).unwrap(), [ShardId::from(SHARD_1), SHARD_2.into()]);
    let shards = bench.shards();
    let [parent, left, right] = &shards[..] else { panic!("{shards:?}") };
    assert_eq!(parent.hash_range, HashRange::ALL);
    assert!(!parent.is_open() && left.is_open() && right.is_open());
    assert_eq!(left.hash_range, HashRange { start: HashKey::MIN, end: HashKey(999) });
    assert_eq!(right.hash_range, HashRange { start: HashKey(1000), end: HashKey::MAX });
    assert_eq!((&left.parents, &right.parents), (&vec![parent.id.clone()], &vec![parent.id.clone()]));
    check_lineage(&shards);
}

#[test]
fn a_closed_shard_is_neither_split_nor_merged() {
    let mut bench = Bench::new(2);
    let [left, _] = bench.split(SHARD_0, 1000).unwrap();
    assert_eq!(code(bench.split(SHARD_0, 1000)), "InvalidArgumentException");
    assert_eq!(code(bench.merge(SHARD_0, SHARD_1)), "InvalidArgumentException");
    bench.split(left.as_str(), 500).unwrap();
    check_lineage(&bench.shards());
}

#[test]
fn a_split_leaves_each_child_two_hash_keys() {
    let mut bench = Bench::new(1);
    for key in [0, 1, u128::MAX] {
        assert_eq!(code(bench.split(SHARD_0, key)), "InvalidArgumentException", "{key}");
    }
    let [left, right] = bench.split(SHARD_0, 2).unwrap();
    assert_eq!(code(bench.split(left.as_str(), 1)), "InvalidArgumentException");
    assert_eq!(code(bench.split(right.as_str(), 1)), "InvalidArgumentException", "outside of the shard");
    bench.split(right.as_str(), u128::MAX - 1).unwrap();
}

#[test]
fn only_open_neighbours_are_merged_and_in_their_order() {
    let mut bench = Bench::new(3);
    assert_eq!(code(bench.merge(SHARD_0, SHARD_2)), "InvalidArgumentException");
    assert_eq!(code(bench.merge(SHARD_1, SHARD_0)), "InvalidArgumentException");
    assert_eq!(code(bench.merge(SHARD_0, SHARD_0)), "InvalidArgumentException");
    assert_eq!(code(bench.merge(SHARD_0, "shardId-000000000009")), "ResourceNotFoundException");
    let child = bench.merge(SHARD_0, SHARD_1).unwrap();
    let shards = bench.shards();
    let child = shards.iter().find(|shard| shard.id == child).unwrap();
    assert_eq!(child.parents, [ShardId::from(SHARD_0), SHARD_1.into()]);
    assert_eq!(child.hash_range.start, HashKey::MIN);
    check_lineage(&shards);
}

#[test]
fn a_childs_numbers_are_above_its_parents_even_within_a_second() {
    let mut bench = Bench::new(1);
    let mut last = bench.put("a").sequence_number;
    for number in 0..5 {
        let shard = format!("shardId-{number:012}");
        let shards = bench.shards();
        let open = shards.iter().find(|known| known.id.as_str() == shard).unwrap();
        let key = open.hash_range.start.0 / 2 + open.hash_range.end.0 / 2;
        bench.split(&shard, key).unwrap();
        let parent_end = bench.shards()[number].ending_sequence.clone().unwrap();
        assert!(last <= parent_end || number > 0);
        last = bench.put("a").sequence_number;
        assert!(last > parent_end);
    }
    check_lineage(&bench.shards());
}

#[test]
fn the_number_of_shards_doubles_by_splits_alone_and_halves_by_merges_alone() {
    let mut bench = Bench::new(3);
    update_count(&mut bench, 6).unwrap();
    let shards = bench.shards();
    assert_eq!((shards.len(), open(&shards).len()), (9, 6));
    assert!(open(&shards).iter().all(|shard| shard.parents.len() == 1));
    update_count(&mut bench, 3).unwrap();
    let shards = bench.shards();
    assert_eq!((shards.len(), open(&shards).len()), (12, 3));
    assert!(open(&shards).iter().all(|shard| shard.parents.len() == 2));
    check_lineage(&shards);
}

#[test]
fn the_number_of_shards_is_at_most_doubled_and_at_most_halved() {
    let mut bench = Bench::new(5);
    assert_eq!(update_count(&mut bench, 11), Err("LimitExceededException"));
    assert_eq!(update_count(&mut bench, 2), Err("LimitExceededException"));
    assert_eq!(update_count(&mut bench, 0), Err("ValidationException"));
    update_count(&mut bench, 5).unwrap();
    assert_eq!(bench.shards().len(), 5, "nothing to do");
}

#[test]
fn a_closed_shard_is_listed_until_its_last_record_may_be_gone() {
    let mut bench = Bench::new(1);
    bench.split(SHARD_0, 1000).unwrap();
    bench.pass(24 * HOUR);
    assert_eq!(bench.shards().len(), 3);
    bench.pass(1);
    let shards = bench.shards();
    assert_eq!(shards.len(), 2);
    assert_eq!(shards[0].parents, [ShardId::from(SHARD_0)], "still named");
    let latest = kinesis_local::model::StartingPosition::Latest;
    assert_eq!(code(bench.iterator(SHARD_0, latest)), "ResourceNotFoundException");
}

#[derive(Debug, Clone)]
enum Step {
    Split(usize, u64),
    Merge(usize),
    Count(u32),
    Put(u32),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (any::<usize>(), any::<u64>()).prop_map(|(shard, part)| Step::Split(shard, part)),
        any::<usize>().prop_map(Step::Merge),
        (1..12u32).prop_map(Step::Count),
        any::<u32>().prop_map(Step::Put),
        (0..3_000u64).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_done_to_a_stream_its_open_shards_cover_every_hash_key_once(
        shards in 1..6u32,
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut bench = Bench::new(shards);
        for step in steps {
            let shards = bench.shards();
            let open: Vec<Shard> = open(&shards).into_iter().cloned().collect();
            match step {
                Step::Split(shard, part) => {
                    let shard = &open[shard % open.len()];
                    let (start, end) = (shard.hash_range.start.0, shard.hash_range.end.0);
                    let key = start + ((end - start) / u128::from(u64::MAX)) * u128::from(part);
                    let fits = key > start + 1 && key < end;
                    prop_assert_eq!(bench.split(shard.id.as_str(), key).is_ok(), fits);
                }
                Step::Merge(first) if open.len() > 1 => {
                    let first = first % (open.len() - 1);
                    bench.merge(open[first].id.as_str(), open[first + 1].id.as_str()).unwrap();
                }
                Step::Merge(_) => {}
                Step::Count(target) => {
                    let fits = target as usize <= 2 * open.len() && open.len() <= 2 * target as usize;
                    prop_assert_eq!(update_count(&mut bench, target).is_ok(), fits);
                    if fits {
                        let shards = bench.shards();
                        prop_assert_eq!(self::open(&shards).len(), target as usize);
                    }
                }
                Step::Put(key) => {
                    let put = bench.put(&key.to_string());
                    let shard = open.iter().find(|shard| shard.id == put.shard_id).unwrap();
                    prop_assert!(shard.hash_range.contains(HashKey::of_partition_key(&key.to_string())));
                    prop_assert!(put.sequence_number > shard.starting_sequence);
                }
                Step::Pass(millis) => bench.pass(millis),
            }
            check_lineage(&bench.shards());
        }
    }
}
