//! The KPL aggregation format: many *user records* packed into the data of one Kinesis record.
//!
//! | bytes | hold |
//! |---|---|
//! | 4 | the magic number `F3 89 9A C2` |
//! | 1.. | a protobuf message: a table of partition keys, one of explicit hash keys, and the user records, which name their keys by index |
//! | 16 | the MD5 of that message |
//!
//! [`deaggregate`] reads it as the KCL does, save that nothing is lost where the KCL drops records: see
//! [`Deaggregated`]. [`Aggregate`] writes it byte for byte as the KPL does.
//!
//! ```
//! use bytes::Bytes;
//! use kinesis_record::aggregation::{Aggregate, Deaggregated, deaggregate};
//!
//! let mut aggregate = Aggregate::new();
//! aggregate.push("blue", None, Bytes::from_static(b"one"));
//! aggregate.push("blue", None, Bytes::from_static(b"two"));
//!
//! let Deaggregated::Aggregated { records, .. } = deaggregate(&aggregate.encode(), None) else { unreachable!() };
//! assert_eq!(records[1].sub_sequence, 1);
//! assert_eq!(&*records[1].partition_key, "blue");
//! assert_eq!(records[1].data, "two");
//!
//! assert_eq!(deaggregate(&Bytes::from_static(b"no aggregate"), None), Deaggregated::Plain);
//! ```

mod decode;
mod encode;
mod wire;

pub use decode::{AggregationError, Deaggregated, OutOfRange, UserRecord, deaggregate};
pub use encode::Aggregate;
