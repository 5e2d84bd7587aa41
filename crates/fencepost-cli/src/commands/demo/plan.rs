//! How many workers there are, and what happens to them.

use fencepost::{Error, Result};

use crate::cli::DemoArgs;

/// The plan of one show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Worker processes, and slots.
    pub workers: u32,
    /// How many are killed.
    pub kill: u32,
    /// How many are paused.
    pub pause: u32,
}

/// The most worker processes: the demo's queue has that many partitions.
const MOST: i64 = super::PARTITIONS;

impl Plan {
    /// Checks what was asked for; what was not adapts to it.
    ///
    /// # Errors
    /// `invalid_input` for no or too many workers, or when nobody would be left to take over.
    pub fn new(args: &DemoArgs) -> Result<Self> {
        if !(1..=MOST).contains(&args.workers) {
            return Err(Error::invalid(
                format!("cannot run `{}` workers", args.workers),
                format!("allowed are 1 to {MOST}, each is a process; the default is 4"),
            )
            .with("argument", "workers"));
        }
        let spare = args.workers - 1;
        let kill = args.kill.unwrap_or(spare.min(1));
        let pause = args.pause.unwrap_or((spare - kill).clamp(0, 1));
        for (name, asked) in [("kill", kill), ("pause", pause)] {
            if asked < 0 {
                return Err(Error::invalid(format!("cannot {name} `{asked}` workers"), "allowed are numbers from 0")
                    .with("argument", name));
            }
        }
        if kill.saturating_add(pause) > spare {
            return Err(Error::invalid(
                format!(
                    "cannot kill `{kill}` and pause `{pause}` of `{}` workers: nobody would take over",
                    args.workers
                ),
                "leave one worker that is neither killed nor paused: raise `--workers`, or lower `--kill` or `--pause`",
            )
            .with("argument", "kill"));
        }
        Ok(Self { workers: args.workers as u32, kill: kill as u32, pause: pause as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(workers: i64, kill: Option<i64>, pause: Option<i64>) -> Result<Plan> {
        Plan::new(&DemoArgs { file: None, key: None, workers, kill, pause })
    }

    #[test]
    fn what_was_not_asked_for_adapts() {
        let shape = |workers, kill, pause| plan(workers, kill, pause).map(|plan| (plan.kill, plan.pause)).unwrap();
        assert_eq!(shape(4, None, None), (1, 1));
        assert_eq!(shape(2, None, None), (1, 0));
        assert_eq!(shape(1, None, None), (0, 0));
        assert_eq!(shape(2, Some(0), None), (0, 1));
        assert_eq!(shape(4, Some(3), None), (3, 0));
    }

    #[test]
    fn somebody_must_be_left_to_take_over() {
        for (workers, kill, pause) in [
            (1, Some(1), None),
            (4, Some(3), Some(1)),
            (4, Some(-1), None),
            (0, None, None),
            (65, None, None),
            (2, Some(i64::MAX), Some(1)),
        ] {
            assert!(plan(workers, kill, pause).is_err(), "{workers} {kill:?} {pause:?}");
        }
    }
}
