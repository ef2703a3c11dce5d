//! HOCON as a layer of the configuration: guarded, parsed, resolved once over `reference.conf` and translated.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use config::{Map, Source, Value, ValueKind};
use hocon::HoconValue::{self, Object};
use hocon::{Config, HoconError, ParseOptions, ResolveOptions, ScalarType, ScalarValue};

use super::error::ConfigError;
use super::guard::{self, Include, Scan, Substitution};
use super::leaves::join;
use super::reactive::{self, Report};

/// Every default, with a comment for each key.
pub(super) const REFERENCE: &str = include_str!("../../reference.conf");

/// What is under `kinesis` in a HOCON text, without the defaults.
#[derive(Debug, Clone)]
pub(super) struct Hocon {
    kinesis: Map<String, Value>,
}

/// A text and where it comes from.
#[derive(Debug)]
pub(super) struct Text {
    content: String,
    /// The file, or what else to call it.
    origin: String,
    /// Where the files are that it includes.
    directory: PathBuf,
}

impl Text {
    /// A text that is in no file. What it includes is looked for in the working directory.
    pub(super) fn new(content: &str, origin: &str) -> Self {
        Self { content: content.to_owned(), origin: origin.to_owned(), directory: working_directory() }
    }

    /// The text of a file.
    pub(super) fn read(file: &Path) -> Result<Self, ConfigError> {
        let content = std::fs::read_to_string(file)
            .map_err(|cause| ConfigError::Read { file: file.to_owned(), cause })?;
        let directory = match file.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => working_directory(),
        };
        Ok(Self { content, origin: file.display().to_string(), directory })
    }
}

fn working_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_default()
}

impl Hocon {
    /// The defaults alone.
    pub(super) fn reference() -> Result<Self, ConfigError> {
        let text = Text::new(REFERENCE, "reference.conf");
        let files = Files::of(&text, &mut Vec::new())?;
        let resolved = files.resolve(&files.parse()?)?;
        Ok(Self { kinesis: kinesis(&resolved, None) })
    }

    /// What `text` says. Its substitutions see its own keys, those of `reference.conf` and `environment`.
    pub(super) fn load(
        text: &Text,
        environment: &HashMap<String, String>,
        report: &mut Report,
    ) -> Result<Self, ConfigError> {
        let reference = hocon::parse_with_env(REFERENCE, &HashMap::new())
            .map_err(|error| syntax("reference.conf", 1, 1, &error))?;
        let files = Files::of(text, &mut report.warnings)?;
        let environment = variables(environment);
        let parsed = files.parse()?;
        let alone = parsed.with_fallback(&environment);
        let mut resolved = files.resolve(&parsed.with_fallback(&reference).with_fallback(&environment))?;
        // The defaults are a layer of their own: what stays here is what somebody wrote.
        let written = alone.resolve(options().with_allow_unresolved(true)).ok();
        if let (Some(Object(all)), Some(Object(defaults))) = (&mut resolved, reference.get("kinesis")) {
            let written = written.as_ref().and_then(|written| written.get("kinesis"));
            all.retain(|key, value| {
                keep(value, defaults.get(key), written.and_then(|it| it.as_object()?.get(key)))
            });
        }
        let mut kinesis = kinesis(&resolved, Some(&files.origin()));
        reactive::translate(&mut kinesis, report);
        Ok(Self { kinesis })
    }

    /// The names at the level of `kinesis`.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.kinesis.keys().cloned().collect();
        names.sort();
        names
    }
}

impl Source for Hocon {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, config::ConfigError> {
        Ok(Map::from([("kinesis".to_owned(), Value::new(None, self.kinesis.clone()))]))
    }
}

/// The environment is looked up through [`variables`], never by the parser.
fn options() -> ResolveOptions {
    ResolveOptions::defaults().with_use_system_environment(false)
}

/// Environment variables as the lowest layer of substitutions.
fn variables(environment: &HashMap<String, String>) -> Config {
    let scalar = |value: &String| HoconValue::Scalar(ScalarValue::string(value.clone()));
    // A variable of this name would be taken for the whole configuration.
    let variables = environment.iter().filter(|(name, _)| *name != "kinesis");
    Config::new(variables.map(|(name, value)| (name.clone(), scalar(value))).collect())
}

/// Removes from `value` what it has only from the defaults; whether something is left.
fn keep(value: &mut HoconValue, default: Option<&HoconValue>, written: Option<&HoconValue>) -> bool {
    match (value, default, written) {
        (_, None, _) => true,
        (Object(section), Some(Object(defaults)), None) => {
            section.retain(|key, value| keep(value, defaults.get(key), None));
            !section.is_empty()
        }
        (Object(section), Some(Object(defaults)), Some(Object(written))) => {
            section.retain(|key, value| keep(value, defaults.get(key), written.get(key)));
            true
        }
        (value, Some(default), None) => value != default,
        (_, Some(_), Some(_)) => true,
    }
}

fn kinesis(resolved: &Option<HoconValue>, origin: Option<&String>) -> Map<String, Value> {
    match resolved {
        Some(Object(section)) => table(section.iter(), origin),
        _ => Map::new(),
    }
}

fn table<'a>(
    entries: impl Iterator<Item = (&'a String, &'a HoconValue)>,
    origin: Option<&String>,
) -> Map<String, Value> {
    entries.map(|(key, value)| (key.clone(), layer_value(value, origin))).collect()
}

/// Scalars keep their text, so that a worker id 007 does not become 7.
fn layer_value(value: &HoconValue, origin: Option<&String>) -> Value {
    let kind = match value {
        Object(section) => ValueKind::Table(table(section.iter(), origin)),
        HoconValue::Array(items) => {
            ValueKind::Array(items.iter().map(|item| layer_value(item, origin)).collect())
        }
        HoconValue::Scalar(scalar) if scalar.value_type != ScalarType::Null => {
            ValueKind::String(scalar.raw.clone())
        }
        _ => ValueKind::Nil,
    };
    Value::new(origin, kind)
}

/// A text with all that it includes.
struct Files<'a> {
    text: &'a Text,
    /// Origin and scan of each, the text itself first.
    scans: Vec<(String, Scan)>,
}

impl<'a> Files<'a> {
    /// Scans the text and what it includes. A file that may be missing and is, is worth a warning.
    fn of(text: &'a Text, warnings: &mut Vec<String>) -> Result<Self, ConfigError> {
        let mut files = Self { text, scans: Vec::new() };
        let mut open =
            vec![(text.origin.clone(), text.directory.clone(), guard::scan(&text.content, &text.origin)?)];
        while let Some((origin, directory, scan)) = open.pop() {
            for include in &scan.includes {
                let candidates = candidates(include, &directory);
                if !candidates.iter().any(|candidate| candidate.exists()) {
                    let Include { path, line, .. } = include;
                    warnings.push(format!(
                        "{origin}:{line}: include \"{path}\" finds no file and is left out; required(..) makes that \
                         an error"
                    ));
                }
                for candidate in candidates {
                    let origin = candidate.display().to_string();
                    let seen = files
                        .scans
                        .iter()
                        .map(|(origin, _)| origin)
                        .chain(open.iter().map(|(origin, ..)| origin));
                    let seen = seen.chain([&text.origin]).any(|seen| *seen == origin);
                    // A .properties file is no HOCON.
                    if seen || candidate.extension().is_some_and(|extension| extension == "properties") {
                        continue;
                    }
                    if let Ok(content) = std::fs::read_to_string(&candidate) {
                        let directory = candidate.parent().unwrap_or(Path::new("")).to_owned();
                        let scan = guard::scan(&content, &origin)?;
                        open.push((origin, directory, scan));
                    }
                }
            }
            files.scans.push((origin, scan));
        }
        Ok(files)
    }

    /// What to call the place of a value: the parser does not say from which file it is.
    fn origin(&self) -> String {
        match self.scans.len() {
            0 | 1 => self.text.origin.clone(),
            _ => format!("{} or a file that it includes", self.text.origin),
        }
    }

    fn parse(&self) -> Result<Config, ConfigError> {
        let options = ParseOptions::defaults()
            .with_resolve_substitutions(false)
            .with_origin_description(self.text.origin.clone())
            .with_base_dir(self.text.directory.clone())
            .with_env(HashMap::new());
        hocon::parse_string_with_options(&self.text.content, options).map_err(|error| self.error(error, None))
    }

    /// The resolved value of `kinesis`.
    fn resolve(&self, config: &Config) -> Result<Option<HoconValue>, ConfigError> {
        match config.resolve(options()) {
            Ok(resolved) => Ok(resolved.get("kinesis").cloned()),
            Err(error) => {
                let partly = config.resolve(options().with_allow_unresolved(true)).ok();
                Err(self.error(error, partly.as_ref()))
            }
        }
    }

    /// An error of the parser. `partly` still has the keys whose substitutions failed.
    fn error(&self, error: HoconError, partly: Option<&Config>) -> ConfigError {
        let error = match error {
            HoconError::Parse(error) => {
                return syntax(&self.text.origin, error.line, error.col, &error.message);
            }
            HoconError::Resolve(error) => error,
            other => return syntax(&self.text.origin, 1, 1, &other),
        };
        if let Some((origin, _)) = self.scans.iter().find(|(origin, _)| *origin == error.path) {
            return syntax(origin, error.line, error.col, &error.message);
        }
        // Inside an included section the parser puts the section's path before that of the substitution.
        let is_same =
            |it: &Substitution| error.path == it.path || error.path.ends_with(&format!(".{}", it.path));
        let is_here = |it: &Substitution| (it.line, it.column) == (error.line, error.col) && is_same(it);
        let found = self.scans.iter().find_map(|(origin, scan)| {
            let substitution = scan.substitutions.iter().find(|substitution| is_here(substitution))?;
            Some((origin.clone(), substitution.path.clone()))
        });
        let (origin, path) = found.unwrap_or_else(|| (self.text.origin.clone(), error.path.clone()));
        let mut keys = Vec::new();
        if let Some(kinesis) = partly.and_then(|partly| partly.get("kinesis")) {
            unresolved(kinesis, "kinesis".to_owned(), &mut keys);
        }
        let problem = match keys.as_slice() {
            [] => error.message,
            keys if error.message.starts_with("could not resolve") => format!(
                "no value for {}: ${{{path}}} is neither a key nor an environment variable: set it, or write \
                 ${{?{path}}} if it may be absent",
                keys.join(", ")
            ),
            keys => format!("no value for {}: {}", keys.join(", "), error.message),
        };
        ConfigError::Unresolved { origin, line: error.line, column: error.col, path, problem }
    }
}

fn syntax(origin: &str, line: usize, column: usize, problem: &dyn ToString) -> ConfigError {
    ConfigError::Syntax { origin: origin.to_owned(), line, column, problem: problem.to_string() }
}

/// The files that the parser looks for.
fn candidates(include: &Include, directory: &Path) -> Vec<PathBuf> {
    let path = match include.from_working_directory {
        true => working_directory().join(&include.path),
        false => directory.join(&include.path),
    };
    if path.extension().is_some() {
        return vec![path];
    }
    ["conf", "json", "properties"].map(|extension| path.with_extension(extension)).into()
}

fn unresolved(value: &HoconValue, path: String, keys: &mut Vec<String>) {
    match value {
        HoconValue::Placeholder(_) => keys.push(path),
        Object(section) => section.iter().for_each(|(key, value)| unresolved(value, join(&path, key), keys)),
        HoconValue::Array(items) => items.iter().for_each(|item| unresolved(item, path.clone(), keys)),
        _ => {}
    }
}
