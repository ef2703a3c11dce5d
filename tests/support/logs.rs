//! What is logged while a test runs.

use std::cell::RefCell;
use std::io::{self, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::{MakeWriter, TestWriter};

thread_local! {
    /// What the thread has logged, if its test wants to know.
    static KEPT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Lets `RUST_LOG=debug` show what a failing test did.
pub(crate) fn install() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // Another test has done it, most likely.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Lines).try_init();
}

/// The lines that this thread logs, from the level INFO on, as long as this lives. A consumer on the current thread
/// logs all of its lines there.
pub(crate) struct Logs(());

impl Logs {
    pub(crate) fn of_this_thread() -> Self {
        install();
        KEPT.set(Some(Vec::new()));
        Self(())
    }

    /// The lines that have all of these parts, the level (`" WARN "`) among them perhaps.
    pub(crate) fn with(&self, parts: &[&str]) -> Vec<String> {
        let text = KEPT
            .with_borrow(|kept| String::from_utf8_lossy(kept.as_deref().unwrap_or_default()).into_owned());
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        text.lines().filter(has_all).map(str::to_owned).collect()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        KEPT.set(None);
    }
}

struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        KEPT.with_borrow_mut(|kept| kept.iter_mut().for_each(|kept| kept.extend_from_slice(line)));
        if std::env::var_os("RUST_LOG").is_some() {
            return TestWriter::new().write(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self::Writer {
        Self
    }
}
