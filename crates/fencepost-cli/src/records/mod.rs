//! Records of a file: lines, csv or json, read as a stream of bounded memory and checked one by one. Whatever is wrong with one
//! is an error that names the file, the line, what was found and what is allowed.

mod csv;
mod json;
mod lines;
mod source;

use std::io::{BufRead, BufReader, Read};

use fencepost::{Error, Key, Kind, MAX_PAYLOAD, Result};

use self::csv::Csv;
use self::lines::{Lines, Place};

pub use self::source::Source;

/// What a record is, and where its key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A line; it has no key.
    Lines,
    /// A record of comma-separated values under a header row, with quotes as in RFC 4180; its key is a column.
    Csv,
    /// A JSON object on one line; its key is a field that holds a string or a number.
    Json,
}

/// One record.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    /// The line on which it begins, counted from 1.
    pub line: u64,
    /// It as it stands in the file, without the line ending. At most [`MAX_PAYLOAD`] bytes.
    pub text: String,
    /// Its key, if it has one.
    pub key: Option<Key>,
}

/// Reads records one by one. After an error nothing more can be read.
#[derive(Debug)]
pub struct Records<R> {
    lines: Lines<R>,
    shape: Shape,
    found: u64,
    empty: u64,
}

#[derive(Debug)]
enum Shape {
    Lines,
    Csv(Box<Csv>),
    Json { key_field: Option<String> },
}

impl<R: BufRead> Records<R> {
    /// Begins to read `input`, which messages call `name`. Of csv this reads the header row.
    ///
    /// # Errors
    /// `invalid_input` when a key field is asked of lines, when the input is empty, or when its header is unreadable or lacks the
    /// key column; `unavailable` when the input cannot be read.
    pub fn new(input: R, name: &str, format: Format, key_field: Option<&str>) -> Result<Self> {
        let mut lines = Lines::new(input, name);
        let mut empty = 0;
        let shape = match (format, key_field) {
            (Format::Lines, Some(field)) => {
                return Err(Error::invalid(
                    format!(
                        "cannot take the key from the field `{field}`: records of the format `lines` have no fields"
                    ),
                    "the formats `csv` and `json` have fields; `--key` gives all messages one key",
                )
                .with("argument", "key_field"));
            }
            (Format::Lines, None) => Shape::Lines,
            (Format::Csv, key_field) => Shape::Csv(Box::new(Csv::new(&mut lines, &mut empty, key_field)?)),
            (Format::Json, key_field) => Shape::Json { key_field: key_field.map(str::to_owned) },
        };
        Ok(Self { lines, shape, found: 0, empty })
    }

    /// How many lines were skipped because nothing stands on them.
    pub const fn empty(&self) -> u64 {
        self.empty
    }

    fn read(&mut self) -> Result<Option<Record>> {
        let record = match &mut self.shape {
            Shape::Csv(csv) => csv.read(&mut self.lines, &mut self.empty)?,
            Shape::Lines => {
                self.lines.next_filled(&mut self.empty, str::is_empty)?.map(|place| self.lines.record(place, None))
            }
            Shape::Json { key_field } => {
                match self.lines.next_filled(&mut self.empty, |text| text.trim().is_empty())? {
                    Some(place) => {
                        let key = json::key(&self.lines, &place, key_field.as_deref())?;
                        Some(self.lines.record(place, key))
                    }
                    None => None,
                }
            }
        };
        match record {
            Some(record) => {
                self.found += 1;
                Ok(Some(record))
            }
            None if self.found == 0 => Err(self.nothing_found()),
            None => Ok(None),
        }
    }

    fn nothing_found(&self) -> Error {
        let (why, allowed) = match self.shape {
            Shape::Csv(_) => ("it has a header row and no rows", "a csv file has a header row and at least one row"),
            _ => ("it has no records", "a file has at least one record"),
        };
        self.lines.refuse_file(why, allowed)
    }
}

impl<T: Read> Records<BufReader<T>> {
    /// Whether reading on may have to wait for whoever writes the input: no complete line has arrived.
    pub fn may_wait(&self) -> bool {
        !self.lines.buffered().contains(&b'\n')
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl<R: BufRead> Lines<R> {
    /// The record whose text is the line that was read last.
    fn record(&self, place: Place, key: Option<Key>) -> Record {
        Record { line: place.line, text: self.text().to_owned(), key }
    }

    /// The key that a record at `place` holds as `text`.
    fn key(&self, place: &Place, text: &str) -> Result<Key> {
        Key::new(text).map_err(|error| {
            let allowed = error.hint().unwrap_or_default().to_owned();
            self.refuse(place, Kind::InvalidInput, &error.to_string(), allowed)
        })
    }

    fn too_large(&self, place: &Place, more: &str) -> Error {
        let why = format!("the record has more than {MAX_PAYLOAD} bytes{more}");
        self.refuse(place, Kind::LimitExceeded, &why, "a record may have 1048576 bytes (1 MiB)")
            .with("limit", MAX_PAYLOAD)
    }
}

#[cfg(test)]
mod tests;
