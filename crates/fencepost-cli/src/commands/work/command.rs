//! One run of the command: fed, heard, and ended in time when its slot is lost.

use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use std::os::unix::process::ExitStatusExt;

use fencepost::runtime::{CancellationToken, SlotContext};
use fencepost::schedule::{NOMINAL_TIME_HEADER, SCHEDULE_HEADER};
use fencepost::{Clock, Error, HostClock, Kind, MAX_FAILURE, Message, Result, ScheduleName, Timestamp};
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use crate::child::{Child, Group, exit_number, exit_number_of, in_words};

/// What asks for a retry that spends no attempt: `EX_TEMPFAIL` of sysexits(3).
const NOT_YET: i32 = 75;

/// How long the streams of a command that has ended are listened to: what it left running may hold them open.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How long after a command we may hear of a signal that was sent to both.
const SAME_TIME: Duration = Duration::from_millis(100);

/// How much of standard error is held: what is kept of it, and the rest of a line.
const HELD: usize = 2 * MAX_FAILURE;

/// The variables that tell of a single message.
const OF_MESSAGE: [&str; 4] = ["FENCEPOST_MESSAGE_ID", "FENCEPOST_KEY", "FENCEPOST_KIND", "FENCEPOST_ATTEMPT"];

/// Those that tell of the schedule that sent it.
const OF_SCHEDULE: [&str; 2] = ["FENCEPOST_SCHEDULE", "FENCEPOST_NOMINAL_TIME"];

/// What a run says of the messages that it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// They are done.
    Done,
    /// They come again, without an attempt being spent.
    NotYet,
    /// They failed, and why.
    Failed(String),
}

/// Where the command's output goes while it runs.
pub trait Listener {
    /// Whether standard output is heard; it goes where ours, or our standard error, goes otherwise.
    const HEARS_OUTPUT: bool;

    /// A piece of its standard output.
    fn output(&mut self, bytes: &[u8]);

    /// A piece of its standard error.
    fn error(&self, bytes: &[u8]);
}

/// Everything a run needs beside the command.
#[derive(Debug)]
pub struct Task<'a> {
    /// The slot that it works for.
    pub slot: &'a SlotContext,
    /// The message, when it gets a single one.
    pub message: Option<&'a Message>,
    /// What it reads.
    pub input: Vec<u8>,
    /// How long it may take to stop once it is told to.
    pub patience: Duration,
    /// Fires when the worker is told to end.
    pub stop: &'a CancellationToken,
    /// Whether its standard output must not be ours.
    pub is_quiet: bool,
}

/// Runs the command for a task. Nothing is returned when it had to be ended because the slot is lost or the worker ends, or when
/// whoever told the worker to end has told the command too, as service managers do.
///
/// # Errors
/// `unavailable` when the system starts no process.
pub async fn run<L: Listener>(command: &str, task: Task<'_>, listener: &mut L) -> Result<Option<Outcome>> {
    let mut child = start::<L>(command, &task)?;
    let (stdin, stdout, stderr) = child.streams();
    let mut said = Vec::new();
    let status = {
        let mut feeding = pin!(async {
            if let Some(mut stdin) = stdin {
                // A command need not read what it is given.
                let _ = stdin.write_all(&task.input).await;
            }
        });
        let mut listening = pin!(listen(stdout, stderr, listener, &mut said));
        let (mut is_fed, mut is_heard) = (false, false);
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                () = &mut feeding, if !is_fed => is_fed = true,
                () = &mut listening, if !is_heard => is_heard = true,
                () = task.slot.cancelled.cancelled() => {
                    child.end_within(task.patience).await?;
                    return Ok(None);
                }
            }
        };
        if !is_heard {
            let _ = tokio::time::timeout(LAST_WORDS, listening).await;
        }
        status
    };
    if was_asked_to_end(status) && tokio::time::timeout(SAME_TIME, task.stop.cancelled()).await.is_ok() {
        return Ok(None);
    }
    Ok(Some(outcome(status, &String::from_utf8_lossy(&said))))
}

fn start<L: Listener>(command: &str, task: &Task<'_>) -> Result<Child> {
    let (token, slot) = (&task.slot.token, task.slot);
    let deadline = HostClock.boot() + slot.time_left();
    Child::start(&["sh", "-c", command].map(Into::into), Group::Own, |command| {
        command
            .env("FENCEPOST_QUEUE", token.path.queue.as_str())
            .env("FENCEPOST_CONSUMER", token.path.consumer.as_str())
            .env("FENCEPOST_SLOT", token.slot.to_string())
            .env("FENCEPOST_EPOCH", token.epoch.to_string())
            .env("FENCEPOST_BATCH", slot.batch().map(|batch| batch.to_string()).unwrap_or_default())
            .env("FENCEPOST_DEADLINE", deadline.since_boot().as_millis().to_string())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped());
        // Those of a worker that runs this one are not its own.
        for name in OF_MESSAGE.into_iter().chain(OF_SCHEDULE) {
            command.env_remove(name);
        }
        if let Some(message) = task.message {
            command.envs(OF_MESSAGE.into_iter().zip([
                message.id.to_string(),
                message.key.as_ref().map(ToString::to_string).unwrap_or_default(),
                message.kind.to_string(),
                message.attempt.to_string(),
            ]));
            command.envs(OF_SCHEDULE.into_iter().zip(fired_by(message).into_iter().flatten()));
        }
        if L::HEARS_OUTPUT {
            command.stdout(Stdio::piped());
        } else if task.is_quiet {
            command.stdout(Stdio::from(std::io::stderr()));
        }
    })
}

/// The schedule that sent a message, and for which nominal time. Whoever sends may set headers: what is neither is left out.
fn fired_by(message: &Message) -> Option<[&str; 2]> {
    let header = |name| message.headers.get(name).map(String::as_str);
    let (schedule, nominal_at) = (header(SCHEDULE_HEADER)?, header(NOMINAL_TIME_HEADER)?);
    let is_sound = ScheduleName::new(schedule).is_ok() && nominal_at.parse::<Timestamp>().is_ok();
    is_sound.then_some([schedule, nominal_at])
}

/// Hears both streams to their ends, and holds the end of standard error.
async fn listen<L: Listener>(
    stdout: Option<impl AsyncRead + Unpin>,
    stderr: Option<impl AsyncRead + Unpin>,
    listener: &mut L,
    said: &mut Vec<u8>,
) {
    let (mut stdout, mut stderr) = (stdout, stderr);
    let (mut out, mut err) = ([0; 8 << 10], [0; 8 << 10]);
    while stdout.is_some() || stderr.is_some() {
        tokio::select! {
            read = next(&mut stdout, &mut out), if stdout.is_some() => match read {
                0 => stdout = None,
                read => listener.output(&out[..read]),
            },
            read = next(&mut stderr, &mut err), if stderr.is_some() => match read {
                0 => stderr = None,
                read => {
                    listener.error(&err[..read]);
                    said.extend_from_slice(&err[..read]);
                    said.drain(..said.len().saturating_sub(HELD));
                }
            },
        }
    }
}

/// How many bytes came; none at the end, and when the stream fails.
async fn next(stream: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(buffer).await.unwrap_or(0),
        None => 0,
    }
}

/// Whether a signal that asks to end did it, of the command or of what its shell waited for.
fn was_asked_to_end(status: ExitStatus) -> bool {
    [Signal::TERM, Signal::INT, Signal::HUP].map(exit_number_of).contains(&exit_number(status))
}

fn outcome(status: ExitStatus, said: &str) -> Outcome {
    if status.success() {
        return Outcome::Done;
    }
    if status.code() == Some(NOT_YET) {
        return Outcome::NotYet;
    }
    let said = said.trim_end();
    let ended = format!("the command {}", in_words(status));
    Outcome::Failed(match (said.is_empty(), status.signal()) {
        (true, _) => ended,
        (false, None) => said.to_owned(),
        (false, Some(_)) => format!("{said}\n{ended}"),
    })
}

/// Refuses a command whose first word is none of the shell's and no program: every message would fail by it. What cannot be told
/// before it is run is left to the run.
///
/// # Errors
/// `invalid_input`; `unavailable` when there is no shell.
pub fn check(command: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./+-".contains(c);
    let Some(word) = command.split_whitespace().next().filter(|word| word.chars().all(plain)) else { return Ok(()) };
    let found = std::process::Command::new("sh")
        .args(["-c", r#"command -v -- "$1" && case "$1" in (*/*) test -x "$1";; esac"#, "sh", word])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|cause| Error::new(Kind::Unavailable, "cannot start a shell").caused_by(cause))?;
    if found.success() {
        return Ok(());
    }
    Err(Error::invalid(
        format!("cannot run `{word}`: the shell finds no such command, or it is not executable"),
        "a program is looked for in PATH unless it has a slash, and has to be executable",
    )
    .with("argument", "exec"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_says_what_becomes_of_a_message() {
        let failed = |why: &str| Outcome::Failed(why.into());
        for (raw, said, expected) in [
            (0, "a warning\n", Outcome::Done),
            (75 << 8, "not now\n", Outcome::NotYet),
            (1 << 8, "why\n", failed("why")),
            (1 << 8, " \n", failed("the command ended with status 1")),
            (127 << 8, "sh: 1: x: not found\n", failed("sh: 1: x: not found")),
            (9, "", failed("the command was ended by signal 9")),
            (15, "why\n", failed("why\nthe command was ended by signal 15")),
        ] {
            assert_eq!(outcome(ExitStatus::from_raw(raw), said), expected, "{raw} {said}");
        }
    }

    #[test]
    fn a_signal_that_asks_to_end_is_told_from_other_ends() {
        for (raw, asked) in
            [(15, true), (2, true), (1, true), (143 << 8, true), (9, false), (1 << 8, false), (0, false)]
        {
            assert_eq!(was_asked_to_end(ExitStatus::from_raw(raw)), asked, "{raw}");
        }
    }

    #[test]
    fn a_command_that_the_shell_cannot_find_is_refused_before_it_is_run() {
        for fine in
            ["true", "exit 1", "cat >x", "X=1 no-such", "if true; then :; fi", "$CMD", "/bin/sh -c :", ". ./setup"]
        {
            assert!(check(fine).is_ok(), "{fine}");
        }
        for bad in ["no-such-program", "./no-such-script arg"] {
            assert_eq!(check(bad).unwrap_err().fact("argument"), Some("exec"), "{bad}");
        }
    }
}
