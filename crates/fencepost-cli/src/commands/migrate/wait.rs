//! `fencepost migrate wait`: whether the database is ready for the program that carries these files.

use fencepost::Result;
use fencepost::migrate::Readiness;
use serde_json::{Value, json};

use super::target::{Target, span};
use crate::cli::MigrateWaitArgs;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &MigrateWaitArgs, printer: &Printer) -> Result<Exit> {
    let within = span(&args.wait, "wait", "a bound for waiting")?;
    let readiness = Target::reading(url, &args.place)?.wait(within).await?;
    printer.answer(|| sentence(&readiness), || facts(&readiness))?;
    Ok(match readiness {
        Readiness::Ready { .. } => Exit::Done,
        Readiness::Never | Readiness::Behind { .. } => Exit::Refused,
        Readiness::Failed { .. } | Readiness::Ahead { .. } => Exit::Schema,
    })
}

fn sentence(readiness: &Readiness) -> String {
    match readiness {
        Readiness::Ready { latest: None } => "ready: there are no migrations".into(),
        Readiness::Ready { latest: Some(latest) } => format!("ready: at migration {latest:04}"),
        Readiness::Never => "never migrated: `fencepost migrate up` runs the migrations".into(),
        Readiness::Behind { pending, next, running: None } => {
            format!("behind: {} to run, next is {next:04}", text::counted(*pending as u64, "migration"))
        }
        Readiness::Behind { pending, running: Some(running), .. } => format!(
            "behind: {} to run; {} runs {:04}, statement {} of {}, since {}",
            text::counted(*pending as u64, "migration"),
            text::shown(&running.runner),
            running.number,
            running.statement,
            running.statements,
            text::rfc3339(running.since)
        ),
        Readiness::Failed { number, at } => {
            format!("failed: migration {number:04} at statement {}: {}", at.statement, text::shown(&at.message))
        }
        Readiness::Ahead { number } => {
            format!("ahead: the database has migration {number:04}, which is later than every file")
        }
    }
}

fn facts(readiness: &Readiness) -> Value {
    let mut facts = match readiness {
        Readiness::Ready { latest } => json!({"latest": latest}),
        Readiness::Never => json!({}),
        Readiness::Behind { pending, next, running } => json!({
            "pending": pending,
            "next": next,
            "running": running.as_ref().map(|running| json!({
                "number": running.number,
                "statement": running.statement,
                "statements": running.statements,
                "runner": running.runner,
                "since": text::rfc3339(running.since),
            })),
        }),
        Readiness::Failed { number, at } => {
            json!({"number": number, "statement": at.statement, "sqlstate": at.sqlstate, "message": at.message})
        }
        Readiness::Ahead { number } => json!({"number": number}),
    };
    facts["state"] = readiness.as_str().into();
    facts["ready"] = matches!(readiness, Readiness::Ready { .. }).into();
    facts
}
