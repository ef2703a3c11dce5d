//! What the tests of the configuration share.

use actix_kinesis::config::{ConfigError, ConfigLoader, ConsumerConf, KinesisConfig};

/// Loads a text with no environment.
pub(crate) fn load(text: &str) -> Result<KinesisConfig, ConfigError> {
    load_in(text, &[])
}

/// Loads a text in an environment.
pub(crate) fn load_in(text: &str, environment: &[(&str, &str)]) -> Result<KinesisConfig, ConfigError> {
    ConfigLoader::text(text).environment(environment.iter().copied()).load()
}

/// A configuration with one consumer, `orders`, whose section has these lines.
pub(crate) fn with_orders(lines: &str) -> String {
    format!("kinesis {{\n application-name = billing\n orders {{\n stream-name = orders\n {lines}\n }}\n}}\n")
}

/// The consumer of [`with_orders`].
pub(crate) fn orders(lines: &str) -> ConsumerConf {
    load(&with_orders(lines))
        .and_then(|config| config.consumer("orders"))
        .unwrap_or_else(|error| panic!("{lines}: {error}"))
}

/// Why [`with_orders`] does not load.
pub(crate) fn refusal(lines: &str) -> String {
    refused(&with_orders(lines))
}

/// Why a text does not load.
pub(crate) fn refused(text: &str) -> String {
    match load(text) {
        Ok(config) => panic!("{text}\nloads: {config:?}"),
        Err(error) => error.to_string(),
    }
}

/// Asserts that a text has all these parts.
pub(crate) fn assert_tells(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}
