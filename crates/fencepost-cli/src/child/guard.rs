//! The guard: a process that outlives this one by a moment. It knows the process groups that commands lead, and when this process is
//! gone, however it ended, it kills those that are left. A parent-death signal reaches the command alone and nothing that it forked.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use super::tie;

/// Starts the guard unless there is one, and tells where this process speaks to it.
///
/// # Errors
/// When the system starts no process.
pub fn call() -> io::Result<RawFd> {
    let mut post = post();
    if post.guard.is_none() {
        post.start()?;
    }
    let stdin = post.guard.as_ref().and_then(|guard| guard.stdin.as_ref());
    stdin.map(AsRawFd::as_raw_fd).ok_or(io::ErrorKind::BrokenPipe.into())
}

/// What was started in a command's place makes itself known, where the system lets it, before it becomes the command: its parent may be
/// killed before it gets to do so.
pub fn report(parent: u32, place: RawFd) {
    if let Ok(mut guard) = File::options().write(true).open(format!("/proc/{parent}/fd/{place}")) {
        // The parent does so too.
        let _ = guard.write_all(line('+', std::process::id()).as_bytes());
    }
}

/// Has a group killed when this process ends before the answer is dropped.
///
/// # Errors
/// When no guard can be told.
pub fn watch(group: Pid) -> io::Result<Watched> {
    let watched = Watched(group);
    let mut post = post();
    post.groups.insert(group.as_raw_nonzero().get());
    match post.tell(&line('+', group.as_raw_nonzero().get())) {
        // It was killed: the next one is told of all groups.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => post.start()?,
        told => told?,
    }
    Ok(watched)
}

/// A group that is killed when this process ends.
#[derive(Debug)]
pub struct Watched(Pid);

impl Drop for Watched {
    fn drop(&mut self) {
        let mut post = post();
        let group = self.0.as_raw_nonzero().get();
        post.groups.remove(&group);
        // A guard that is gone kills nothing.
        let _ = post.tell(&line('-', group));
    }
}

fn line(sign: char, group: impl Display) -> String {
    format!("{sign}{group}\n")
}

/// Where the guard stands. The end of its standard input is how it learns that this process is gone.
#[derive(Debug)]
struct Post {
    guard: Option<Child>,
    groups: BTreeSet<i32>,
}

fn post() -> MutexGuard<'static, Post> {
    static POST: Mutex<Post> = Mutex::new(Post { guard: None, groups: BTreeSet::new() });
    POST.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Post {
    fn start(&mut self) -> io::Result<()> {
        let mut command = Command::new(tie::program()?);
        // In a group of its own: what ends ours by a terminal's signals must leave it.
        command.arg("guard").current_dir("/").process_group(0);
        self.guard = Some(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let known: String = self.groups.iter().map(|group| line('+', *group)).collect();
        self.tell(&known)
    }

    fn tell(&mut self, lines: &str) -> io::Result<()> {
        let stdin = self.guard.as_mut().and_then(|guard| guard.stdin.as_mut());
        stdin.ok_or(io::ErrorKind::BrokenPipe)?.write_all(lines.as_bytes())
    }
}

/// Stands guard until standard input ends.
///
/// # Errors
/// When signals cannot be heard.
pub fn stand() -> io::Result<()> {
    // Whoever asks all processes of a service to end asks this one too; its time comes when the one it serves is gone. A signal that is
    // heard does not end it.
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()] {
        drop(signal(kind)?);
    }
    let mut groups = BTreeSet::new();
    for line in io::stdin().lines().map_while(Result::ok) {
        match (line.get(..1), line.get(1..).and_then(|group| group.parse().ok())) {
            (Some("+"), Some(group)) => drop(groups.insert(group)),
            (_, Some(group)) => drop(groups.remove(&group)),
            _ => {}
        }
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    Ok(())
}
