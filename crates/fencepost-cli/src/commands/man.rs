//! `fencepost man`: the manual page, or one for every command.

use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;
use fencepost::{Error, Kind, Result};

use crate::cli::{Cli, ManArgs};
use crate::printer::Printer;

/// Runs the command.
pub fn run(args: &ManArgs, printer: &Printer) -> Result<()> {
    match &args.dir {
        None => {
            let mut page = Vec::new();
            let rendered = Man::new(Cli::command()).render(&mut page);
            rendered.map_err(|cause| Error::new(Kind::Internal, "cannot write the manual page").caused_by(cause))?;
            printer.document(&page)
        }
        Some(dir) => {
            write_all(dir).map_err(|cause| {
                let shown = dir.display();
                Error::new(Kind::Unavailable, format!("cannot write the manual pages to `{shown}`"))
                    .hinted("name a folder that may be written to")
                    .caused_by(cause)
            })?;
            printer.note(&format!("wrote the manual pages to `{}`", dir.display()));
            printer.record(|| serde_json::json!({"dir": dir.display().to_string()}))
        }
    }
}

fn write_all(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command(), dir)
}
