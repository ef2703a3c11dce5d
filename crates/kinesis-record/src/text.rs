//! The serde form of values that the service writes as text.

/// A value that `Display` writes and `FromStr` reads is a text in serde.
macro_rules! text_in_serde {
    ($value:ty) => {
        impl serde::Serialize for $value {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $value {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use text_in_serde;

#[cfg(test)]
mod tests {
    use crate::{Checkpoint, HashRange, Position, Shard};

    #[test]
    fn a_shard_survives_json_with_its_numbers_as_text() {
        let shard = Shard {
            id: "shardId-1".into(),
            hash_range: HashRange::ALL,
            parents: vec!["shardId-0".into()],
            starting_sequence: "0049640000000000000000000000000000000000000000000000000002".parse().unwrap(),
            ending_sequence: None,
        };
        let json = serde_json::to_string(&shard).unwrap();
        for text in [r#""shardId-1""#, r#""00496400000"#, r#""340282366920938463463374607431768211455""#] {
            assert!(json.contains(&text[..text.len() - 1]), "{json}");
        }
        assert_eq!(serde_json::from_str::<Shard>(&json).unwrap(), shard);
    }

    #[test]
    fn a_checkpoint_survives_json_with_the_names_of_the_lease_table() {
        let position = Position::new("49".parse().unwrap(), -1);
        let forms = [
            (Checkpoint::AtTimestamp, r#""AT_TIMESTAMP""#),
            (Checkpoint::TrimHorizon, r#""TRIM_HORIZON""#),
            (Checkpoint::Latest, r#""LATEST""#),
            (Checkpoint::At(position), r#"{"AT":{"sequence":"49","sub_sequence":-1}}"#),
            (Checkpoint::ShardEnd, r#""SHARD_END""#),
        ];
        for (checkpoint, json) in forms {
            assert_eq!(serde_json::to_string(&checkpoint).unwrap(), json);
            assert_eq!(serde_json::from_str::<Checkpoint>(json).unwrap(), checkpoint);
        }
        assert!(serde_json::from_str::<Position>(r#"{"sequence":"4e9","sub_sequence":0}"#).is_err());
    }
}
