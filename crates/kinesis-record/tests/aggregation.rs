//! The KPL aggregation format against published aggregates, against bytes made by hand and against chance.

#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests may fail a test")]

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use kinesis_record::aggregation::{
    Aggregate, AggregationError, Deaggregated, OutOfRange, UserRecord, deaggregate,
};
use kinesis_record::{HashKey, HashRange};
use md5::{Digest, Md5};
use proptest::prelude::*;
use serde_json::Value;

const MAGIC: [u8; 4] = [0xF3, 0x89, 0x9A, 0xC2];

/// The data of a Kinesis record with these bytes in the place of the protobuf message.
fn sealed(message: &[u8]) -> Bytes {
    [&MAGIC[..], message, &Md5::digest(message)].concat().into()
}

fn user_record(sub_sequence: i64, partition_key: &str, explicit: Option<&str>, data: &[u8]) -> UserRecord {
    UserRecord {
        sub_sequence,
        partition_key: partition_key.into(),
        explicit_hash_key: explicit.map(Arc::from),
        data: Bytes::copy_from_slice(data),
    }
}

fn aggregated(records: Vec<UserRecord>) -> Deaggregated {
    Deaggregated::Aggregated { records, out_of_range: Vec::new() }
}

fn records(data: &Bytes, range: Option<HashRange>) -> (Vec<UserRecord>, Vec<OutOfRange>) {
    match deaggregate(data, range) {
        Deaggregated::Aggregated { records, out_of_range } => (records, out_of_range),
        other => panic!("{other:?}"),
    }
}

mod published {
    use super::*;

    fn file() -> serde_json::Map<String, Value> {
        serde_json::from_str(include_str!("data/aggregation.json")).unwrap()
    }

    fn unhex(text: &Value) -> Bytes {
        let text = text.as_str().unwrap();
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    /// The well-formed aggregates: name, data, and the user records in them.
    fn aggregates() -> Vec<(String, Bytes, Vec<UserRecord>)> {
        let well_formed = file().into_iter().filter(|(name, _)| name != "MALFORMED");
        let aggregates: Vec<_> = well_formed
            .map(|(name, entry)| {
                let data: Bytes = BASE64_STANDARD.decode(entry["b64"].as_str().unwrap()).unwrap().into();
                assert_eq!(entry["len"], data.len(), "{name}");
                let records =
                    (0..).zip(entry["records"].as_array().unwrap()).map(|(sub_sequence, record)| {
                        let data = unhex(&record["data_hex"]);
                        user_record(
                            sub_sequence,
                            record["pk"].as_str().unwrap(),
                            record["ehk"].as_str(),
                            &data,
                        )
                    });
                let records = records.collect();
                (name, data, records)
            })
            .collect();
        assert_eq!(aggregates.len(), 8);
        aggregates
    }

    #[test]
    fn aggregates_of_all_producers_are_read() {
        for (name, data, expected) in aggregates() {
            assert_eq!(deaggregate(&data, None), aggregated(expected.clone()), "{name}");
            assert_eq!(deaggregate(&data, Some(HashRange::ALL)), aggregated(expected), "{name}");
        }
    }

    #[test]
    fn the_same_records_make_the_same_bytes() {
        for (name, data, records) in aggregates() {
            if name == "ext_node_undefined_ehk" {
                continue; // no explicit hash key that may be written
            }
            let mut aggregate = Aggregate::new();
            for record in records {
                let explicit = record.explicit_hash_key.map(|text| text.parse().unwrap());
                aggregate.push(&record.partition_key, explicit, record.data);
            }
            assert_eq!(aggregate.encoded_len(), data.len(), "{name}");
            assert_eq!(aggregate.encode(), data, "{name}");
        }
    }

    #[test]
    fn an_explicit_hash_key_that_is_no_number_is_passed_on_and_not_judged() {
        let (_, data, expected) =
            aggregates().into_iter().find(|(name, ..)| name == "ext_node_undefined_ehk").unwrap();
        let nothing = HashRange { start: HashKey(1), end: HashKey(1) };
        assert!(expected.iter().all(|record| record.explicit_hash_key.as_deref() == Some("undefined")));
        assert_eq!(deaggregate(&data, Some(nothing)), aggregated(expected));
    }

    #[test]
    fn each_malformed_one_has_its_outcome() {
        let malformed = &file()["MALFORMED"];
        let x = || aggregated(vec![user_record(0, "p", None, b"x")]);
        let expected = [
            ("bad_magic", Deaggregated::Plain),
            ("bad_md5", Deaggregated::Plain),
            ("empty_body", Deaggregated::Plain),
            ("garbage_proto_good_md5", Deaggregated::Plain),
            ("magic_only", Deaggregated::Plain),
            (
                "pk_index_out_of_range_2nd_of_3",
                Deaggregated::Broken(AggregationError::PartitionKeyIndex {
                    sub_sequence: 1,
                    index: 9,
                    keys: 1,
                }),
            ),
            ("unknown_field_5", x()),
            ("with_tag", x()),
        ];
        assert_eq!(malformed.as_object().unwrap().len(), expected.len());
        for (name, outcome) in expected {
            assert_eq!(deaggregate(&unhex(&malformed[name]), None), outcome, "{name}");
        }
    }
}

mod by_hand {
    use super::*;

    // Fields of the message and, where indented, of a record in it.
    const KEY_P: &[u8] = b"\x0a\x01p";
    const EXPLICIT_5: &[u8] = b"\x12\x015";
    const RECORD_X: &[u8] = b"\x1a\x05\x08\x00\x1a\x01x";
    const UNKNOWN_5: &[u8] = b"\x28\x07";

    fn read(parts: &[&[u8]]) -> Deaggregated {
        deaggregate(&sealed(&parts.concat()), None)
    }

    #[test]
    fn fields_may_come_in_any_order() {
        let x = user_record(0, "p", None, b"x");
        assert_eq!(read(&[RECORD_X, UNKNOWN_5, KEY_P]), aggregated(vec![x.clone()]));
        let data_first = b"\x1a\x07\x1a\x01x\x10\x00\x08\x00";
        let explicit = user_record(1, "p", Some("5"), b"x");
        assert_eq!(read(&[RECORD_X, data_first, EXPLICIT_5, KEY_P]), aggregated(vec![x, explicit]));
    }

    #[test]
    fn a_record_without_explicit_hash_key_has_none_beside_one_that_has() {
        let with = b"\x1a\x07\x08\x00\x10\x00\x1a\x01y";
        let expected = vec![user_record(0, "p", Some("5"), b"y"), user_record(1, "p", None, b"x")];
        assert_eq!(read(&[KEY_P, EXPLICIT_5, with, RECORD_X]), aggregated(expected));
    }

    #[test]
    fn a_missing_required_field_makes_the_record_plain() {
        let no_data = b"\x1a\x02\x08\x00";
        let no_key = b"\x1a\x03\x1a\x01x";
        let empty = b"\x1a\x00";
        let data_of_no_bytes = b"\x1a\x04\x08\x00\x1a\x00";
        for record in [&no_data[..], no_key, empty] {
            assert_eq!(read(&[KEY_P, RECORD_X, record]), Deaggregated::Plain, "{record:x?}");
        }
        assert_eq!(read(&[KEY_P, data_of_no_bytes]), aggregated(vec![user_record(0, "p", None, b"")]));
    }

    #[test]
    fn a_missing_field_counts_before_a_wrong_index() {
        let wrong_index = b"\x1a\x04\x08\x07\x1a\x00";
        let no_data = b"\x1a\x02\x08\x00";
        assert!(matches!(read(&[KEY_P, wrong_index]), Deaggregated::Broken(_)));
        assert_eq!(read(&[KEY_P, wrong_index, no_data]), Deaggregated::Plain);
    }

    #[test]
    fn an_explicit_hash_key_that_is_not_in_the_table_breaks_the_aggregate() {
        let explicit_3 = b"\x1a\x07\x08\x00\x10\x03\x1a\x01x";
        let error = |keys| AggregationError::ExplicitHashKeyIndex { sub_sequence: 1, index: 3, keys };
        assert_eq!(read(&[KEY_P, RECORD_X, explicit_3]), Deaggregated::Broken(error(0)));
        assert_eq!(read(&[KEY_P, EXPLICIT_5, RECORD_X, explicit_3]), Deaggregated::Broken(error(1)));
    }

    #[test]
    fn a_huge_index_does_not_wrap_around() {
        for index in [1u64 << 32, 1 << 63, u64::MAX] {
            let mut record = vec![0x08];
            prost::encode_length_delimiter(index as usize, &mut record).unwrap();
            record.extend_from_slice(b"\x1a\x01x");
            let record = [&[0x1A, record.len() as u8], &record[..]].concat();
            let expected = AggregationError::PartitionKeyIndex { sub_sequence: 0, index, keys: 1 };
            assert_eq!(read(&[KEY_P, &record]), Deaggregated::Broken(expected));
        }
    }

    #[test]
    fn no_user_records_are_no_user_records() {
        assert_eq!(read(&[KEY_P]), aggregated(Vec::new()));
        assert_eq!(read(&[UNKNOWN_5]), aggregated(Vec::new()));
    }

    #[test]
    fn what_protobuf_cannot_read_is_plain() {
        let not_utf8 = b"\x0a\x01\xff";
        let longer_than_the_message = b"\x0a\xff\xff\xff\xff\x7f";
        let longest = b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let groups = [0x2B; 100_000];
        for message in [&not_utf8[..], longer_than_the_message, longest, &groups] {
            assert_eq!(read(&[KEY_P, RECORD_X, message]), Deaggregated::Plain);
        }
    }

    #[test]
    fn payloads_and_keys_are_not_copied() {
        let data = sealed(&[KEY_P, EXPLICIT_5, RECORD_X, b"\x1a\x07\x08\x00\x10\x00\x1a\x01y"].concat());
        let (records, _) = records(&data, None);
        for record in &records {
            assert!(data.as_ptr_range().contains(&record.data.as_ptr()));
        }
        assert!(Arc::ptr_eq(&records[0].partition_key, &records[1].partition_key));
    }

    #[test]
    fn an_error_names_the_record_and_the_index() {
        let error = AggregationError::PartitionKeyIndex { sub_sequence: 1, index: 9, keys: 1 };
        let text = error.to_string();
        assert!(text.contains("user record 1") && text.contains("partition key 9"), "{text}");
    }

    #[test]
    fn only_strays_are_left_out_and_the_others_keep_their_numbers() {
        let mut aggregate = Aggregate::new();
        for key in [10, 9, 20, 21] {
            aggregate.push("p", Some(HashKey(key)), Bytes::new());
        }
        aggregate.push("abcd", None, Bytes::new());
        let range = HashRange { start: HashKey(10), end: HashKey(20) };
        let (kept, left_out) = records(&aggregate.encode(), Some(range));
        let kept: Vec<_> = kept.iter().map(|record| record.sub_sequence).collect();
        assert_eq!(kept, [0, 2]);
        let strays = [(1, HashKey(9)), (3, HashKey(21)), (4, HashKey::of_partition_key("abcd"))];
        assert_eq!(left_out, strays.map(|(sub_sequence, hash_key)| OutOfRange { sub_sequence, hash_key }));
    }

    #[test]
    fn the_encoded_length_is_exact_when_an_index_needs_two_bytes() {
        let mut aggregate = Aggregate::new();
        for key in 0..300u128 {
            let foretold = aggregate.encoded_len_with(&key.to_string(), Some(HashKey(key)), 0);
            aggregate.push(&key.to_string(), Some(HashKey(key)), Bytes::new());
            assert_eq!(aggregate.encoded_len(), foretold);
        }
        assert_eq!(aggregate.encoded_len(), aggregate.encode().len());
    }

    #[test]
    fn an_aggregate_of_nothing_reads_as_plain() {
        let aggregate = Aggregate::new();
        assert!(aggregate.is_empty() && aggregate.encoded_len() == 20);
        assert_eq!(deaggregate(&aggregate.encode(), None), Deaggregated::Plain);
    }
}

mod by_chance {
    use super::*;

    type Pushed = (String, Option<u128>, Vec<u8>);

    /// User records with any keys, many of them equal, and payloads around the lengths at which the length of a
    /// length changes.
    fn pushes() -> impl Strategy<Value = Vec<Pushed>> {
        let partition_key = prop_oneof!["[a-c]", any::<String>(), "[a-z]{126,130}"];
        let explicit = prop::option::of(prop_oneof![0u128..4, any::<u128>()]);
        let length = prop_oneof![8 => 0usize..8, 4 => 110usize..140, 1 => 16_370usize..16_390];
        let data = (length, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]);
        prop::collection::vec((partition_key, explicit, data), 1..150)
    }

    fn aggregate(pushes: &[Pushed]) -> Aggregate {
        let mut aggregate = Aggregate::new();
        for (partition_key, explicit, data) in pushes {
            aggregate.push(partition_key, explicit.map(HashKey), Bytes::copy_from_slice(data));
        }
        aggregate
    }

    fn expected(pushes: &[Pushed]) -> Vec<UserRecord> {
        let records = (0..).zip(pushes).map(|(sub_sequence, (partition_key, explicit, data))| {
            let explicit = explicit.map(|number| number.to_string());
            user_record(sub_sequence, partition_key, explicit.as_deref(), data)
        });
        records.collect()
    }

    /// What holds for whatever `deaggregate` is given.
    fn check(data: &Bytes, range: HashRange) {
        let whole = deaggregate(data, None);
        let filtered = deaggregate(data, Some(range));
        let Deaggregated::Aggregated { records: whole, out_of_range: none } = whole else {
            assert_eq!(whole, filtered);
            return;
        };
        let Deaggregated::Aggregated { records, out_of_range } = filtered else { panic!("{filtered:?}") };
        assert_eq!(none, []);
        assert!((0..).zip(&whole).all(|(index, record)| record.sub_sequence == index));
        let stray = |record: &UserRecord| record.hash_key().filter(|key| !range.contains(*key));
        let strays = whole.iter().filter_map(|record| {
            let (sub_sequence, hash_key) = (record.sub_sequence, stray(record)?);
            Some(OutOfRange { sub_sequence, hash_key })
        });
        assert_eq!(out_of_range, strays.collect::<Vec<_>>());
        let kept: Vec<_> = whole.into_iter().filter(|record| stray(record).is_none()).collect();
        assert_eq!(records, kept);
    }

    fn ranges() -> impl Strategy<Value = HashRange> {
        let key = || prop_oneof![0u128..4, any::<u128>()];
        (key(), key()).prop_map(|(a, b)| HashRange { start: HashKey(a.min(b)), end: HashKey(a.max(b)) })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_encoded_is_decoded(pushes in pushes()) {
            let aggregate = aggregate(&pushes);
            prop_assert_eq!(aggregate.len(), pushes.len());
            prop_assert_eq!(deaggregate(&aggregate.encode(), None), aggregated(expected(&pushes)));
        }

        #[test]
        fn the_encoded_length_is_known_before_and_after_every_push(pushes in pushes()) {
            let mut growing = Aggregate::new();
            for (partition_key, explicit, data) in pushes.into_iter().take(40) {
                let explicit = explicit.map(HashKey);
                let foretold = growing.encoded_len_with(&partition_key, explicit, data.len());
                growing.push(&partition_key, explicit, data.into());
                prop_assert_eq!(growing.encoded_len(), foretold);
                prop_assert_eq!(growing.encoded_len(), growing.encode().len());
            }
        }

        #[test]
        fn exactly_the_strays_are_left_out(pushes in pushes(), range in ranges()) {
            check(&aggregate(&pushes).encode(), range);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn any_bytes_are_read(data: Vec<u8>, range in ranges()) {
            check(&[&MAGIC[..], &data].concat().into(), range);
            check(&data.into(), range);
        }

        #[test]
        fn any_message_is_read(message: Vec<u8>, range in ranges()) {
            check(&sealed(&message), range);
        }

        /// The digest is made anew, so that the change reaches the protobuf message.
        #[test]
        fn a_damaged_aggregate_is_read(
            keys in prop::collection::vec(("[a-c]", prop::option::of(0u128..4)), 1..8),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 1..6),
            range in ranges(),
        ) {
            let pushes: Vec<_> = keys.into_iter().map(|(key, explicit)| (key, explicit, b"data".to_vec())).collect();
            let whole = aggregate(&pushes).encode();
            let mut message = whole[4..whole.len() - 16].to_vec();
            for (at, byte, kind) in damage {
                match kind {
                    _ if message.is_empty() => message.push(byte),
                    0 => message.insert(at.index(message.len()), byte),
                    1 => drop(message.remove(at.index(message.len()))),
                    _ => {
                        let at = at.index(message.len());
                        message[at] = byte;
                    }
                }
            }
            check(&sealed(&message), range);
        }
    }
}
