//! Where things are kept: installations and locks in the build folder, data where the server's account can get at it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs, io};

use crate::Unavailable;
use crate::account::Account;
use crate::error::Result;

/// Names the folder, for those who know it: what is run by the project's tasks is told.
const FOLDER: &str = "FENCEPOST_PG_FOLDER";

/// The file by which a build folder is known.
const BUILD_FOLDER_MARK: &str = "CACHEDIR.TAG";

/// Begins the names of folders of locks.
const LOCKS: &str = "lock-";

/// The longest path to a socket that the system takes, less what is put behind the folder of all data.
const LONGEST: usize = 107 - "/private-4194304-01234567/.s.PGSQL.65535".len();

/// The folder of installations (`MAJOR`), locks (`lock-…`) and data (`data`): `postgres` in the build folder.
pub fn folder() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let named = env::var_os(FOLDER).map(PathBuf::from);
        let built_in = || {
            let program = env::current_exe().ok()?;
            let mut above = program.ancestors().skip(1);
            above.find(|folder| folder.join(BUILD_FOLDER_MARK).is_file()).map(|target| target.join("postgres"))
        };
        named.or_else(built_in).unwrap_or_else(|| env::temp_dir().join("fencepost-postgres"))
    })
}

/// The folder of locks of what is called `name`: a major's template, or a shared server.
pub fn locks(name: &str) -> Result<PathBuf> {
    make(folder().join(format!("{LOCKS}{name}")))
}

/// Those that are there.
pub fn all_locks() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).into_iter().flatten().filter_map(io::Result::ok);
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(LOCKS.as_bytes()))
        .map(|entry| entry.path())
        .collect()
}

/// The folder of all data: in the build folder, unless the account cannot get there or the paths become too long for sockets.
pub fn data(account: &Account) -> Result<PathBuf> {
    let here = make(folder().join("data"))?;
    if here.as_os_str().len() <= LONGEST && account.reaches(&here) {
        return Ok(here);
    }
    let mut hasher = DefaultHasher::new();
    here.hash(&mut hasher);
    let elsewhere = make(env::temp_dir().join(format!("fencepost-{:016x}", hasher.finish())))?;
    // Everybody may make folders there.
    let owner = fs::metadata(&elsewhere).map(|found| found.uid());
    if owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw()) {
        return Ok(elsewhere);
    }
    Err(Unavailable::failed("somebody else's folder is in the way", elsewhere.display()))
}

/// Makes a folder that everybody may look into, and says what it is called without links.
fn make(folder: PathBuf) -> Result<PathBuf> {
    let made = || -> io::Result<PathBuf> {
        fs::create_dir_all(&folder)?;
        folder.canonicalize()
    };
    made().map_err(|error| Unavailable::failed(format_args!("cannot make `{}`", folder.display()), error))
}

/// A name that nobody else has, short enough for paths.
pub fn random_name() -> String {
    format!("{:08x}", getrandom::u32().expect("the system has random numbers"))
}
