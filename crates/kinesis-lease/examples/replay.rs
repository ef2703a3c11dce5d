//! Runs the lease coordinators again whose journals are in a log, and says where they do something else.
//!
//! ```sh
//! RUST_LOG=info,kinesis_lease::journal=trace my-application 2> application.log
//! cargo run -p kinesis-lease --example replay -- application.log    # or the log on stdin
//! ```
//!
//! The log is that of an application: entries are found whatever stands before them, in lines of text and in lines of
//! JSON, also if the runtime of its container has put these into JSON again. It prints every input (`<`) and effect (`>`)
//! with the time since the consumer was made, on its own clock, and in the end for each run whether its effects are the
//! same. The runs, one for each consumer of each process, are numbered.
//!
//! Exit code: 0 if all effects are the same, 1 if some differ, 2 if a run cannot be replayed at all or the log has none,
//! 3 if a run is the same as far as it goes, but an entry of it is missing or broken, or its journal ended before it did.
//! Of several the first in the order 1, 2, 3, 0.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::process::ExitCode;

use kinesis_lease::Lease;
use kinesis_lease::journal::{Entry, Event, Input, JournalError, Replay, Unreadable};
use kinesis_record::Shard;

const DIFFERENT: u8 = 1;
const UNUSABLE: u8 = 2;
const INCOMPLETE: u8 = 3;

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
    /// Whether a line was broken whose run is not known.
    has_lost_line: bool,
}

impl<W: Write> Report<W> {
    fn new(out: W) -> Self {
        Self {
            out,
            replay: Replay::default(),
            numbers: BTreeMap::new(),
            failures: BTreeMap::new(),
            has_lost_line: false,
        }
    }

    fn read(&mut self, log: impl BufRead) -> io::Result<()> {
        for (index, line) in log.split(b'\n').enumerate() {
            let line = line?;
            match Entry::find(&String::from_utf8_lossy(&line)) {
                None => {}
                Some(Ok(entry)) => self.follow(index + 1, entry)?,
                Some(Err(unreadable)) => self.pass_over(index + 1, unreadable)?,
            }
        }
        Ok(())
    }

    fn pass_over(&mut self, line: usize, unreadable: Unreadable) -> io::Result<()> {
        let Unreadable { run, error } = unreadable;
        let Some(run) = run else {
            // The run that it belongs to misses an entry then.
            self.has_lost_line = true;
            return writeln!(self.out, "line {line}: {error}");
        };
        if self.replay.abandon(&run) { self.fail(line, &run, error) } else { Ok(()) }
    }

    fn follow(&mut self, line: usize, entry: Entry) -> io::Result<()> {
        let run = entry.run.clone();
        let events = match self.replay.read(entry) {
            Ok(events) => events,
            Err(error) => return self.fail(line, &run, error),
        };
        for event in events {
            self.print(&run, &event)?;
            if let Err(error) = self.replay.follow(&run, event) {
                return self.fail(line, &run, error);
            }
        }
        Ok(())
    }

    fn fail(&mut self, line: usize, run: &str, error: JournalError) -> io::Result<()> {
        let number = self.number(run);
        writeln!(self.out, "#{number} line {line}: {error}")?;
        self.failures.insert(run.to_owned(), (line, error));
        Ok(())
    }

    fn number(&mut self, run: &str) -> usize {
        let next = self.numbers.len() + 1;
        *self.numbers.entry(run.to_owned()).or_insert(next)
    }

    fn print(&mut self, run: &str, event: &Event) -> io::Result<()> {
        let number = self.number(run);
        let out = &mut self.out;
        match event {
            Event::Begin { seed, settings } => {
                writeln!(out, "#{number} begins: run {run} of {}, seed {seed}, {settings:?}", settings.worker)
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
            // What it says is told when it is followed.
            Event::Ended(_) => Ok(()),
        }
    }

    /// Says how it ended, and returns the exit code.
    fn conclude(&mut self) -> io::Result<u8> {
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
        let mut codes: Vec<u8> = self.failures.values().map(|(_, error)| code_of(error)).collect();
        if self.has_lost_line {
            writeln!(self.out, "of broken lines it is not known which run they belong to: see above")?;
            codes.push(INCOMPLETE);
        } else if self.numbers.is_empty() {
            writeln!(
                self.out,
                "no entry of a journal in this log: the application must log the target \
                 kinesis_lease::journal at the level TRACE"
            )?;
            codes.push(UNUSABLE);
        }
        self.out.flush()?;
        Ok(codes.into_iter().min().unwrap_or(0))
    }
}

fn code_of(error: &JournalError) -> u8 {
    match error {
        JournalError::Differs(_) => DIFFERENT,
        JournalError::OtherVersion { .. } | JournalError::NoBeginning | JournalError::OtherGenerator => {
            UNUSABLE
        }
        JournalError::Broken(_) | JournalError::Missing { .. } | JournalError::Ended(_) => INCOMPLETE,
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
