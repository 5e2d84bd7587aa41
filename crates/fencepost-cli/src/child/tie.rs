//! What is started in a command's place: the program itself, which ties its life to its parent's and becomes the command. A parent-death
//! signal outlives that, and setting it here takes no code between fork and exec.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use fencepost::{Error, Kind};
use rustix::process::getppid;

use super::guard;
use crate::cli::ChildArgs;
use crate::printer::Printer;

/// The command was not found, as shells say it.
const NOT_FOUND: u8 = 127;
/// The command cannot be run.
const NOT_RUNNABLE: u8 = 126;

/// The program itself; on Linux also when its file was replaced since.
pub fn program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// The arguments by which [`become_command`] is called.
pub fn arguments(command: &[OsString], guard: Option<RawFd>) -> Vec<OsString> {
    let mut arguments = vec!["child".to_owned(), format!("--parent={}", std::process::id())];
    arguments.extend(guard.map(|place| format!("--guard={place}")));
    arguments.push("--".into());
    arguments.into_iter().map(OsString::from).chain(command.iter().cloned()).collect()
}

/// Becomes the command. Returns only when that fails.
pub fn become_command(args: &ChildArgs) -> ExitCode {
    let Err(error) = try_to(args);
    let not_found = error.kind() == Kind::NotFound;
    // Standard output belongs to the command that did not come to be.
    Printer::new(false).error(&error);
    ExitCode::from(if not_found { NOT_FOUND } else { NOT_RUNNABLE })
}

fn try_to(args: &ChildArgs) -> Result<Infallible, Error> {
    let [program, arguments @ ..] = &*args.command else {
        return Err(Error::invalid("a command is missing", "it stands behind `--`"));
    };
    let refuse = |cause: io::Error| {
        let (kind, hint) = match cause.kind() {
            io::ErrorKind::NotFound => (Kind::NotFound, "it is looked for in PATH unless it has a slash"),
            _ => (Kind::Unavailable, "it has to be a program, or a script that begins with `#!`, and executable"),
        };
        Error::new(kind, format!("cannot run `{}`", program.to_string_lossy())).hinted(hint).caused_by(cause)
    };
    end_with_parent().map_err(refuse)?;
    // RACE: a parent that was gone before the signal was set does not send it.
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get().unsigned_abs() != args.parent) {
        return Err(Error::new(Kind::Unavailable, "cannot run a command: the process that started it has ended"));
    }
    if let Some(place) = args.guard {
        guard::report(args.parent, place);
    }
    Err(refuse(Command::new(program).args(arguments).exec()))
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn end_with_parent() -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(io::Error::from)
}

/// The system has nothing of the kind; the help says so.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn end_with_parent() -> io::Result<()> {
    Ok(())
}
