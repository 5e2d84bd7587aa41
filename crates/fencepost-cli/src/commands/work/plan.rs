//! What `work` was asked for, checked before anything is opened.

use std::time::Duration;

use fencepost::runtime::WorkerSettings;
use fencepost::{BatchSize, ConsumerPath, Error, Result, Ttl, WorkerName};

use crate::cli::WorkArgs;
use crate::text;

/// The most commands at once.
const WORKERS: i64 = 1_000;

/// The shortest TTL: what is shorter is lost while a command is started.
const LEAST_TTL: Duration = Duration::from_secs(1);

/// The longest grace.
const GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// How commands are run for a consumer's messages.
#[derive(Debug)]
pub struct Plan {
    /// The consumer.
    pub path: ConsumerPath,
    /// For `sh -c`.
    pub command: String,
    /// How many commands run at once.
    pub workers: usize,
    /// How many messages a command gets at most; unless said, one, in a way of its own.
    pub batch: Option<BatchSize>,
    /// Whether to end when nothing is left.
    pub until_empty: bool,
    /// How long commands may go on when the worker is told to end.
    pub grace: Duration,
    ttl: Ttl,
    name: WorkerName,
}

impl Plan {
    /// # Errors
    /// `invalid_input` for what is no name, no number within its range, or no duration.
    pub fn new(args: &WorkArgs) -> Result<Self> {
        Ok(Self {
            path: ConsumerPath::new(&args.queue, &args.consumer)?,
            command: command(&args.exec)?,
            workers: workers(args.workers)?,
            batch: args.batch.map(BatchSize::new).transpose()?,
            until_empty: args.until_empty,
            ttl: ttl(&args.ttl)?,
            grace: grace(&args.grace)?,
            name: args.name.as_ref().map_or_else(|| text::this_process(WorkerName::new), WorkerName::new)?,
        })
    }

    /// How the worker works. Without batches as many messages are handed out together as may run at once, so that no more than these
    /// come again when it dies.
    pub fn settings(&self) -> Result<WorkerSettings> {
        let together = BatchSize::new(self.workers as i64)?;
        Ok(WorkerSettings::new(self.path.clone(), self.name.clone())
            .ttl(self.ttl)
            .grace(self.grace)
            .max(self.batch.unwrap_or(together)))
    }

    /// How long a command may take to stop once it is told to: it has to have ended before the worker stops waiting for it, which is
    /// a tenth of the TTL or a quarter of the grace later.
    pub fn patience(&self) -> Duration {
        (self.ttl.get() / 20).min(self.grace / 8)
    }
}

fn command(text: &str) -> Result<String> {
    if text.trim().is_empty() || text.contains('\0') {
        return Err(Error::invalid(
            format!("cannot run `{}`: it is blank or holds a NUL", text.escape_debug()),
            "`--exec` takes what `sh -c` runs, such as './bill.sh \"$FENCEPOST_KEY\"'",
        )
        .with("argument", "exec"));
    }
    Ok(text.to_owned())
}

fn workers(number: i64) -> Result<usize> {
    usize::try_from(number).ok().filter(|_| (1..=WORKERS).contains(&number)).ok_or_else(|| {
        Error::invalid(format!("cannot run `{number}` commands at once"), format!("allowed are 1 to {WORKERS}"))
            .with("argument", "workers")
    })
}

fn ttl(text: &str) -> Result<Ttl> {
    const ALLOWED: &str = "allowed are 1 s to 24 h, a number and a unit each: `5s`, `30s`, `2m`, `1h 30m`";
    text::parse_within(text, "ttl", "a ttl", ALLOWED, |ttl| {
        Ttl::new(if ttl < LEAST_TTL { Duration::ZERO } else { ttl })
    })
}

fn grace(text: &str) -> Result<Duration> {
    const ALLOWED: &str = "allowed are 0 s to 24 h, a number and a unit each: `500ms`, `30s`, `2m`";
    text::parse_within(text, "grace", "a time to end", ALLOWED, |grace| {
        if grace <= GRACE { Ok(grace) } else { Err(Error::invalid("out of range", ALLOWED)) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(change: impl FnOnce(&mut WorkArgs)) -> Result<Plan> {
        let mut args = WorkArgs {
            queue: "q".into(),
            consumer: "c".into(),
            exec: "true".into(),
            workers: 1,
            batch: None,
            until_empty: false,
            ttl: "30s".into(),
            grace: "10s".into(),
            name: None,
        };
        change(&mut args);
        Plan::new(&args)
    }

    #[test]
    fn a_command_is_killed_before_the_worker_stops_waiting_for_it() {
        let plan = plan(|_| {}).unwrap();
        assert_eq!(plan.patience(), Duration::from_millis(1_250));
        assert!(plan.patience() < plan.ttl.get() / 10 && plan.patience() < plan.grace / 4);
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        for (argument, refused) in [
            ("ttl", plan(|args| args.ttl = "999ms".into())),
            ("ttl", plan(|args| args.ttl = "25h".into())),
            ("grace", plan(|args| args.grace = "25h".into())),
            ("workers", plan(|args| args.workers = 0)),
            ("workers", plan(|args| args.workers = 1_001)),
            ("max", plan(|args| args.batch = Some(0))),
            ("exec", plan(|args| args.exec = " ".into())),
        ] {
            assert_eq!(refused.unwrap_err().fact("argument"), Some(argument));
        }
        assert!(plan(|args| (args.ttl, args.grace) = ("1s".into(), "0s".into())).is_ok());
    }
}
