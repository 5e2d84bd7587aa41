//! Rates of several rounds: their median, their spread, and ratios between rows of one run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Rates by row, one of every round.
#[derive(Debug, Default)]
pub struct Figures {
    rows: BTreeMap<&'static str, Vec<f64>>,
    order: Vec<&'static str>,
}

impl Figures {
    /// Adds what one round has measured: `count` things in `time`.
    pub fn add(&mut self, row: &'static str, count: u64, time: Duration) {
        if !self.order.contains(&row) {
            self.order.push(row);
        }
        self.rows.entry(row).or_default().push(count as f64 / time.as_secs_f64());
    }

    /// The median rate of a row.
    pub fn median(&self, row: &str) -> f64 {
        let mut rates = self.rows.get(row).cloned().unwrap_or_default();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The rows as a table in Markdown: median, least and most a second.
    pub fn table(&self) -> String {
        let mut text = String::from("| row | median /s | least | most |\n| --- | ---: | ---: | ---: |\n");
        for row in &self.order {
            let rates = &self.rows[row];
            let (least, most) =
                rates.iter().fold((f64::MAX, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
            text += &format!("| {row} | {:.0} | {least:.0} | {most:.0} |\n", self.median(row));
        }
        text
    }

    /// `name`: how many times the rate of `base` that of `row` is.
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
