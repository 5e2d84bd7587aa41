//! One server's data, settings and processes. Everything here blocks.

use std::fmt::Write;
use std::fs::DirBuilder;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::account::Account;
use crate::error::Result;
use crate::template::{Template, run};
use crate::{Unavailable, place};

/// What every server of tests is set to, unless a test says otherwise.
pub const SETTINGS: [(&str, &str); 18] = [
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_permissions", "0700"),
    ("max_connections", "200"),
    ("max_prepared_transactions", "20"),
    ("max_wal_senders", "10"),
    ("wal_level", "replica"),
    ("wal_keep_size", "128MB"),
    ("shared_buffers", "128MB"),
    // In its data folder, which is removed however it ends.
    ("dynamic_shared_memory_type", "mmap"),
    ("fsync", "on"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("datestyle", "ISO, MDY"),
    ("default_text_search_config", "pg_catalog.simple"),
    ("log_line_prefix", "%m [%p] %d "),
    ("log_lock_waits", "on"),
    ("log_checkpoints", "off"),
    ("lc_messages", "C"),
];

/// Ports below those that systems hand out, so that nobody gets a server's port while it restarts.
const PORTS: std::ops::Range<u32> = 12_000..32_000;

/// How long a process may take to be gone once it was killed.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(5);

/// A server: where it is and what it is made of, whether it runs or not.
#[derive(Debug)]
pub struct Cluster {
    pub template: Template,
    /// With the data, the socket and the log.
    pub folder: PathBuf,
    pub port: u16,
    /// How many bytes the file system has that its processes see at [`Cluster::disk`].
    pub disk: Option<u64>,
}

/// Mounts a file system that is seen by what is run there alone, and is gone with it: size, place, user and group, then what to run.
const MOUNT: &str = r#"mount -t tmpfs -o "size=$1,uid=$3,gid=$4,mode=700" fencepost "$2" && user=$3 group=$4 && shift 4 &&
    exec setpriv --reuid "$user" --regid "$group" --clear-groups -- "$@""#;

impl Cluster {
    /// A folder for a server of its own.
    pub fn folder(template: &Template, kind: &str) -> Result<PathBuf> {
        let folder = template.place.join(format!("{kind}-{}-{}", std::process::id(), place::random_name()));
        let made = DirBuilder::new().mode(0o700).create(&folder).and_then(|()| template.account.take(&folder));
        made.map_err(|error| Unavailable::failed(format_args!("cannot make `{}`", folder.display()), error))?;
        Ok(folder)
    }

    /// Makes a server in `folder` of what `fill` puts into its data folder, and starts it.
    pub fn start_new(
        template: Template,
        folder: PathBuf,
        settings: &[(String, String)],
        disk: Option<u64>,
        fill: impl FnOnce(&Path) -> Result,
    ) -> Result<Self> {
        fill(&folder.join("data"))?;
        let mut cluster = Self { template, folder, port: 0, disk };
        let mut tries = 3;
        loop {
            cluster.port = free_port()?;
            cluster.configure(settings)?;
            match cluster.start() {
                // Somebody else may have taken the port.
                Err(_) if tries > 1 => tries -= 1,
                Err(error) => return Err(error),
                Ok(()) => return Ok(cluster),
            }
        }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Where its small file system is, if it has one.
    pub fn disk(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// The command with the small file system mounted before it, where there is one.
    fn beside_its_disk(&self, command: std::process::Command) -> Result<std::process::Command> {
        let Some(size) = self.disk else { return Ok(command) };
        let Account::Other { user, group } = self.template.account else {
            return Err(Unavailable::Optional("a file system of its own, which root alone mounts".into()));
        };
        let made = fs::create_dir_all(self.disk());
        made.map_err(|error| Unavailable::failed(format_args!("cannot make `{}`", self.disk().display()), error))?;
        let mut mounted = std::process::Command::new("unshare");
        mounted.args(["--mount", "--", "sh", "-c", MOUNT, "sh"]).arg(size.to_string()).arg(self.disk());
        mounted.args([user.to_string(), group.to_string()]).arg(command.get_program()).args(command.get_args());
        mounted.current_dir(&self.folder).env("LC_ALL", "C");
        Ok(mounted)
    }

    /// Starts it and waits until it answers.
    pub fn start(&self) -> Result {
        let mut command = self.pg_ctl("start");
        command.args(["-w", "-t", "60", "-l"]).arg(self.folder.join("log"));
        let started = run(&mut self.beside_its_disk(command)?);
        started.map_err(|error| {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            let last = log.len() - log.len().min(2000);
            Unavailable::failed(error, log.get(last..).unwrap_or(&log))
        })
    }

    /// Ends it in good order: what runs is rolled back.
    pub fn stop(&self) -> Result {
        run(self.pg_ctl("stop").args(["-w", "-t", "60", "-m", "fast"]))
    }

    /// Kills all of its processes, and returns when none is left.
    pub fn kill(&self) -> Result {
        let Some(postmaster) = self.postmaster() else { return Ok(()) };
        // Stopped, it starts nobody while the others are found.
        let _ = kill_process(postmaster, Signal::STOP);
        let all: Vec<Pid> = children(postmaster).into_iter().chain([postmaster]).collect();
        for process in &all {
            let _ = kill_process(*process, Signal::KILL);
        }
        let since = Instant::now();
        while all.iter().any(|process| is_alive(*process)) {
            if since.elapsed() > GONE_WITHIN {
                return Err(Unavailable::failed("a server was killed and is still there", self.folder.display()));
            }
            thread::sleep(LOOK);
        }
        // To the next start, an ended process that its parent has not heard of yet would look like a running server. What the
        // server said of itself is kept for the guard, which removes its shared memory unless a next start has done so.
        let said = self.data().join("postmaster.pid");
        let socket = self.folder.join(format!(".s.PGSQL.{}", self.port));
        let removed = [socket.with_extension(format!("{}.lock", self.port)), socket].map(fs::remove_file);
        for done in removed.into_iter().chain([fs::rename(&said, self.folder.join("killed"))]) {
            match done {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Unavailable::failed(format_args!("cannot tidy `{}`", self.folder.display()), error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The server's first process, if it runs.
    fn postmaster(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        let process = Pid::from_raw(text.lines().next()?.trim().parse().ok()?)?;
        let line = fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero())).ok()?;
        // The number may be somebody else's by now.
        String::from_utf8_lossy(&line).contains(self.folder.to_str()?).then_some(process)
    }

    /// Writes its settings, the last of a name being the one that holds.
    fn configure(&self, settings: &[(String, String)]) -> Result {
        let own = [
            ("port".into(), self.port.to_string()),
            ("unix_socket_directories".into(), self.folder.display().to_string()),
        ];
        let usual = SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut text = String::new();
        for (name, value) in usual.chain(own).chain(settings.iter().cloned()) {
            let _ = writeln!(text, "{name} = '{}'", value.replace('\'', "''"));
        }
        let file = self.data().join("postgresql.conf");
        fs::write(&file, text)
            .map_err(|error| Unavailable::failed(format_args!("cannot write `{}`", file.display()), error))
    }

    fn pg_ctl(&self, action: &str) -> std::process::Command {
        let mut command = self.template.program("pg_ctl", &self.folder);
        command.args(["-s", "-D"]).arg(self.data()).arg(action);
        command
    }
}

/// Listens at a port of this host that nobody has.
pub fn listen() -> Result<TcpListener> {
    for _ in 0..1000 {
        let random = getrandom::u32().map_err(|error| Unavailable::failed("no random numbers", error))?;
        let port = PORTS.start + random % (PORTS.end - PORTS.start);
        let port = u16::try_from(port).unwrap_or(u16::MAX);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return Ok(listener);
        }
    }
    Err(Unavailable::Failed("no port is free".into()))
}

/// A port of this host that nobody has at the moment: who is to listen there may find that somebody has taken it.
pub fn free_port() -> Result<u16> {
    let address = listen()?.local_addr();
    address.map(|address| address.port()).map_err(|error| Unavailable::failed("a port is not known", error))
}

/// The processes that `parent` has started and that are there.
fn children(parent: Pid) -> Vec<Pid> {
    let numbers =
        fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let processes = numbers.filter_map(Pid::from_raw);
    processes.filter(|process| state(*process).is_some_and(|(_, its_parent)| its_parent == parent)).collect()
}

/// Whether a process is there and has not ended.
pub fn is_alive(process: Pid) -> bool {
    state(process).is_some_and(|(state, _)| !['Z', 'X'].contains(&state))
}

/// The letter of a process's state, and its parent.
fn state(process: Pid) -> Option<(char, Pid)> {
    let text = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    // Behind its name, which may have blanks and brackets of its own.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, Pid::from_raw(fields.next()?.parse().ok()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_parent() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let process = Pid::from_child(&child);
        assert!(children(rustix::process::getpid()).contains(&process));
        assert!(is_alive(process));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(process));
    }
}
