//! Where records come from: a file by its name, or standard input. A regular file can be read twice, so it can be checked first.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use fencepost::{Error, Kind, Result};
use indicatif::ProgressBar;

use super::{Format, Records};

/// Read at once; what bounds how much of a file is in memory.
const BUFFER: usize = 256 << 10;

/// An opened input.
#[derive(Debug)]
pub struct Source {
    name: String,
    input: Input,
    by_extension: Option<Format>,
}

#[derive(Debug)]
enum Input {
    Stdin,
    Stream(File),
    Regular { file: File, size: u64 },
}

impl Source {
    /// Opens the file of that name, or standard input for `-`.
    ///
    /// # Errors
    /// `invalid_input` when the file is missing, unreadable or a directory.
    pub fn open(path: &OsStr) -> Result<Self> {
        if path == "-" {
            return Ok(Self { name: "stdin".into(), input: Input::Stdin, by_extension: None });
        }
        let path = Path::new(path);
        let name = path.display().to_string();
        let refuse = |why: &str| {
            Error::invalid(format!("cannot read `{name}`: {why}"), "name a readable file, or `-` for standard input")
                .during("read_records")
                .with("file", &name)
        };
        let file = File::open(path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => refuse("there is no such file"),
            io::ErrorKind::PermissionDenied => refuse("no permission"),
            _ => refuse("it cannot be opened").caused_by(cause),
        })?;
        let about = file.metadata().map_err(|cause| refuse("it cannot be examined").caused_by(cause))?;
        if about.is_dir() {
            return Err(refuse("it is a directory"));
        }
        let input = if about.is_file() { Input::Regular { file, size: about.len() } } else { Input::Stream(file) };
        Ok(Self { name, input, by_extension: by_extension(path) })
    }

    /// The format that the extension of the file's name stands for, or lines.
    pub fn format(&self) -> Format {
        self.by_extension.unwrap_or(Format::Lines)
    }

    /// The size of a regular file, which can be read more than once; `None` for what flows by.
    pub fn size(&self) -> Option<u64> {
        match self.input {
            Input::Regular { size, .. } => Some(size),
            Input::Stdin | Input::Stream(_) => None,
        }
    }

    /// Reads from the beginning (or on, when it flows by), and moves `bar` by the bytes read.
    ///
    /// # Errors
    /// As [`Records::new`].
    pub fn records<'a>(
        &'a self,
        format: Format,
        key_field: Option<&str>,
        bar: &ProgressBar,
    ) -> Result<Records<BufReader<Box<dyn Read + Send + 'a>>>> {
        let input: Box<dyn Read + Send + 'a> = match &self.input {
            Input::Stdin => Box::new(bar.wrap_read(io::stdin())),
            Input::Stream(file) => Box::new(bar.wrap_read(file)),
            Input::Regular { file, .. } => {
                let mut file = file;
                file.rewind().map_err(|cause| {
                    Error::new(Kind::Unavailable, format!("cannot read `{}`", self.name)).caused_by(cause)
                })?;
                Box::new(bar.wrap_read(file))
            }
        };
        Records::new(BufReader::with_capacity(BUFFER, input), &self.name, format, key_field)
    }
}

fn by_extension(path: &Path) -> Option<Format> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "csv" => Some(Format::Csv),
        "json" | "jsonl" | "ndjson" => Some(Format::Json),
        _ => None,
    }
}
