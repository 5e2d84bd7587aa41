//! Lines of a text: LF or CRLF, the last one with or without an ending, UTF-8, each of bounded length, numbered for messages.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};

use fencepost::{Error, Kind, MAX_PAYLOAD, Result};

/// The most of a line that is held in memory: enough to see that it is too long, whatever stands around it.
const HELD: u64 = MAX_PAYLOAD as u64 + 8;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Where a line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Counted from 1.
    pub line: u64,
    /// The byte of the input at which it begins.
    pub offset: u64,
}

/// Reads lines. The text of the last one stays here until the next is read.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    name: String,
    place: Place,
    /// The last line with its ending.
    held: Vec<u8>,
    /// How many of its bytes are text.
    text: usize,
}

impl<R: BufRead> Lines<R> {
    /// Reads `input`, which messages call `name`.
    pub fn new(input: R, name: &str) -> Self {
        Self { input, name: name.to_owned(), place: Place { line: 0, offset: 0 }, held: Vec::new(), text: 0 }
    }

    /// Reads the next line.
    pub fn next(&mut self) -> Result<Option<Place>> {
        self.place.offset += self.held.len() as u64;
        self.place.line += 1;
        self.held.clear();
        let read = (&mut self.input).take(HELD).read_until(b'\n', &mut self.held);
        if let Err(cause) = read {
            return Err(Error::new(Kind::Unavailable, format!("cannot read `{}`", self.name)).caused_by(cause));
        }
        if self.held.is_empty() {
            return Ok(None);
        }
        if self.place.line == 1 && self.held.starts_with(BYTE_ORDER_MARK) {
            self.held.drain(..BYTE_ORDER_MARK.len());
            self.place.offset += BYTE_ORDER_MARK.len() as u64;
        }
        let place = self.place;
        let text = self.held.strip_suffix(b"\n").map_or(&*self.held, |text| text.strip_suffix(b"\r").unwrap_or(text));
        self.text = text.len();
        if let Err(error) = std::str::from_utf8(text) {
            // A line that is cut where memory ends may be cut inside a character: then it is long, not wrong.
            if error.error_len().is_some() || self.text <= MAX_PAYLOAD {
                return Err(self.not_utf8(&place, error.valid_up_to()));
            }
        }
        if self.text > MAX_PAYLOAD {
            return Err(self.too_large(&place, ""));
        }
        Ok(Some(place))
    }

    /// Reads the next line that is not empty in the sense of `is_empty`, and counts those that are.
    pub fn next_filled(&mut self, empty: &mut u64, is_empty: impl Fn(&str) -> bool) -> Result<Option<Place>> {
        while let Some(place) = self.next()? {
            if !is_empty(self.text()) {
                return Ok(Some(place));
            }
            *empty += 1;
        }
        Ok(None)
    }

    /// The last line without its ending.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.held[..self.text]).expect("checked when it was read")
    }

    /// The ending of the last line; empty when the input ends with it.
    pub fn ending(&self) -> &'static str {
        match self.held.len() - self.text {
            0 => "",
            1 => "\n",
            _ => "\r\n",
        }
    }

    fn not_utf8(&self, place: &Place, valid: usize) -> Error {
        let offset = place.offset + valid as u64;
        let byte = self.held[valid];
        let why = format!("byte 0x{byte:02X} at offset {offset} is not UTF-8");
        let utf16 = place.offset == 0 && (self.held.starts_with(b"\xff\xfe") || self.held.starts_with(b"\xfe\xff"));
        let from = if utf16 { "UTF-16" } else { "LATIN1" };
        let allowed =
            format!("text is read as UTF-8; convert the file first, for example with `iconv -f {from} -t UTF-8`");
        self.refuse(place, Kind::InvalidInput, &why, allowed).with("offset", offset)
    }

    /// An error about what stands at `place`.
    pub fn refuse(&self, place: &Place, kind: Kind, why: &str, allowed: impl Into<Cow<'static, str>>) -> Error {
        Error::new(kind, format!("cannot take `{}:{}`: {why}", self.name, place.line))
            .during("read_records")
            .with("file", &self.name)
            .with("line", place.line)
            .hinted(allowed)
    }

    /// An error about the whole input.
    pub fn refuse_file(&self, why: &str, allowed: &'static str) -> Error {
        Error::invalid(format!("cannot take `{}`: {why}", self.name), allowed)
            .during("read_records")
            .with("file", &self.name)
    }
}

impl<T: Read> Lines<BufReader<T>> {
    /// What was read ahead.
    pub fn buffered(&self) -> &[u8] {
        self.input.buffer()
    }
}
