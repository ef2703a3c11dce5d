//! Runs the lease coordinators again whose journals are in a log, and says where they do something else.
//!
//! ```sh
//! RUST_LOG=info,kinesis_lease::journal=trace my-application 2> application.log
//! cargo run -p kinesis-lease --example replay -- application.log    # or the log on stdin
//! ```
//!
//! The log is that of an application: entries are found whatever stands before them, in lines of text and in lines of
//! JSON. It prints every input (`<`) and effect (`>`) with the time since the consumer was made, on its own clock, and in
//! the end for each run whether its effects are the same. The runs, one for each consumer of each process, are numbered.
//!
//! Exit code: 0 if all effects are the same, 1 if some differ, 2 if the log cannot be replayed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::process::ExitCode;

use kinesis_lease::Lease;
use kinesis_lease::journal::{Entry, Event, Input, JournalError, Replay};
use kinesis_record::Shard;

const DIFFERENT: u8 = 1;
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let file = arguments.next();
    if arguments.next().is_some() || file.as_ref().is_some_and(|file| file.to_string_lossy().starts_with('-'))
    {
        eprintln!("replay: one log file as the only argument, or the log on stdin");
        return ExitCode::from(UNUSABLE);
    }
    let log: Box<dyn BufRead> = match &file {
        None => Box::new(io::stdin().lock()),
        Some(path) => match File::open(path) {
            Ok(file) => Box::new(BufReader::new(file)),
            Err(error) => {
                eprintln!("replay: {}: {error}", path.to_string_lossy());
                return ExitCode::from(UNUSABLE);
            }
        },
    };
    let mut report = Report::new(BufWriter::new(io::stdout().lock()));
    match report.read(log).and_then(|()| report.conclude()) {
        Ok(code) => ExitCode::from(code),
        // Whoever reads the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replay: {error}");
            ExitCode::from(UNUSABLE)
        }
    }
}

/// What is printed.
struct Report<W> {
    out: W,
    replay: Replay,
    /// The runs' numbers.
    numbers: BTreeMap<String, usize>,
    /// Where each run that was not followed to its end failed.
    failures: BTreeMap<String, (usize, JournalError)>,
    /// Where reading had to stop.
    unreadable: Option<(usize, JournalError)>,
}

impl<W: Write> Report<W> {
    fn new(out: W) -> Self {
        Self {
            out,
            replay: Replay::default(),
            numbers: BTreeMap::new(),
            failures: BTreeMap::new(),
            unreadable: None,
        }
    }

    fn read(&mut self, log: impl BufRead) -> io::Result<()> {
        for (index, line) in log.split(b'\n').enumerate() {
            let line = line?;
            match Entry::find(&String::from_utf8_lossy(&line)) {
                None => {}
                Some(Ok(entry)) => self.follow(index + 1, entry)?,
                // An entry that is missing would be taken for a difference later on.
                Some(Err(error)) => {
                    self.unreadable = Some((index + 1, error));
                    break;
                }
            }
        }
        Ok(())
    }

    fn follow(&mut self, line: usize, entry: Entry) -> io::Result<()> {
        let run = entry.run.clone();
        if matches!(entry.event, Event::Begin { .. }) {
            self.failures.remove(&run);
        } else if self.failures.contains_key(&run) {
            return Ok(());
        }
        let next = self.numbers.len() + 1;
        let number = *self.numbers.entry(run.clone()).or_insert(next);
        self.print(number, &entry)?;
        if let Err(error) = self.replay.follow(entry) {
            writeln!(self.out, "#{number} line {line}: {error}")?;
            self.failures.insert(run, (line, error));
        }
        Ok(())
    }

    fn print(&mut self, number: usize, entry: &Entry) -> io::Result<()> {
        let out = &mut self.out;
        match &entry.event {
            Event::Begin { seed, settings } => {
                writeln!(out, "#{number} begins: {}, seed {seed}, {settings:?}", entry.run)
            }
            Event::In { at, input, .. } => {
                write!(out, "#{number} {:>12.6} < ", at.as_secs_f64())?;
                match input {
                    Input::Scanned(Ok(scan)) => {
                        writeln!(
                            out,
                            "Scanned: {} rows, unreadable: {:?}",
                            scan.leases.len(),
                            scan.unreadable
                        )?;
                        scan.leases
                            .iter()
                            .try_for_each(|row| writeln!(out, "#{number} {:>18}{}", "", summary(row)))
                    }
                    Input::Listed(Ok(shards)) => {
                        writeln!(out, "Listed: {} shards", shards.len())?;
                        shards.iter().try_for_each(|shard| {
                            writeln!(out, "#{number} {:>18}{}", "", summary_of_shard(shard))
                        })
                    }
                    input => writeln!(out, "{input:?}"),
                }
            }
            Event::Out(effect) => writeln!(out, "#{number} {:>12} > {effect:?}", ""),
        }
    }

    /// Says how it ended, and returns the exit code.
    fn conclude(&mut self) -> io::Result<u8> {
        let mut code = 0;
        let mut names: Vec<_> = self.numbers.iter().collect();
        names.sort_by_key(|(_, number)| **number);
        for (name, number) in names {
            let Some(run) = self.replay.runs().get(name) else { continue };
            let (inputs, effects) = run.followed();
            write!(self.out, "#{number} {name}: {inputs} inputs, {effects} effects, ")?;
            match self.failures.get(name) {
                None => writeln!(self.out, "same effects")?,
                Some((line, error)) => writeln!(self.out, "then line {line}: {error}")?,
            }
        }
        if self.failures.values().any(|(_, error)| matches!(error, JournalError::Differs(_))) {
            code = DIFFERENT;
        } else if !self.failures.is_empty() {
            code = UNUSABLE;
        }
        if let Some((line, error)) = &self.unreadable {
            writeln!(self.out, "line {line}: {error}; nothing behind it was read")?;
            code = code.max(UNUSABLE);
        } else if self.numbers.is_empty() {
            writeln!(
                self.out,
                "no entry of a journal in this log: the application must log the target \
                 kinesis_lease::journal at the level TRACE"
            )?;
            code = UNUSABLE;
        }
        self.out.flush()?;
        Ok(code)
    }
}

/// A row in one line, without what is usual.
fn summary(row: &Lease) -> String {
    let mut text = format!("{} {} counter {}", row.shard, row.checkpoint, row.counter);
    let parts = [
        ("owner", row.owner.as_ref().map(ToString::to_string)),
        ("drained by", row.checkpoint_owner.as_ref().map(ToString::to_string)),
        ("asked by", row.asked_by.as_ref().map(ToString::to_string)),
        ("token", row.token.clone()),
    ];
    for (name, value) in parts {
        text.extend(value.map(|value| format!(", {name} {value}")));
    }
    if row.is_offered {
        text.push_str(", offered");
    }
    for (name, shards) in [("parents", &row.parents), ("children", &row.children)] {
        if !shards.is_empty() {
            text.push_str(&format!(", {name} {shards:?}"));
        }
    }
    text
}

fn summary_of_shard(shard: &Shard) -> String {
    let state = if shard.is_open() { "open" } else { "closed" };
    let parents =
        if shard.parents.is_empty() { String::new() } else { format!(", parents {:?}", shard.parents) };
    format!("{} {state}, {}{parents}", shard.id, shard.hash_range)
}
