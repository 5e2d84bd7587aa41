//! Figures of several rounds: their median, their spread, and ratios between rows of one run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Values by row, one of every round.
#[derive(Debug, Default)]
pub struct Figures {
    rows: BTreeMap<String, Vec<f64>>,
    order: Vec<String>,
}

impl Figures {
    /// Adds what one round has measured: `count` things in `time`.
    pub fn add(&mut self, row: &str, count: u64, time: Duration) {
        self.add_value(row, count as f64 / time.as_secs_f64());
    }

    /// Adds what one round has measured.
    pub fn add_value(&mut self, row: &str, value: f64) {
        if !self.rows.contains_key(row) {
            self.order.push(row.to_owned());
        }
        self.rows.entry(row.to_owned()).or_default().push(value);
    }

    /// The median of a row.
    pub fn median(&self, row: &str) -> f64 {
        self.spread(row).map_or(f64::NAN, |(_, median, _)| median)
    }

    /// The least, the median and the most of a row that was measured.
    pub fn spread(&self, row: &str) -> Option<(f64, f64, f64)> {
        let mut values = self.rows.get(row)?.clone();
        values.sort_by(f64::total_cmp);
        Some((*values.first()?, values[values.len() / 2], *values.last()?))
    }

    /// The rows, in the order in which they came.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }

    /// The least, the median and the most of the ratios of two rows, each of one round.
    pub fn ratio_spread(&self, row: &str, base: &str) -> Option<(f64, f64, f64)> {
        let (values, bases) = (self.rows.get(row)?, self.rows.get(base)?);
        let mut ratios: Vec<f64> = values.iter().zip(bases).map(|(value, base)| value / base).collect();
        ratios.sort_by(f64::total_cmp);
        Some((*ratios.first()?, ratios[ratios.len() / 2], *ratios.last()?))
    }

    /// The rows as a table in Markdown: median, least and most a second.
    pub fn table(&self) -> String {
        let mut text = String::from("| row | median /s | least | most |\n| --- | ---: | ---: | ---: |\n");
        for row in &self.order {
            if let Some((least, median, most)) = self.spread(row) {
                text += &format!("| {row} | {median:.0} | {least:.0} | {most:.0} |\n");
            }
        }
        text
    }

    /// `name`: how many times the median of `base` that of `row` is.
    pub fn ratio(&self, name: &str, row: &str, base: &str) -> String {
        format!("| {name} | {:.2} |\n", self.median(row) / self.median(base))
    }
}

/// How long `work` takes.
pub async fn timed<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<Duration, E> {
    let started = Instant::now();
    work.await?;
    Ok(started.elapsed())
}
