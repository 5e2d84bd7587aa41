//! `fencepost migrate up` and `down`: says what is to be done, and does it.

use std::time::Duration;

use fencepost::migrate::{Because, Done, Plan, RunOptions, Step};
use fencepost::{Error, Result};
use serde_json::{Value, json};

use super::story::Story;
use super::target::Target;
use super::title;
use crate::cli::{MigrateDownArgs, MigrateUpArgs};
use crate::printer::Printer;
use crate::text;

const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_secs(3_600);

/// Runs `up`.
pub async fn run(url: &str, args: &MigrateUpArgs, printer: &Printer) -> Result<()> {
    let lock_timeout = lock_timeout(&args.lock_timeout)?;
    let target = Target::locking(url, &args.place, &args.lock, RunOptions { lock_timeout, ..RunOptions::default() })?;
    let plan = target.plan(args.to).await?;
    plan.judge()?;
    for finding in &plan.findings {
        printer.note(&finding.diagnostic().to_string());
    }
    if args.dry_run {
        let steps: Vec<_> = plan.steps.iter().map(step_json).collect();
        return printer.answer(|| described(&plan, "would run"), || json!({"dry_run": true, "pending": steps}));
    }
    if !plan.steps.is_empty() {
        printer.note(&described(&plan, "to run"));
    }
    let mut story = Story::new(printer, "applied");
    let done = target.up(args.to, &mut |event| story.tell(event)).await;
    story.end();
    answer(&done?, "applied", printer)
}

/// Runs `down`.
pub async fn down(url: &str, args: &MigrateDownArgs, printer: &Printer) -> Result<()> {
    let target = Target::locking(url, &args.place, &args.lock, RunOptions::default())?;
    if args.dry_run {
        let numbers = target.way_back(args.to).await?;
        let human = || match &*numbers {
            [] => "nothing to undo".to_owned(),
            numbers => format!("would undo {}", listed(numbers)),
        };
        return printer.answer(human, || json!({"dry_run": true, "undone": numbers}));
    }
    let mut story = Story::new(printer, "undone");
    let done = target.down(args.to, &mut |event| story.tell(event)).await;
    story.end();
    answer(&done?, "undone", printer)
}

fn lock_timeout(text: &str) -> Result<Duration> {
    let allowed = "allowed is from `1ms` to `1h`";
    let within = |span| {
        let fits = (LEAST..=MOST).contains(&span);
        if fits { Ok(span) } else { Err(Error::invalid("the bound is out of range", allowed)) }
    };
    text::parse_within(text, "lock-timeout", "a bound for locks", allowed, within)
}

fn answer(done: &Done, verb: &str, printer: &Printer) -> Result<()> {
    let human = || match done.numbers.len() as u64 {
        0 if verb == "applied" => "nothing to run: the database is up to date".to_owned(),
        0 => "nothing to undo".to_owned(),
        count => format!("{verb} {}", text::counted(count, "migration")),
    };
    printer.answer(
        human,
        || json!({verb: done.numbers, "outcome": if done.numbers.is_empty() { "current" } else { verb }}),
    )
}

/// What is to be run, a line for each file.
fn described(plan: &Plan<'_>, verb: &str) -> String {
    if plan.steps.is_empty() {
        return "nothing to run: the database is up to date".into();
    }
    let lines: Vec<_> = plan.steps.iter().map(|step| format!("  {}", line(step))).collect();
    format!("{verb}: {}\n{}", text::counted(plan.steps.len() as u64, "migration"), lines.join("\n"))
}

fn line(step: &Step<'_>) -> String {
    let migration = step.migration;
    let mut line = title(migration.number, &migration.name);
    line += &format!(", {}", text::counted(migration.statements.len() as u64, "statement"));
    if migration.options.no_transaction {
        line += ", in no transaction";
    }
    match step.because {
        Because::Pending => line,
        Because::Failed => format!("{line}, failed before: goes on at statement {}", step.done + 1),
        Because::Interrupted => format!("{line}, was interrupted: goes on at statement {}", step.done + 1),
    }
}

fn step_json(step: &Step<'_>) -> Value {
    let because = match step.because {
        Because::Pending => "pending",
        Because::Failed => "failed",
        Because::Interrupted => "interrupted",
    };
    let migration = step.migration;
    json!({
        "number": migration.number,
        "name": migration.name,
        "file": migration.file,
        "statements": migration.statements.len(),
        "done": step.done,
        "because": because,
        "transaction": !migration.options.no_transaction,
    })
}

fn listed(numbers: &[u64]) -> String {
    numbers.iter().map(|number| format!("{number:04}")).collect::<Vec<_>>().join(", ")
}
