//! Child processes that may not end.

use std::io::{Read, Write};
use std::process::{Child, ExitStatus, Output};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// How long something is waited for. Nothing takes longer, however busy the machine is.
pub(crate) struct Patience {
    what: String,
    begin: Instant,
}

impl Patience {
    pub(crate) fn until(what: &str) -> Self {
        Self { what: what.to_owned(), begin: Instant::now() }
    }

    /// Fails the test when it has taken too long.
    pub(crate) fn check(&self) {
        assert!(self.begin.elapsed() < Duration::from_mins(2), "waited in vain for {}", self.what);
    }
}

/// Kills a child when it is dropped.
struct Mortal(Child);

impl Drop for Mortal {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a child ends. Whoever has it must kill it if it does not.
pub(crate) fn wait(child: &mut Child, name: &str) -> ExitStatus {
    let patience = Patience::until(&format!("the end of {name}"));
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        patience.check();
        sleep(Duration::from_millis(5));
    }
}

/// Gives a child this input, and waits until it ends. Its pipes are those that were asked for.
pub(crate) fn output(mut child: Child, input: Vec<u8>, name: &str) -> Output {
    fn read(pipe: Option<impl Read>) -> Vec<u8> {
        let mut bytes = Vec::new();
        pipe.map(|mut pipe| pipe.read_to_end(&mut bytes).unwrap());
        bytes
    }
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    // It may end before it has read everything.
    spawn(move || drop(stdin.map(|mut stdin| stdin.write_all(&input))));
    let (stdout, stderr) = (spawn(move || read(stdout)), spawn(move || read(stderr)));
    let status = wait(&mut Mortal(child).0, name);
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}
