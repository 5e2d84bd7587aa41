//! Whose processes the servers are. PostgreSQL refuses to run as root: root's tests use another account for it.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::Unavailable;
use crate::error::Result;

/// The accounts that root uses, the better first.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// The account that servers run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// The one that the test runs as.
    Own,
    /// Another, since the test runs as root.
    Other {
        /// Its number.
        user: u32,
        /// The number of its group.
        group: u32,
    },
}

impl Account {
    /// The account that servers can run as here.
    pub fn choose() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Own);
        }
        let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let found = CANDIDATES.iter().find_map(|name| known.lines().find_map(|line| entry(line, name)));
        found.ok_or_else(|| Unavailable::Missing("an account `postgres` or `nobody` to run servers as".into()))
    }

    /// A command that runs as this account, in `folder`.
    pub fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        if let Self::Other { user, group } = *self {
            command.uid(user).gid(group);
        }
        command
            .current_dir(folder)
            .env("LC_ALL", "C")
            .env_remove("PGDATA")
            .env_remove("PGPORT")
            .env_remove("PGOPTIONS");
        command
    }

    /// Makes `path` the account's own.
    pub fn take(&self, path: &Path) -> std::io::Result<()> {
        match *self {
            Self::Own => Ok(()),
            Self::Other { user, group } => chown(path, Some(user), Some(group)),
        }
    }

    /// Whether the account gets to `folder`: it may pass through all folders above, and look into it.
    pub fn reaches(&self, folder: &Path) -> bool {
        let Self::Other { user, group } = *self else { return true };
        folder.ancestors().all(|above| {
            fs::metadata(above).is_ok_and(|found| {
                let bits = match found.mode() {
                    mode if found.uid() == user => mode >> 6,
                    mode if found.gid() == group => mode >> 3,
                    mode => mode,
                };
                bits & 0o1 != 0
            })
        })
    }
}

/// The account of a line in the list of accounts, if it is the named one.
fn entry(line: &str, name: &str) -> Option<Account> {
    let mut fields = line.split(':');
    if fields.next()? != name {
        return None;
    }
    let user = fields.nth(1)?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some(Account::Other { user, group })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let line = "postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash";
        assert_eq!(entry(line, "postgres"), Some(Account::Other { user: 101, group: 104 }));
        assert_eq!(entry(line, "post"), None);
    }
}
