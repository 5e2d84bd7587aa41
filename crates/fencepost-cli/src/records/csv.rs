//! Records of comma-separated values: a quoted field may hold line breaks, every record has the fields of the header row.

use std::io::BufRead;

use csv_core::{ReadRecordResult, Reader};
use fencepost::{Error, Key, Kind, MAX_PAYLOAD, Result};

use super::Record;
use super::lines::{Lines, Place};

/// A key that a data set writes for "not available".
const NOT_AVAILABLE: &str = "NA";

/// The reader of one input: its header, and the fields of the record that was read last.
#[derive(Debug)]
pub struct Csv {
    parser: Reader,
    columns: usize,
    key: Option<usize>,
    fields: Fields,
}

/// The unquoted fields of one record, one after the other.
#[derive(Debug, Default)]
struct Fields {
    text: Vec<u8>,
    filled: usize,
    ends: Vec<usize>,
    count: usize,
}

impl Fields {
    fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.count).map(|at| self.get(at))
    }

    fn get(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        // What is parsed is UTF-8, and quotes and commas are characters of their own in it.
        std::str::from_utf8(&self.text[start..self.ends[at]]).expect("fields of UTF-8 text are UTF-8")
    }
}

impl Csv {
    /// Reads the header row and finds the key column in it.
    pub fn new<R: BufRead>(lines: &mut Lines<R>, empty: &mut u64, key_field: Option<&str>) -> Result<Self> {
        let mut csv = Self { parser: Reader::new(), columns: 0, key: None, fields: Fields::default() };
        let Some((place, _)) = csv.raw(lines, empty)? else {
            return Err(lines.refuse_file("it is empty", "a csv file has a header row and at least one row"));
        };
        csv.columns = csv.fields.count;
        csv.key = key_field.map(|field| csv.key_column(lines, &place, field)).transpose()?;
        Ok(csv)
    }

    fn key_column<R: BufRead>(&self, lines: &Lines<R>, place: &Place, field: &str) -> Result<usize> {
        let mut found = (0..self.columns).filter(|at| self.fields.get(*at) == field);
        let columns = || self.fields.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let refuse = |why: &str| {
            lines
                .refuse(place, Kind::InvalidInput, why, format!("its columns are {}", columns()))
                .with("argument", "key_field")
        };
        match (found.next(), found.next()) {
            (Some(at), None) => Ok(at),
            (None, _) => Err(refuse(&format!("the header has no column `{field}`"))),
            (Some(_), Some(_)) => Err(refuse(&format!("the header has more than one column `{field}`"))),
        }
    }

    /// Reads the next record.
    pub fn read<R: BufRead>(&mut self, lines: &mut Lines<R>, empty: &mut u64) -> Result<Option<Record>> {
        let Some((place, text)) = self.raw(lines, empty)? else { return Ok(None) };
        if self.fields.count != self.columns {
            let why = format!("found {}, the header has {}", fields(self.fields.count), fields(self.columns));
            let allowed =
                "every record has the fields of the header row; a comma inside a field needs quotes around the field";
            return Err(lines
                .refuse(&place, Kind::InvalidInput, &why, allowed)
                .with("fields", self.fields.count)
                .with("expected_fields", self.columns));
        }
        let key = self.key.map(|at| self.fields.get(at)).filter(|key| !key.is_empty() && *key != NOT_AVAILABLE);
        let key: Option<Key> = key.map(|key| lines.key(&place, key)).transpose()?;
        Ok(Some(Record { line: place.line, text, key }))
    }

    /// Reads lines until they make a record; its fields are then in `fields`.
    fn raw<R: BufRead>(&mut self, lines: &mut Lines<R>, empty: &mut u64) -> Result<Option<(Place, String)>> {
        let Some(start) = lines.next_filled(empty, str::is_empty)? else { return Ok(None) };
        (self.fields.filled, self.fields.count) = (0, 0);
        let mut quote = start;
        let mut text = String::new();
        let mut place = start;
        loop {
            let before = self.fields.count;
            let line = lines.text();
            text.push_str(line);
            if text.len() > MAX_PAYLOAD {
                return Err(lines.too_large(&start, "; a quote that is never closed looks like this, too"));
            }
            if self.ends_with(line.as_bytes()) {
                let allowed = "lines end with LF or CRLF; a field that holds a carriage return needs quotes around it";
                return Err(lines.refuse(&place, Kind::InvalidInput, "a carriage return stands in the line", allowed));
            }
            // Without an ending the parser would take the end of the input for a closing quote.
            let ending = lines.ending();
            if self.ends_with(if ending.is_empty() { b"\n" } else { ending.as_bytes() }) {
                return Ok(Some((start, text)));
            }
            // The line break is inside quotes, which opened on the last line on which a field ended before.
            if self.fields.count > before {
                quote = place;
            }
            text.push_str(ending);
            match lines.next()? {
                Some(next) => place = next,
                None => return Err(unterminated(lines, &quote)),
            }
        }
    }

    /// Parses the next piece of a record and tells whether the record ended in it.
    fn ends_with(&mut self, mut piece: &[u8]) -> bool {
        // The parser takes empty input for the end of everything.
        while !piece.is_empty() {
            let Fields { text, filled, ends, count } = &mut self.fields;
            let (result, read, written, ended) =
                self.parser.read_record(piece, &mut text[*filled..], &mut ends[*count..]);
            piece = &piece[read..];
            *filled += written;
            *count += ended;
            match result {
                ReadRecordResult::OutputFull => text.resize((text.len() * 2).max(1 << 10), 0),
                ReadRecordResult::OutputEndsFull => ends.resize((ends.len() * 2).max(32), 0),
                ReadRecordResult::Record => return true,
                ReadRecordResult::InputEmpty | ReadRecordResult::End => {}
            }
        }
        false
    }
}

fn fields(count: usize) -> String {
    format!("{count} field{}", if count == 1 { "" } else { "s" })
}

fn unterminated<R: BufRead>(lines: &Lines<R>, quote: &Place) -> Error {
    lines.refuse(
        quote,
        Kind::InvalidInput,
        "a quote opens on this line and never closes",
        "a field in quotes ends with a quote; a quote inside it is written twice",
    )
}
