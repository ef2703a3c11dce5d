//! Any bytes as the data of a Kinesis record, and as the protobuf message of an aggregate whose envelope is right, so
//! that chance need not find an MD5.

#![no_main]

use bytes::Bytes;
use kinesis_record::aggregation::{Deaggregated, deaggregate};
use kinesis_record::{HashKey, HashRange};
use libfuzzer_sys::fuzz_target;
use md5::{Digest, Md5};

const LOWER_HALF: HashRange = HashRange { start: HashKey::MIN, end: HashKey(u128::MAX / 2) };

fuzz_target!(|input: &[u8]| {
    check(Bytes::copy_from_slice(input));
    check([&[0xF3, 0x89, 0x9A, 0xC2], input, &Md5::digest(input)].concat().into());
});

/// No panic, and each user record is either delivered or named as left out.
fn check(data: Bytes) {
    let Deaggregated::Aggregated { records: all, out_of_range: none } = deaggregate(&data, None) else {
        return;
    };
    assert!(none.is_empty());
    for (index, record) in (0..).zip(&all) {
        assert_eq!(record.sub_sequence, index);
    }
    let Deaggregated::Aggregated { records, out_of_range } = deaggregate(&data, Some(LOWER_HALF)) else {
        panic!("the range decided whether this is an aggregate");
    };
    assert_eq!(records.len() + out_of_range.len(), all.len());
    assert!(out_of_range.iter().all(|stray| !LOWER_HALF.contains(stray.hash_key)));
}
