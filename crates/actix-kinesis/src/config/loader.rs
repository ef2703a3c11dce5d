//! Puts the layers of a configuration together.

use std::collections::HashMap;
use std::path::PathBuf;

use config::{Config, Value};

use super::environment::{self, Overrides};
use super::error::ConfigError;
use super::kinds::EMPTY;
use super::kinesis::{self, KinesisConfig};
use super::reactive::Report;
use super::source::{Hocon, Text};

/// Loads a configuration in layers; a later one wins, key by key:
///
/// 1. `reference.conf`, the defaults, inside the crate;
/// 2. a file or a text;
/// 3. environment variables that begin with `KINESIS__`;
/// 4. [`overrides`](Self::overrides) by the program.
///
/// `KINESIS__ORDERS__WORKER__MAX_BYTES=128MiB` sets `kinesis.orders.worker.max-bytes`: `__` stands between the
/// segments of a path, `_` for `-`, and the name of a section is found whatever its case and its dots. Every variable
/// of this prefix must name a key.
///
/// ```
/// use actix_kinesis::config::ConfigLoader;
///
/// let config = ConfigLoader::text("kinesis { application-name = billing, orders { stream-name = orders } }")
///     .overrides("kinesis.orders.worker.batch-timeout = 5s")
///     .load()?;
/// assert_eq!(config.consumer("orders")?.worker.batch_timeout.as_secs(), 5);
/// # Ok::<(), actix_kinesis::config::ConfigError>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct ConfigLoader {
    input: Input,
    environment: Option<HashMap<String, String>>,
    overrides: Vec<String>,
}

#[derive(Debug)]
enum Input {
    File(PathBuf),
    Text(String),
}

impl ConfigLoader {
    /// Of a HOCON file. Files that it includes are looked for beside it.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::of(Input::File(path.into()))
    }

    /// Of a HOCON text. Files that it includes are looked for in the working directory.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(Input::Text(text.into()))
    }

    fn of(input: Input) -> Self {
        Self { input, environment: None, overrides: Vec::new() }
    }

    /// Takes these environment variables instead of the process's, for `${NAME}` in the file and for `KINESIS__`.
    pub fn environment<N: Into<String>, V: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.environment =
            Some(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
        self
    }

    /// A HOCON text over all else, such as `kinesis.orders.worker.batch-timeout = 5s`. May be called again.
    pub fn overrides(mut self, text: impl Into<String>) -> Self {
        self.overrides.push(text.into());
        self
    }

    /// Loads and checks everything, and logs the [warnings](KinesisConfig::warnings).
    ///
    /// # Errors
    /// Whatever is wrong with any consumer of the configuration, used or not: all problems at once, unless a text is
    /// no HOCON at all.
    pub fn load(self) -> Result<KinesisConfig, ConfigError> {
        let environment = self.environment.unwrap_or_else(environment::of_process);
        let text = match self.input {
            Input::File(path) => Text::read(&path)?,
            Input::Text(text) => Text::new(&text, "the configuration text"),
        };
        let mut report = Report::default();
        let file = Hocon::load(&text, &environment, &mut report)?;
        let variables = Overrides::of(&environment, &file.names());
        let mut layers =
            Config::builder().add_source(Hocon::reference()?).add_source(file).add_source(variables);
        for text in &self.overrides {
            layers =
                layers.add_source(Hocon::load(&Text::new(text, "the overrides"), &environment, &mut report)?);
        }
        let merged = merge(layers)?;
        let mut config = kinesis::read(&merged, &mut report);
        let empty = empty_variables(&environment);
        report.problems.iter_mut().for_each(|problem| name_empty_variables(problem, &empty));
        ConfigError::of(report.problems)?;
        report.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        config.warnings = report.warnings;
        Ok(config)
    }
}

fn merge(layers: config::ConfigBuilder<config::builder::DefaultState>) -> Result<Value, ConfigError> {
    layers.build().map(|config| config.cache).map_err(|error| ConfigError::Syntax {
        origin: "the configuration".to_owned(),
        line: 1,
        column: 1,
        problem: error.to_string(),
    })
}

fn empty_variables(environment: &HashMap<String, String>) -> Vec<&str> {
    let mut empty: Vec<_> = environment
        .iter()
        .filter(|(_, value)| value.trim().is_empty())
        .map(|(name, _)| name.as_str())
        .collect();
    empty.sort_unstable();
    empty
}

/// An empty value often comes from a variable that is set to nothing, which is not the same as unset.
fn name_empty_variables(problem: &mut ConfigError, empty: &[&str]) {
    if let ConfigError::Value { found, .. } = problem
        && found == EMPTY
        && !empty.is_empty()
    {
        *found =
            format!("{EMPTY} (environment variables that are set, but to nothing: {})", empty.join(", "));
    }
}
