//! `fencepost migrate new`: begins a file with the next number.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use fencepost::migrate::Migrations;
use fencepost::{Error, Kind, Result};
use serde_json::json;

use crate::cli::MigrateNewArgs;
use crate::printer::Printer;

const UP: &str = "\
-- Each statement ends with a semicolon; the file is one transaction. What needs none, such as an index that is
-- built concurrently, has a file of its own that begins with `-- fencepost: no-transaction`.
";
const DOWN: &str = "-- Undoes the file of the same number.\n";

/// Runs the command.
pub fn run(args: &MigrateNewArgs, printer: &Printer) -> Result<()> {
    fs::create_dir_all(&args.dir).map_err(|cause| unwritable(&args.dir, cause))?;
    let stem = Migrations::next_name(&args.dir, &args.name)?;
    let mut files = vec![write(args.dir.join(format!("{stem}.sql")), UP)?];
    if args.down {
        files.push(write(args.dir.join(format!("{stem}.down.sql")), DOWN)?);
    }
    let shown: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    printer.answer(|| format!("began {}", shown.join(" and ")), || json!({"outcome": "begun", "files": shown}))
}

/// Writes a file that is not there yet.
fn write(path: PathBuf, text: &str) -> Result<PathBuf> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|cause| unwritable(&path, cause)).map(|()| path)
}

fn unwritable(path: &Path, cause: std::io::Error) -> Error {
    Error::new(Kind::Unavailable, format!("cannot write `{}`", path.display())).caused_by(cause)
}
