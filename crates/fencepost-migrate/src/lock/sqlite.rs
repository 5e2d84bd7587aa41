//! The migration lock of a SQLite database: a lock of the operating system on a file beside it, which ends with the process. The database is
//! not opened, and is free for everybody: no transaction is held, and the runner's own are as short as its migrations.

use std::fs::{self, File, TryLockError};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fencepost_core::{Clock, Error, HostClock, Kind, LockName, Result, Timestamp, random_u64};
use tokio::time::{Instant, sleep, timeout_at};

use super::LockKey;

/// Between two looks of who waits: at least this, and at most twice as long.
const LOOK: Duration = Duration::from_millis(20);

/// So many times a file is opened anew that somebody removed between its opening and its locking.
const REMOVED: usize = 8;

/// A lock that one value of its name holds at a time, in one process or in many on one host.
///
/// It is the lock of a file beside the database, `NAME-OF-DATABASE-migrate-KEY`, which stays there and says who holds it. It ends with the
/// process, however that ends.
///
/// ```
/// use fencepost_migrate::SqliteMigrationLock;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let folder = tempfile::tempdir().unwrap();
/// # let database = folder.path().join("shop.db");
/// let mine = SqliteMigrationLock::new(&database, "shop").unwrap();
/// let other = SqliteMigrationLock::new(&database, "shop").unwrap();
///
/// mine.acquire().await.unwrap();
/// assert!(!other.try_acquire().await.unwrap());
/// assert_eq!(other.holder().unwrap().unwrap().pid, std::process::id());
///
/// mine.release().await.unwrap();
/// assert!(other.try_acquire().await.unwrap());
/// # });
/// ```
#[derive(Debug)]
pub struct SqliteMigrationLock {
    path: PathBuf,
    name: LockName,
    /// Whose turn it is to ask for it.
    turn: tokio::sync::Mutex<()>,
    held: Mutex<Option<File>>,
}

/// Who holds the lock of a file, as it has written there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileLockHolder {
    /// Its process.
    pub pid: u32,
    /// Since when, by this host's clock.
    pub since: Timestamp,
}

impl SqliteMigrationLock {
    /// The lock of that name beside a database, which need not be there yet; its folder must.
    ///
    /// # Errors
    /// `invalid_input` for a bad name, `unsupported` for a database in memory, `unavailable` when the folder cannot be read.
    pub fn new(database: impl AsRef<Path>, name: &str) -> Result<Self> {
        let name = LockName::new(name)?;
        let database = resolve(database.as_ref())?;
        let key = LockKey::of(&name).as_i64().cast_unsigned();
        let mut file = database.into_os_string();
        file.push(format!("-migrate-{key:016x}"));
        Ok(Self { path: file.into(), name, turn: tokio::sync::Mutex::new(()), held: Mutex::new(None) })
    }

    /// Its name.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// The file that is locked.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the lock is this value's, for as long as it takes; at once where it is already. Dropped at any await, it leaves nothing
    /// behind.
    ///
    /// # Errors
    /// `unavailable` when the file cannot be opened or locked.
    pub async fn acquire(&self) -> Result<()> {
        self.acquire_while(|_| true).await.map(drop)
    }

    /// The same for at most `bound`: `false` when somebody else holds it to the end.
    ///
    /// # Errors
    /// As those of [`SqliteMigrationLock::acquire`].
    pub async fn acquire_within(&self, bound: Duration) -> Result<bool> {
        self.acquire_while_within(bound, |_| true).await
    }

    /// The same for as long as `go_on` says so, which is told who holds the lock, if that is known.
    ///
    /// # Errors
    /// As those of [`SqliteMigrationLock::acquire`].
    pub async fn acquire_while(&self, mut go_on: impl FnMut(Option<&FileLockHolder>) -> bool + Send) -> Result<bool> {
        let _turn = self.turn.lock().await;
        loop {
            if self.take()? {
                return Ok(true);
            }
            if !go_on(self.holder()?.as_ref()) {
                return Ok(false);
            }
            sleep(LOOK + LOOK.mul_f64((random_u64()? >> 11) as f64 / (1_u64 << 53) as f64)).await;
        }
    }

    /// The same for at most `bound`.
    ///
    /// # Errors
    /// As those of [`SqliteMigrationLock::acquire`].
    pub async fn acquire_while_within(
        &self,
        bound: Duration,
        go_on: impl FnMut(Option<&FileLockHolder>) -> bool + Send,
    ) -> Result<bool> {
        // A bound that no clock reaches is none.
        let Some(end) = Instant::now().checked_add(bound) else { return self.acquire_while(go_on).await };
        timeout_at(end, self.acquire_while(go_on)).await.unwrap_or(Ok(false))
    }

    /// Takes the lock if nobody else holds it; `false` at once if somebody does.
    ///
    /// # Errors
    /// As those of [`SqliteMigrationLock::acquire`].
    pub async fn try_acquire(&self) -> Result<bool> {
        self.take()
    }

    /// Gives the lock back: `false` when it was not held, or no longer.
    ///
    /// # Errors
    /// `unavailable` when the system does not unlock the file; it is closed all the same, and is free by that.
    pub async fn release(&self) -> Result<bool> {
        let Some(file) = self.slot().take() else { return Ok(false) };
        if !is_at(&file, &self.path) {
            return Ok(false);
        }
        let emptied = file.set_len(0);
        file.unlock().and(emptied).map_err(|cause| self.failed("release", cause))?;
        Ok(true)
    }

    /// Whether the lock is held by this value: it was taken, and nobody has removed the file since.
    pub fn is_held(&self) -> bool {
        self.slot().as_ref().is_some_and(|file| is_at(file, &self.path))
    }

    /// Who holds the lock, as its file says; none while nobody does, or has not written it yet.
    ///
    /// # Errors
    /// `unavailable` when the file cannot be read.
    pub fn holder(&self) -> Result<Option<FileLockHolder>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(FileLockHolder::parse(&text)),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(self.failed("read", cause)),
        }
    }

    fn take(&self) -> Result<bool> {
        let mut held = self.slot();
        if held.as_ref().is_some_and(|file| is_at(file, &self.path)) {
            return Ok(true);
        }
        held.take();
        for _ in 0..REMOVED {
            let opened = File::options().read(true).write(true).create(true).truncate(false).open(&self.path);
            let mut file = opened.map_err(|cause| self.failed("open", cause))?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(false),
                Err(TryLockError::Error(cause)) => return Err(self.failed("lock", cause)),
                // RACE: somebody may have removed it meanwhile, and the next would lock another file.
                Ok(()) if !is_at(&file, &self.path) => continue,
                Ok(()) => {}
            }
            self.sign(&mut file).map_err(|cause| self.failed("write", cause))?;
            *held = Some(file);
            return Ok(true);
        }
        Err(Error::new(Kind::Unavailable, format!("cannot lock `{}`: somebody keeps removing it", self.path.display())))
    }

    /// Writes down who holds it.
    fn sign(&self, file: &mut File) -> std::io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{} {} {}", process::id(), HostClock.wall().as_micros(), self.name.as_str())
    }

    fn failed(&self, verb: &str, cause: std::io::Error) -> Error {
        let what = format!("cannot {verb} the lock `{}`", self.path.display());
        Error::new(Kind::Unavailable, what).coded("io_error").caused_by(cause)
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<File>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Display for FileLockHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.pid)
    }
}

impl FileLockHolder {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (pid, since) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { pid, since: Timestamp::from_micros(since) })
    }
}

/// Where a database is, by whatever name it was called.
fn resolve(database: &Path) -> Result<PathBuf> {
    let name = database.file_name().filter(|name| *name != ":memory:");
    let Some(name) = name else {
        return Err(Error::new(Kind::Unsupported, format!("cannot lock `{}`: it is no file", database.display()))
            .hinted("a database in memory is one connection's own, and needs no lock"));
    };
    if let Ok(found) = fs::canonicalize(database) {
        return Ok(found);
    }
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = fs::canonicalize(folder).map_err(|cause| {
        Error::new(Kind::Unavailable, format!("cannot find the folder `{}`", folder.display()))
            .coded("io_error")
            .caused_by(cause)
    })?;
    Ok(found.join(name))
}

/// Whether an open file is the one that is there by that name.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;

        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let (Ok(open), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
        identity(open) == identity(there)
    }
    #[cfg(not(unix))]
    {
        // Where an open file cannot be removed.
        let _ = file;
        path.exists()
    }
}
