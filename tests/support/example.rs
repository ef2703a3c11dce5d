//! Runs the examples, as they are now.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Set by cargo for the program that it runs. Left in place, they would make build scripts of the examples'
/// dependencies run anew.
const OF_THE_TEST: [&str; 6] = [
    "CARGO_BIN_EXE_",
    "CARGO_CRATE_NAME",
    "CARGO_MANIFEST_",
    "CARGO_PKG_",
    "CARGO_PRIMARY_PACKAGE",
    "LD_LIBRARY_PATH",
];

/// The program of an example of this workspace. Cargo builds examples along with all tests, but not along with one of them
/// (`cargo test --test probe`): a program that is missing or older than its sources is built here, with these features.
pub(crate) fn example(name: &str, features: &[&str]) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Beside the folder of the tests.
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().parent().unwrap();
    let program = folder.join("examples").join(name);
    if !is_fresh(&program) {
        build(name, features, folder);
        assert!(is_fresh(&program), "{} is not built from what is there", program.display());
    }
    program
}

/// Whether the program is newer than all that it is made of, as cargo has listed it.
fn is_fresh(program: &Path) -> bool {
    let changed = |file: &Path| fs::metadata(file).and_then(|data| data.modified()).ok();
    let (Some(built), Ok(list)) = (changed(program), fs::read_to_string(program.with_extension("d"))) else {
        return false;
    };
    let is_older = |file: &str| changed(Path::new(file)).is_some_and(|changed: SystemTime| changed <= built);
    // `program: source source ..`, with a backslash before a space in a name.
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources.trim_end()).replace("\\ ", "\0");
    sources.split(' ').all(|source| is_older(&source.replace('\0', " ")))
}

fn build(name: &str, features: &[&str], folder: &Path) {
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let mut command = cargo();
    command.args(["build", "--quiet", "--example", name, "--profile", profile, "--target-dir"]);
    command.arg(folder.parent().unwrap()).args(["--features", &features.join(",")]);
    // From the root, where features are those of the whole workspace, as for `cargo test`.
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let built = command.output().unwrap();
    let why = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "the example {name} cannot be built:\n{why}");
}

/// Cargo, as if it were not called by a test.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (variable, _) in std::env::vars_os() {
        let is_of_the_test = |name: &str| OF_THE_TEST.iter().any(|start| name.starts_with(start));
        if variable.to_str().is_some_and(is_of_the_test) {
            command.env_remove(&variable);
        }
    }
    command
}
