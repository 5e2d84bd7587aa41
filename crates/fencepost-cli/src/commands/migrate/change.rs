//! `fencepost migrate baseline`, `repair` and `import`: change what the ledger says, and run nothing.

use fencepost::migrate::{Changed, Finding, Repair, RunOptions, Source};
use fencepost::{Reason, Result};
use serde_json::json;

use super::story::Story;
use super::target::Target;
use crate::cli::{ImportChoice, MigrateBaselineArgs, MigrateImportArgs, MigrateRepairArgs, RepairChoice};
use crate::printer::Printer;
use crate::text;

/// Runs `baseline`.
pub async fn baseline(url: &str, args: &MigrateBaselineArgs, printer: &Printer) -> Result<()> {
    let reason = Reason::new(&args.reason)?;
    let target = Target::locking(url, &args.place, &args.lock, RunOptions::default())?;
    let number = args.number.or(args.to).unwrap_or_default();
    let mut story = Story::new(printer, "baselined");
    let numbers = target.baseline(number, &reason, &mut |event| story.tell(event)).await?;
    let human = || format!("{} up to {number:04} count as applied", text::counted(numbers.len() as u64, "migration"));
    printer.answer(human, || json!({"outcome": "baselined", "baselined": numbers}))
}

/// Runs `repair`: of one row, or of every file that was edited.
pub async fn repair(url: &str, args: &MigrateRepairArgs, printer: &Printer) -> Result<()> {
    let reason = Reason::new(&args.reason)?;
    let target = Target::locking(url, &args.place, &args.lock, RunOptions::default())?;
    let repairs = match (args.what, args.number) {
        (Some(what), Some(number)) => vec![match what {
            RepairChoice::Accept => Repair::Accept { number },
            RepairChoice::Forget => Repair::Forget { number },
            RepairChoice::MarkDone => Repair::MarkDone { number },
        }],
        _ => {
            let edited = |finding: &Finding| match finding {
                Finding::Edited { number, changed, .. } if *changed != Changed::Nothing => {
                    Some(Repair::Accept { number: *number })
                }
                _ => None,
            };
            target.status().await?.findings.iter().filter_map(edited).collect()
        }
    };
    let (mut lines, mut story) = (Vec::new(), Story::new(printer, "repaired"));
    for repair in &repairs {
        target.repair(*repair, &reason, &mut |event| story.tell(event)).await?;
        lines.push(match repair {
            Repair::Accept { number } => (*number, "accepted", "counts as applied as its file is now"),
            Repair::Forget { number } => (*number, "forgotten", "counts as never run"),
            Repair::MarkDone { number } => (*number, "marked_done", "counts as applied"),
        });
    }
    let human = || match &*lines {
        [] => "nothing to repair: no applied file was edited".to_owned(),
        lines => {
            lines.iter().map(|(number, _, says)| format!("migration {number:04} {says}")).collect::<Vec<_>>().join("\n")
        }
    };
    let repaired: Vec<_> = lines.iter().map(|(number, did, _)| json!({"number": number, "outcome": did})).collect();
    printer.answer(human, || json!({"repaired": repaired}))
}

/// Runs `import`.
pub async fn import(url: &str, args: &MigrateImportArgs, printer: &Printer) -> Result<()> {
    let source = match args.tool {
        ImportChoice::Sqlx => Source::Sqlx,
        ImportChoice::Refinery => Source::Refinery,
        ImportChoice::GolangMigrate => Source::GolangMigrate,
    };
    let target = Target::locking(url, &args.place, &args.lock, RunOptions::default())?;
    let mut story = Story::new(printer, "imported");
    let imported = target.import(source, &mut |event| story.tell(event)).await?;
    let human = || {
        let count = text::counted(imported.numbers.len() as u64, "migration");
        let mut said = format!("took over {count} from {}; nothing was run", source.as_str());
        for number in &imported.different {
            said += &format!("\nnote: the file of migration {number:04} is not what {} applied", source.as_str());
        }
        said
    };
    printer.answer(human, || {
        json!({"outcome": "imported", "tool": source.as_str(), "imported": imported.numbers, "different": imported.different})
    })
}
