//! The lines of input.

use actix_kinesis::producer::ProducerEvent;

/// The event of a line `key<TAB>payload[<TAB>explicit hash key]`, whose payload may be any bytes. The error is for people.
pub(crate) fn parse(line: &[u8]) -> Result<ProducerEvent, String> {
    let text = |column| std::str::from_utf8(column).map_err(|error| format!("a key is no UTF-8: {error}"));
    let mut columns = line.split(|byte| *byte == b'\t');
    let (Some(key), Some(payload)) = (columns.next(), columns.next()) else {
        return Err("there is no tab between key and payload".to_owned());
    };
    let event = ProducerEvent::new(text(key)?, payload.to_vec());
    match (columns.next(), columns.next()) {
        (None, _) => Ok(event),
        (Some(key), None) => text(key)?
            .parse()
            .map(|key| event.with_explicit_hash_key(key))
            .map_err(|error| format!("{error}")),
        _ => Err("there are more than three columns".to_owned()),
    }
}
