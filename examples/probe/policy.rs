//! How deliveries are answered: a JSON file, read again when it changes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;

/// How long a policy is taken for current without a look at its file.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// How deliveries are answered.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Policy {
    pub(crate) ack: Ack,
    pub(crate) delay_ms: u64,
    pub(crate) hold_after: Option<u64>,
    pub(crate) fail_on: Option<String>,
    pub(crate) panic_on: Option<String>,
    pub(crate) block_on: Option<String>,
    pub(crate) block_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ack {
    All,
    None,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ack: Ack::All,
            delay_ms: 0,
            hold_after: None,
            fail_on: None,
            panic_on: None,
            block_on: None,
            block_ms: 1000,
        }
    }
}

/// Whether a payload contains the text, if there is one.
pub(crate) fn contains(payload: &[u8], text: Option<&str>) -> bool {
    match text.map(str::as_bytes) {
        None => false,
        Some([]) => true,
        Some(text) => payload.windows(text.len()).any(|window| window == text),
    }
}

/// The policy of the moment.
pub(crate) struct Policies {
    file: Option<PathBuf>,
    current: Mutex<Current>,
}

struct Current {
    policy: Arc<Policy>,
    version: io::Result<Version>,
    checked: Instant,
}

/// What changes when a file does.
type Version = (SystemTime, u64);

impl Policies {
    /// The policy in a file; without one, everything is answered as processed.
    pub(crate) fn load(file: Option<PathBuf>) -> Result<Self, String> {
        let (policy, version) = match &file {
            None => (Policy::default(), Err(io::ErrorKind::NotFound.into())),
            // The version is asked for first: a change after that is seen at the next look.
            Some(file) => {
                let version = version(file);
                (read(file)?, version)
            }
        };
        let current = Current { policy: Arc::new(policy), version, checked: Instant::now() };
        Ok(Self { file, current: Mutex::new(current) })
    }

    pub(crate) fn current(&self) -> Arc<Policy> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &self.file
            && current.checked.elapsed() >= CHECK_INTERVAL
        {
            current.checked = Instant::now();
            let version = version(file);
            if version.as_ref().ok() != current.version.as_ref().ok() {
                current.version = version;
                match read(file) {
                    Ok(policy) => current.policy = Arc::new(policy),
                    Err(error) => tracing::warn!(error, "the policy stays as it was"),
                }
            }
        }
        Arc::clone(&current.policy)
    }
}

fn version(file: &Path) -> io::Result<Version> {
    let data = fs::metadata(file)?;
    Ok((data.modified()?, data.len()))
}

fn read(file: &Path) -> Result<Policy, String> {
    let name = file.display();
    let text = fs::read(file).map_err(|error| format!("the policy {name} cannot be read: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("the policy {name} is wrong: {error}"))
}
