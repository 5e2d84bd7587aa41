//! `cargo xtask tidy`: the rules of style that a machine can check, over the files that git has or would take in. Every complaint
//! names the place and what to do.

mod decisions;
mod source;

use std::fs;

use crate::{Result, workspace};

pub fn run() -> Result {
    let root = workspace::root();
    let files = workspace::files()?;
    let mut findings = decisions::findings(&files, |file| fs::read_to_string(root.join(file)).unwrap_or_default());
    for file in files.iter().filter(|file| source::is_checked(file)) {
        let text = fs::read_to_string(root.join(file)).map_err(|error| format!("cannot read `{file}`: {error}"))?;
        findings.extend(source::findings(file, &text));
    }
    workspace::report("style", &findings)
}
