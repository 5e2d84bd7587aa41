//! What is measured of a store with queues, whichever it is: a program implements [`Subject`] and calls [`run`].
//!
//! Each row runs in a process of its own, on a fresh file, so that its memory and processor time are its own too. Nothing here
//! knows a store: two that cannot be linked into one program are measured by the same code in two.

mod drain;
mod idle;
mod message;
mod process;
mod row;
mod send;
mod take;
mod wake;

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use message::message;
pub use row::{Acks, Row};

/// What everything here answers.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Messages in one call or transaction where a backlog is made.
pub const FILL: u64 = 1_000;

/// How durable a commit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Synchronous {
    /// It survives a power cut.
    Full,
    /// It survives the process; a power cut may take the latest ones.
    Normal,
}

impl fmt::Display for Synchronous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Normal => "normal",
        })
    }
}

impl FromStr for Synchronous {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Self::Full),
            "normal" => Ok(Self::Normal),
            _ => Err(format!("`{text}` is neither `full` nor `normal`")),
        }
    }
}

/// A store with one queue.
pub trait Subject: Clone + Send + Sync + Sized + 'static {
    /// What [`Subject::consumer`] makes.
    type Consumer: Consumer;

    /// Opens the file, made with its queue when it is not there.
    fn open(file: &Path, synchronous: Synchronous) -> impl Future<Output = Outcome<Self>> + Send;

    /// Sends one message and returns when it is committed.
    fn send(&self, message: String) -> impl Future<Output = Outcome<()>> + Send;

    /// Makes a backlog in the largest steps that are natural, up to [`FILL`].
    fn fill(&self, count: u64) -> impl Future<Output = Outcome<()>> + Send;

    /// Starts to consume.
    fn consumer(&self, acks: Acks) -> impl Future<Output = Outcome<Self::Consumer>> + Send;

    /// Makes the storage of what was acked reusable.
    fn maintain(&self) -> impl Future<Output = Outcome<()>> + Send;

    /// Waits for messages as a worker in production would, until it is dropped.
    fn idle(&self) -> impl Future<Output = Outcome<()>> + Send;
}

/// Somebody who receives.
pub trait Consumer: Send {
    /// Receives up to `max` messages; empty when nothing waits. Acks those before with it, when that is how the consumer acks.
    fn receive(&mut self, max: u32) -> impl Future<Output = Outcome<Vec<String>>> + Send;

    /// Acks what was received last, unless that is done with the next receive.
    fn ack(&mut self) -> impl Future<Output = Outcome<()>> + Send;

    /// Receives and acks.
    fn take(&mut self, max: u32) -> impl Future<Output = Outcome<Vec<String>>> + Send {
        async move {
            let messages = self.receive(max).await?;
            self.ack().await?;
            Ok(messages)
        }
    }

    /// Waits until something may be there that came since the consumer was made.
    fn wait(&mut self) -> impl Future<Output = Outcome<()>> + Send;
}

/// Runs the row that the command line names and prints what it measured, a name and a number a line.
///
/// `PROGRAM full|normal FOLDER ROW…` measures on a fresh file in the folder; `PROGRAM full|normal FILE stamp COUNT` is what a row
/// starts in a second process.
///
/// # Errors
/// What the store answers, and words that are no row.
pub async fn run<S: Subject>(words: &[String]) -> Outcome<()> {
    let [synchronous, place, row @ ..] = words else { return Err("usage: full|normal FOLDER ROW…".into()) };
    let synchronous: Synchronous = synchronous.parse()?;
    if let [stamp, count] = row
        && stamp == wake::STAMP
    {
        return wake::send(S::open(Path::new(place), synchronous).await?, count.parse()?).await;
    }
    let row: Row = row.join(" ").parse()?;
    let folder = tempfile::tempdir_in(PathBuf::from(place))?;
    let file = folder.path().join("bench.db");
    let store = S::open(&file, synchronous).await?;
    let measured = match row {
        Row::Send { callers, time } => send::run(&store, callers, time).await?,
        Row::Take { acks, max, depth, time } => take::run(&store, acks, max, depth, time).await?,
        Row::WakeWithin { count } => wake::within(&store, count).await?,
        Row::WakeAcross { count } => wake::across(&store, &file, synchronous, count).await?,
        Row::Idle { time } => idle::run(&store, time).await?,
        Row::Drain { count } => drain::run(&store, folder.path(), count).await?,
    };
    for (measure, value) in measured {
        say(&format!("{measure} {value}"));
    }
    Ok(())
}

/// What a row measured, by name.
type Measured = Vec<(&'static str, f64)>;

/// Prints a line.
pub fn say(text: &str) {
    // Nobody is left to tell when this fails.
    let _ = writeln!(std::io::stdout(), "{text}");
}
