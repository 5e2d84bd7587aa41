//! What is looked at all the time, and whether it grows.

use std::fmt::Write;
use std::time::Duration;

use fencepost::postgres::tokio_postgres::Client;
use fencepost_bench_rows::Outcome;

use super::effects;
use super::sender::Sender;

/// What is drawn and judged: its name, its unit, and how much more than in the second quarter it may be in the last one.
pub const MEASURES: [Measure; 8] = [
    Measure { name: "messages handled a second", allowed: None },
    Measure { name: "lag, messages", allowed: Some((1.5, 2_000.0)) },
    Measure { name: "memory of a worker, MiB", allowed: Some((1.1, 4.0)) },
    Measure { name: "memory of the sender, MiB", allowed: Some((1.1, 8.0)) },
    Measure { name: "connections", allowed: Some((1.1, 4.0)) },
    Measure { name: "tables and indexes of fencepost, MiB", allowed: Some((1.15, 8.0)) },
    Measure { name: "catalog, MiB", allowed: Some((1.05, 2.0)) },
    Measure { name: "dead rows of catalog and fencepost", allowed: Some((1.5, 5_000.0)) },
];

/// One of the things that are looked at.
pub struct Measure {
    pub name: &'static str,
    /// By how many times, and by how much beyond that; `None`: it may do as it likes.
    allowed: Option<(f64, f64)>,
}

/// All measures at one moment.
pub struct Sample {
    pub at: Duration,
    pub values: [f64; MEASURES.len()],
    done: u64,
}

impl Sample {
    pub async fn take(client: &Client, at: Duration, sender: &Sender, steady: Option<u32>) -> Outcome<Self> {
        let steady = steady.ok_or("the worker that is never killed has ended")?;
        let sizes = "select
            (select count(*) from pg_stat_activity where datname = current_database())::float8,
            (select sum(pg_total_relation_size(oid)) from pg_class
                where relnamespace = 'fencepost'::regnamespace and relkind in ('r', 'S'))::float8,
            (select sum(pg_total_relation_size(oid)) from pg_class
                where relnamespace = 'pg_catalog'::regnamespace and relkind = 'r')::float8,
            (select sum(n_dead_tup) from pg_stat_all_tables where schemaname in ('fencepost', 'pg_catalog'))::float8";
        let row = client.query_one(sizes, &[]).await?;
        // Taken first, since more is sent meanwhile.
        let done = effects::done(client).await?;
        let lag = sender.sent().saturating_sub(done) as f64;
        let mib = |index: usize| row.get::<_, f64>(index) / f64::from(1 << 20);
        let (worker, own) = (resident(steady)?, resident(std::process::id())?);
        Ok(Self { at, values: [0.0, lag, worker, own, row.get(0), mib(1), mib(2), row.get(3)], done })
    }

    /// For people who wait.
    pub fn line(&self) -> String {
        let [_, lag, worker, _, connections, tables, ..] = self.values;
        format!(
            "{:>5} s  {:>10} handled, lag {lag:.0}, worker {worker:.1} MiB, {connections:.0} connections, tables {tables:.1} MiB",
            self.at.as_secs(),
            self.done
        )
    }
}

/// The memory of a process that is there, in MiB.
fn resident(process: u32) -> Outcome<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("a process has memory")?;
    Ok(line.split_whitespace().next().unwrap_or_default().parse::<f64>()? / 1_024.0)
}

/// All samples.
#[derive(Default)]
pub struct Series {
    samples: Vec<Sample>,
}

impl Series {
    pub fn add(&mut self, mut sample: Sample) {
        if let Some(last) = self.samples.last() {
            sample.values[0] = (sample.done - last.done) as f64 / (sample.at - last.at).as_secs_f64();
        }
        self.samples.push(sample);
    }

    /// The times in seconds and the values of one measure, without the first sample, before which there is no rate.
    pub fn of(&self, measure: usize) -> Vec<(f64, f64)> {
        self.samples.iter().skip(1).map(|sample| (sample.at.as_secs_f64(), sample.values[measure])).collect()
    }

    pub fn csv(&self) -> String {
        let mut text = "seconds".to_owned();
        for measure in &MEASURES {
            let _ = write!(text, ",\"{}\"", measure.name);
        }
        for sample in &self.samples {
            let _ = write!(text, "\n{}", sample.at.as_secs());
            for value in sample.values {
                let _ = write!(text, ",{value:.1}");
            }
        }
        text + "\n"
    }

    /// The medians of the second and of the last quarter.
    fn quarters(&self, measure: usize) -> (f64, f64) {
        let values = self.of(measure);
        let part = values.len() / 4;
        let median = |range: &[(f64, f64)]| {
            let mut values: Vec<f64> = range.iter().map(|(_, value)| *value).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
        };
        (median(&values[part..part * 2]), median(&values[values.len() - part..]))
    }

    fn grew(&self, measure: usize) -> bool {
        let (before, after) = self.quarters(measure);
        // Not a number is growth: nothing was measured then.
        MEASURES[measure].allowed.is_some_and(|(times, more)| after.is_nan() || after > before * times + more)
    }

    /// A table in Markdown.
    pub fn verdict(&self) -> String {
        let mut text = "| | second quarter | last quarter | |\n| --- | ---: | ---: | --- |\n".to_owned();
        for (index, measure) in MEASURES.iter().enumerate() {
            let (before, after) = self.quarters(index);
            let word = match (measure.allowed, self.grew(index)) {
                (None, _) => "",
                (Some(_), true) => "grew",
                (Some(_), false) => "flat",
            };
            let _ = writeln!(text, "| {} | {before:.1} | {after:.1} | {word} |", measure.name);
        }
        text
    }

    /// # Errors
    /// When something grew.
    pub fn judge(&self) -> Outcome<()> {
        let grown: Vec<_> = (0..MEASURES.len()).filter(|at| self.grew(*at)).map(|at| MEASURES[at].name).collect();
        if grown.is_empty() { Ok(()) } else { Err(format!("this grew: {}", grown.join("; ")).into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(lag: impl Fn(u64) -> f64) -> Series {
        let mut series = Series::default();
        for number in 0..41 {
            let mut values = [10.0; MEASURES.len()];
            values[1] = lag(number);
            series.add(Sample { at: Duration::from_secs(number * 10), values, done: number * 1_000 });
        }
        series
    }

    #[test]
    fn what_stays_is_flat_and_what_grows_is_named() {
        assert_eq!(series(|_| 500.0).judge().map_err(|error| error.to_string()), Ok(()));
        let grown = series(|number| number as f64 * 500.0).judge().unwrap_err();
        assert_eq!(grown.to_string(), "this grew: lag, messages");
    }

    #[test]
    fn the_rate_is_that_since_the_sample_before() {
        assert!(series(|_| 0.0).of(0).iter().all(|(_, rate)| *rate == 100.0));
    }
}
