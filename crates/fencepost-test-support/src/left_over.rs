//! What processes left over that were killed together with their guards. It is seen to by the next process that takes a server.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::template::HALF;
use crate::{Unavailable, guard, place, shared};

/// Removes what nobody will remove otherwise; the caller holds the lock for the templates of `major`.
pub fn sweep(major: u16, place: &Path) -> Result {
    let entries = fs::read_dir(place)
        .map_err(|error| Unavailable::failed(format_args!("cannot list `{}`", place.display()), error))?;
    let named = named_servers();
    for folder in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if name.strip_prefix(HALF).is_some_and(|rest| rest.starts_with(&format!("{major}-"))) {
            // Whoever made it held the lock that the caller holds now.
            let _ = fs::remove_dir_all(&folder);
        } else if owner(&name).is_some_and(is_gone) && !named.contains(&folder) && !guard::stands(&folder) {
            guard::sweep(&folder)?;
        }
    }
    Ok(())
}

/// The process that made the folder of a server.
fn owner(name: &str) -> Option<u32> {
    let mut words = name.split('-');
    let is_server = words.next().is_some_and(|kind| ["private", "shared", "bouncer"].contains(&kind));
    if is_server { words.next()?.parse().ok() } else { None }
}

fn is_gone(process: u32) -> bool {
    !Path::new(&format!("/proc/{process}")).exists()
}

/// The folders of shared servers that run, which live longer than those who started them.
fn named_servers() -> Vec<PathBuf> {
    place::all_locks().iter().filter_map(|locks| shared::named(locks)).map(|(folder, _)| folder).collect()
}
