//! The demo's input: the flights that are built into the program, or any csv file with a key column.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufReader, Read};

use fencepost::{Error, Result};
use indicatif::ProgressBar;

use super::tally::{Reading, Tally};
use crate::records::{Format, Records, Source};

const FLIGHTS: &[u8] = include_bytes!("../../../data/flights-2013-01.csv");
const FLIGHTS_NAME: &str = "flights-2013-01.csv";
const FLIGHTS_KEY: &str = "tailnum";

/// What a key's row is kept under: the key, or nothing for records that have none.
pub type RowKey = Option<String>;

/// The result of the plain single pass, row by row: what the workers' table must equal.
#[derive(Debug, Default)]
pub struct Expected {
    /// Every key's row.
    pub rows: BTreeMap<RowKey, Tally>,
    /// How many records there are.
    pub records: u64,
}

/// Where the records come from.
#[derive(Debug)]
pub enum Input {
    /// Two weeks of departures from New York.
    Flights,
    /// Somebody's own file.
    File {
        /// The file.
        source: Source,
        /// Its key column.
        key: String,
        /// Its name as it was given.
        name: String,
    },
}

impl Input {
    /// The built-in input, or the file named.
    ///
    /// # Errors
    /// `invalid_input` when the file cannot be read, or not twice.
    pub fn open(file: Option<&OsStr>, key: Option<&str>) -> Result<Self> {
        let (Some(path), Some(key)) = (file, key) else { return Ok(Input::Flights) };
        let source = Source::open(path)?;
        let name: String =
            path.to_string_lossy().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        if source.size().is_none() {
            return Err(Error::invalid(
                format!("cannot read `{name}` twice: it is not a regular file"),
                "the demo reads its input once for the workers and once to check them; save it to a file first",
            ));
        }
        Ok(Input::File { source, key: key.to_owned(), name })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Input::Flights => FLIGHTS_NAME,
            Input::File { name, .. } => name,
        }
    }

    /// Its key column.
    pub fn key(&self) -> &str {
        match self {
            Input::Flights => FLIGHTS_KEY,
            Input::File { key, .. } => key,
        }
    }

    /// How its records are read.
    pub fn reading(&self) -> Reading {
        match self {
            Input::Flights => Reading::Flight,
            Input::File { .. } => Reading::Record,
        }
    }

    /// Its records, from the beginning.
    ///
    /// # Errors
    /// As [`Records::new`].
    pub fn records(&self) -> Result<Records<BufReader<Box<dyn Read + Send + '_>>>> {
        match self {
            Input::Flights => {
                let flights: Box<dyn Read + Send> = Box::new(FLIGHTS);
                Records::new(BufReader::new(flights), FLIGHTS_NAME, Format::Csv, Some(FLIGHTS_KEY))
            }
            Input::File { source, key, .. } => source.records(Format::Csv, Some(key), &ProgressBar::hidden()),
        }
    }

    /// The plain single pass: checks every record and sums them up by key.
    ///
    /// # Errors
    /// `invalid_input` with the line of the first record that is not right.
    pub fn single_pass(&self) -> Result<Expected> {
        let mut expected = Expected::default();
        for record in self.records()? {
            let record = record?;
            let key = record.key.as_ref().map(|key| key.as_str().to_owned());
            let keyed = key.is_some();
            expected.rows.entry(key).or_default().add(&record.text, keyed, self.reading())?;
            expected.records += 1;
        }
        Ok(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_flights_are_what_they_are_said_to_be() {
        let expected = Input::Flights.single_pass().unwrap();
        let cancelled: u64 = expected.rows.values().map(|row| row.cancelled).sum();
        assert_eq!((expected.records, cancelled), (12_208, 82));
        assert_eq!(expected.rows[&None].legs, 24);
    }
}
