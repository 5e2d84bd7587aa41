//! The data folder that every server's data is copied from: made once a major and kept, since making one takes seconds.

use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::account::Account;
use crate::cluster::SETTINGS;
use crate::error::Result;
use crate::{Unavailable, left_over, place, programs};

/// Rises when templates are made differently, so that those of earlier days are not used.
const FORMAT: u32 = 1;

/// Begins the names of folders that are not whole yet; the major follows.
pub const HALF: &str = "half-";

/// What servers of a major are made of.
#[derive(Debug, Clone)]
pub struct Template {
    pub major: u16,
    pub account: Account,
    /// The installation.
    pub home: PathBuf,
    /// Where the data of servers goes.
    pub place: PathBuf,
    /// The data folder to copy.
    data: PathBuf,
    /// The password of `postgres`.
    pub password: String,
}

impl Template {
    /// Finds the template of `major`, or makes it. Blocks while another process makes it.
    pub fn get(major: u16) -> Result<Self> {
        let home = programs::find(major)?;
        let account = Account::choose()?;
        let place = place::data(&account)?;
        let lock = lock(&place::locks(&major.to_string())?.join("template"))?;
        left_over::sweep(major, &place)?;
        let home = reachable(home, major, &account, &place)?;
        let folder = place.join(format!("template-{major}-{FORMAT}"));
        let files = ["password", "data/PG_VERSION", "data/global/pg_control", "data/base/1/PG_VERSION"];
        unless_whole(&folder, &files, || make(&home, &account, major, &folder))?;
        drop(lock);
        let password = folder.join("password");
        let password = fs::read_to_string(&password)
            .map_err(|error| Unavailable::failed(format_args!("cannot read `{}`", password.display()), error))?;
        Ok(Self { major, account, home, place, data: folder.join("data"), password: password.trim().to_owned() })
    }

    /// One of the server's own programs, to be run in `folder`.
    pub fn program(&self, name: &str, folder: &Path) -> Command {
        self.account.command(&self.home.join("bin").join(name), folder)
    }

    /// A number for servers that are made of this and set to `settings` beyond what is usual.
    pub fn mark(&self, settings: &[(String, String)]) -> u64 {
        let mut hasher = DefaultHasher::new();
        (FORMAT, SETTINGS, &self.home, &self.password, settings).hash(&mut hasher);
        hasher.finish()
    }

    /// Copies the data to `to`.
    pub fn copy(&self, to: &Path) -> Result {
        let folder = to.parent().unwrap_or(to);
        run(self.account.command(Path::new("cp"), folder).arg("-R").arg("-p").arg(&self.data).arg(to))
    }
}

/// The installation itself, or a copy of it when the account does not get there.
fn reachable(home: PathBuf, major: u16, account: &Account, place: &Path) -> Result<PathBuf> {
    if account.reaches(&home) {
        return Ok(home);
    }
    let copy = place.join(format!("programs-{major}"));
    unless_whole(&copy, &["bin/postgres", "bin/initdb", "bin/pg_ctl"], || {
        let half = place.join(format!("{HALF}{major}-{}", place::random_name()));
        run(Command::new("cp").args(["-R", "-p"]).arg(&home).arg(&half))?;
        finish(&half, &copy)
    })?;
    Ok(copy)
}

/// Calls `make` unless `folder` has `files`: who tidies up a temporary folder removes files by their age and leaves the folders.
fn unless_whole(folder: &Path, files: &[&str], make: impl FnOnce() -> Result) -> Result {
    if files.iter().all(|file| folder.join(file).is_file()) {
        return Ok(());
    }
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Unavailable::failed(format_args!("cannot remove `{}`", folder.display()), error))
        }
        _ => make(),
    }
}

fn make(home: &Path, account: &Account, major: u16, folder: &Path) -> Result {
    let half = folder.with_file_name(format!("{HALF}{major}-{}", place::random_name()));
    let password = half.join("password");
    let prepared = || {
        DirBuilder::new().mode(0o700).create(&half)?;
        fs::write(&password, [(); 4].map(|()| place::random_name()).concat())?;
        account.take(&password)?;
        account.take(&half)
    };
    prepared().map_err(|error| Unavailable::failed(format_args!("cannot make `{}`", half.display()), error))?;

    let mut command = account.command(&home.join("bin/initdb"), &half);
    command.args(["--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]);
    // Whoever gets to the socket is let in, which is in a folder that is nobody else's.
    command.args(["--auth-local=trust", "--auth-host=scram-sha-256"]);
    command.arg("--pwfile").arg(&password).arg("--pgdata").arg(half.join("data"));
    run(&mut command)?;
    finish(&half, folder)
}

/// Gives what is whole its name.
fn finish(half: &Path, whole: &Path) -> Result {
    fs::rename(half, whole)
        .map_err(|error| Unavailable::failed(format_args!("cannot make `{}`", whole.display()), error))
}

/// Runs `command` to its end, which must be a good one.
pub fn run(command: &mut Command) -> Result {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(std::process::Stdio::null()).output();
    let output = output.map_err(|error| Unavailable::failed(format_args!("cannot run `{name}`"), error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    Err(Unavailable::failed(format_args!("`{name}` ended with {}", output.status), said.trim()))
}

/// Takes the lock that is the file `path`, until the answer is dropped or this process is gone.
pub fn lock(path: &Path) -> Result<File> {
    let locked = || {
        let file = File::options().create(true).append(true).open(path)?;
        file.lock()?;
        Ok(file)
    };
    locked().map_err(|error: io::Error| Unavailable::failed(format_args!("cannot lock `{}`", path.display()), error))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_template_whose_files_are_gone_is_made_again() {
        let folder = std::env::temp_dir().join(format!("fencepost-template-{}", place::random_name()));
        fs::create_dir_all(folder.join("data/left")).unwrap();
        let made = || {
            assert!(!folder.exists());
            fs::create_dir_all(folder.join("data")).unwrap();
            fs::write(folder.join("data/there"), "").unwrap();
            Ok(())
        };
        unless_whole(&folder, &["data/there"], made).unwrap();
        unless_whole(&folder, &["data/there"], || unreachable!("it is whole")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        unless_whole(&folder, &["data/there"], made).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn servers_of_other_settings_or_another_template_have_another_mark() {
        let template = Template {
            major: crate::DEFAULT_MAJOR,
            account: Account::Own,
            home: PathBuf::from("/home"),
            place: PathBuf::from("/place"),
            data: PathBuf::from("/place/data"),
            password: "one".into(),
        };
        let fsync = |value: &str| [("fsync".to_owned(), value.to_owned())];
        let mark = template.mark(&fsync("on"));
        assert_eq!(mark, template.mark(&fsync("on")));
        assert_ne!(mark, template.mark(&fsync("off")));
        assert_ne!(mark, template.mark(&[]));
        assert_ne!(mark, Template { password: "other".into(), ..template.clone() }.mark(&fsync("on")));
        assert_ne!(mark, Template { home: PathBuf::from("/elsewhere"), ..template }.mark(&fsync("on")));
    }
}
