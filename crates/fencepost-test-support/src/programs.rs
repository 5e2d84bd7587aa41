//! Where the server's programs are, by major version.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::{Unavailable, place};

/// The major versions that tests may ask for.
pub const MAJORS: [u16; 5] = [14, 15, 16, 17, 18];

/// The major version that tests get unless they ask for another.
pub const DEFAULT_MAJOR: u16 = 15;

/// Names a folder with `MAJOR/bin/postgres`, which goes before those that are known.
const HOME: &str = "FENCEPOST_PG_HOME";

/// Where Debian's packages put them.
const SYSTEM: &str = "/usr/lib/postgresql";

/// The majors of [`MAJORS`] that are installed here.
pub fn installed_majors() -> Vec<u16> {
    MAJORS.into_iter().filter(|major| find(*major).is_ok()).collect()
}

/// The folder of a major's installation.
pub(crate) fn find(major: u16) -> Result<PathBuf> {
    let whole =
        |folder: &PathBuf| ["postgres", "initdb", "pg_ctl"].iter().all(|name| folder.join("bin").join(name).is_file());
    let found = homes().map(|home| home.join(major.to_string())).find(whole);
    let found = found.ok_or_else(|| Unavailable::Missing(format!("PostgreSQL {major}")))?;
    found.canonicalize().map_err(|error| Unavailable::failed(found.display(), error))
}

/// A client program that is at least as new as the server, since not every installation has all of them.
pub(crate) fn client(name: &str, major: u16) -> Result<PathBuf> {
    let installed = (major..=MAJORS[MAJORS.len() - 1]).filter_map(|newer| find(newer).ok());
    let mut programs = installed.map(|folder| folder.join("bin").join(name));
    programs
        .find(|program| program.is_file())
        .ok_or_else(|| Unavailable::Missing(format!("{name} for PostgreSQL {major}")))
}

/// The program pgbouncer.
pub(crate) fn pgbouncer() -> Result<PathBuf> {
    let beside = homes().filter_map(|home| Some(home.parent()?.join("bin")));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = beside.chain([PathBuf::from("/usr/sbin")]).chain(env::split_paths(&path).collect::<Vec<_>>());
    let found = folders.map(|folder| folder.join("pgbouncer")).find(|program| program.is_file());
    found.ok_or_else(|| Unavailable::Missing("pgbouncer".into()))
}

/// A psql that is at least as new as the server of a major.
///
/// # Errors
/// `Missing` when there is none.
pub fn psql(major: u16) -> Result<PathBuf> {
    client("psql", major)
}

/// The python that `cargo xtask setup` made, which has psycopg.
///
/// # Errors
/// `Missing` when it was not made.
pub fn python_with_psycopg() -> Result<PathBuf> {
    complete("python").map(|folder| folder.join("bin/python")).ok_or_else(|| Unavailable::Missing("psycopg".into()))
}

/// The `node_modules` that `cargo xtask setup` made, which hold pg.
///
/// # Errors
/// `Missing` when they were not made.
pub fn node_modules_with_pg() -> Result<PathBuf> {
    complete("node").map(|folder| folder.join("node_modules")).ok_or_else(|| Unavailable::Missing("pg".into()))
}

/// A java that runs a file of source, and the driver for PostgreSQL that goes into its class path.
///
/// # Errors
/// `Optional` when there is no JDK; `Missing` when there is one and no driver.
pub fn java_with_jdbc() -> Result<(PathBuf, PathBuf)> {
    let folders = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect::<Vec<_>>();
    let on_path = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|program| program.is_file());
    // Sources take a compiler, which comes with this program.
    let java = on_path("javac").and_then(|_| on_path("java")).ok_or_else(|| Unavailable::Optional("a JDK".into()))?;
    let jars = [place::folder().join("java/postgresql.jar"), PathBuf::from("/usr/share/java/postgresql.jar")];
    let jar = jars.into_iter().find(|jar| jar.is_file());
    Ok((java, jar.ok_or_else(|| Unavailable::Missing("jdbc".into()))?))
}

/// A folder that `cargo xtask setup` filled to the end.
fn complete(name: &str) -> Option<PathBuf> {
    let folder = place::folder().join(name);
    folder.join("complete").is_file().then_some(folder)
}

/// Folders of installations, one a major each; the one that is asked for by name goes first.
fn homes() -> impl Iterator<Item = PathBuf> {
    let named = env::var_os(HOME).map(PathBuf::from);
    named.into_iter().chain([place::folder().to_path_buf(), Path::new(SYSTEM).to_path_buf()])
}
