//! The server that all test processes share: started by the first, used by those that come, ended by its guard when nobody has come
//! for a while. A process that uses it holds a lock for as long as it lives, so that the guard knows however the process ends.
//! Those who ask for other settings, or have another template, share another.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, io};

use crate::cluster::Cluster;
use crate::error::Result;
use crate::template::{Template, lock};
use crate::{Unavailable, guard, place};

/// How many seconds a server waits for the next user, unless `FENCEPOST_PG_IDLE` says otherwise.
const IDLE_SECONDS: u32 = 600;

/// For all tests that run at once. It costs 40 MB of shared memory and a tenth of a second to start, which others do without.
const CONNECTIONS: u32 = 1000;

/// A server that this process uses, and keeps in use.
struct Used {
    cluster: Arc<Cluster>,
    _users: File,
}

/// The shared server of `major`. Blocks while it is started.
pub fn get(major: u16) -> Result<Arc<Cluster>> {
    static USED: Mutex<BTreeMap<u16, Used>> = Mutex::new(BTreeMap::new());
    let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(used) = used.get(&major) {
        return Ok(used.cluster.clone());
    }
    let template = Template::get(major)?;
    let settings = settings();
    let locks = place::locks(&format!("{major}-{:016x}", template.mark(&settings)))?;
    let start = lock(&locks.join("start"))?;
    let users = File::options().create(true).append(true).open(locks.join("users"));
    let users = users.and_then(|file| file.lock_shared().map(|()| file));
    let users = users.map_err(|error| Unavailable::failed("cannot say that the shared server is used", error))?;
    let cluster = match named(&locks) {
        Some((folder, port)) => {
            // Somebody may have killed its guard.
            if !guard::stands(&folder) {
                guard::detach(&folder, &locks, idle_seconds())?;
            }
            Cluster { template, folder, port, disk: None }
        }
        None => start_new(template, &settings, &locks)?,
    };
    drop(start);
    let cluster = Arc::new(cluster);
    used.insert(major, Used { cluster: cluster.clone(), _users: users });
    Ok(cluster)
}

/// The folder and the port of the server that `locks` are of, if it answers.
pub fn named(locks: &Path) -> Option<(PathBuf, u16)> {
    let text = fs::read_to_string(locks.join("server")).ok()?;
    let (folder, port) = text.trim().split_once('\n')?;
    let folder = PathBuf::from(folder);
    UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).ok()?;
    Some((folder, port.parse().ok()?))
}

/// Starts the server; the caller holds the lock for it.
fn start_new(template: Template, settings: &[(String, String)], locks: &Path) -> Result<Cluster> {
    let folder = Cluster::folder(&template, "shared")?;
    // Before anything runs that somebody must end. It waits for the lock that is held here.
    guard::detach(&folder, locks, idle_seconds())?;
    let copied = template.clone();
    let cluster = Cluster::start_new(template, folder, settings, None, |data| copied.copy(data))?;
    announce(&cluster, locks).map_err(|error| Unavailable::failed("cannot name the shared server", error))?;
    Ok(cluster)
}

/// What this run asks of the server beyond what is usual.
fn settings() -> Vec<(String, String)> {
    let fsync = env::var("FENCEPOST_PG_FSYNC").map(|value| ("fsync".to_owned(), value));
    let connections = ("max_connections".to_owned(), CONNECTIONS.to_string());
    fsync.into_iter().chain([connections]).collect()
}

fn idle_seconds() -> u32 {
    env::var("FENCEPOST_PG_IDLE").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(IDLE_SECONDS)
}

fn announce(cluster: &Cluster, locks: &Path) -> io::Result<()> {
    match fs::remove_file(locks.join("stop")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let half = locks.join("server-half");
    fs::write(&half, format!("{}\n{}\n", cluster.folder.display(), cluster.port))?;
    fs::rename(half, locks.join("server"))
}
