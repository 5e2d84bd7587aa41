//! pgbouncer before a server, in transaction mode: each transaction of a client may run on another connection of the server.

use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::cluster::{Cluster, free_port, is_alive};
use crate::error::Result;
use crate::guard::Guard;
use crate::server::{blocking, owned};
use crate::template::run;
use crate::{PgServer, TestDatabase, Unavailable, programs};

/// How long it may take to have a process of its own, which it names in a file.
const STARTS_WITHIN: Duration = Duration::from_secs(2);

/// How long it may take to listen.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// How often it is asked.
const LOOK: Duration = Duration::from_millis(5);

/// A pgbouncer of one test, which ends when this value is dropped.
#[derive(Debug)]
pub struct PgBouncer {
    server: PgServer,
    database: String,
    address: SocketAddr,
    _guard: Guard,
}

impl PgBouncer {
    /// One that leads to `database` and the others of its server, with four connections a database.
    ///
    /// # Errors
    /// `Missing` when pgbouncer is not installed.
    pub async fn start(database: &TestDatabase) -> Result<Self> {
        Self::start_with(database, &[]).await
    }

    /// The same with settings of its own, as `[pgbouncer]` in its configuration has them.
    ///
    /// # Errors
    /// `Missing` when pgbouncer is not installed.
    pub async fn start_with(database: &TestDatabase, settings: &[(&str, &str)]) -> Result<Self> {
        let (server, settings) = (database.server().clone(), owned(settings));
        let cluster = server.cluster.clone();
        let (address, guard) = blocking(move || start(&cluster, &settings)).await?;
        Ok(Self { server, database: database.name().to_owned(), address, _guard: guard })
    }

    /// The URL of the database through it.
    pub fn url(&self) -> String {
        self.server.url_at(self.address, &self.database)
    }
}

fn start(server: &Cluster, settings: &[(String, String)]) -> Result<(SocketAddr, Guard)> {
    let program = programs::pgbouncer()?;
    let folder = Cluster::folder(&server.template, "bouncer")?;
    let guard = Guard::tied(&folder)?;
    let mut tries = 3;
    loop {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        match start_at(address, &program, server, &folder, settings) {
            // Somebody else may have taken the port.
            Err(_) if tries > 1 => tries -= 1,
            Err(error) => return Err(error),
            Ok(()) => return Ok((address, guard)),
        }
    }
}

fn start_at(
    address: SocketAddr,
    program: &Path,
    server: &Cluster,
    folder: &Path,
    settings: &[(String, String)],
) -> Result {
    let written = || {
        fs::write(folder.join("users"), format!("\"postgres\" \"{}\"\n", server.template.password))?;
        fs::write(folder.join("pgbouncer.ini"), configuration(server, folder, address, settings))?;
        server.template.account.take(&folder.join("users"))
    };
    written().map_err(|error: std::io::Error| Unavailable::failed("cannot configure pgbouncer", error))?;

    run(server.template.account.command(program, folder).args(["-q", "-d"]).arg(folder.join("pgbouncer.ini")))?;
    let (since, mut goes_on) = (Instant::now(), true);
    loop {
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        // That somebody answers there would not say that it is this one.
        if log.contains(&format!("listening on {address}")) {
            return Ok(());
        }
        if !goes_on || since.elapsed() > ANSWERS_WITHIN {
            return Err(Unavailable::failed("pgbouncer does not listen", log.trim()));
        }
        std::thread::sleep(LOOK);
        // Looked at before the log, which has its last words.
        goes_on = process(&folder.join("pid")).is_some() || since.elapsed() < STARTS_WITHIN;
    }
}

/// The process in a pid file, if it is there.
fn process(file: &Path) -> Option<Pid> {
    let process = Pid::from_raw(fs::read_to_string(file).ok()?.trim().parse().ok()?)?;
    is_alive(process).then_some(process)
}

fn configuration(server: &Cluster, folder: &Path, address: SocketAddr, settings: &[(String, String)]) -> String {
    let (folder, port) = (folder.display(), address.port());
    let mut text = format!(
        "[databases]\n* = host={} port={} user=postgres\n[pgbouncer]\nlisten_addr = {}\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {folder}/users\nlogfile = {folder}/log\n\
         pidfile = {folder}/pid\npool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 500\n",
        server.folder.display(),
        server.port,
        address.ip(),
    );
    for (name, value) in settings {
        let _ = writeln!(text, "{name} = {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::listen;
    use crate::{DEFAULT_MAJOR, shared, skip_or_fail};

    #[test]
    fn a_port_that_somebody_else_has_is_noticed_and_another_is_good() {
        let Some(program) = skip_or_fail(programs::pgbouncer()) else { return };
        let Some(server) = skip_or_fail(shared::get(DEFAULT_MAJOR)) else { return };
        let folder = Cluster::folder(&server.template, "bouncer").unwrap();
        let _guard = Guard::tied(&folder).unwrap();
        let taken = listen().unwrap();
        let failed = start_at(taken.local_addr().unwrap(), &program, &server, &folder, &[]);
        assert!(matches!(failed, Err(Unavailable::Failed(_))), "{failed:?}");
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
        start_at(free, &program, &server, &folder, &[]).unwrap();
    }
}
