//! `fencepost migrate status` and `verify`: what was applied, and whether it is what the files say.

use fencepost::Result;
use fencepost::migrate::{Entry, Finding, Status};
use serde_json::{Value, json};

use super::target::Target;
use super::title;
use crate::cli::MigratePlaceArgs;
use crate::printer::Printer;
use crate::table::{Show, Table};
use crate::text;

/// Runs `status`.
pub async fn run(url: &str, place: &MigratePlaceArgs, printer: &Printer) -> Result<()> {
    let status = Target::reading(url, place)?.status().await?;
    printer.answer(
        || screen(&status),
        || {
            json!({
                "exists": status.exists,
                "entries": status.entries.iter().map(entry_json).collect::<Vec<_>>(),
                "pending": status.pending,
                "findings": status.findings.iter().map(finding_json).collect::<Vec<_>>(),
            })
        },
    )
}

/// Runs `verify`.
pub async fn verify(url: &str, place: &MigratePlaceArgs, printer: &Printer) -> Result<()> {
    let findings = Target::reading(url, place)?.verify().await?;
    let human = || {
        let lines: Vec<_> = findings
            .iter()
            .map(|finding| format!("note: {}", text::shown(&finding.diagnostic().to_string())))
            .collect();
        [lines, vec!["everything that was applied is what the files say".into()]].concat().join("\n")
    };
    printer.answer(
        human,
        || json!({"outcome": "verified", "findings": findings.iter().map(finding_json).collect::<Vec<_>>()}),
    )
}

fn screen(status: &Status) -> String {
    let mut table = Table::new(["migration", "state", "statements", "when", "took", "by"]);
    for entry in &status.entries {
        table.row([
            title(entry.number, &entry.name).into(),
            state(entry).into(),
            format!("{} of {}", entry.done, entry.statements).into(),
            text::rfc3339(entry.finished_at.unwrap_or(entry.started_at)).into(),
            entry.milliseconds.map(|millis| text::duration(std::time::Duration::from_millis(millis))).into(),
            Show::Text(text::shown(&entry.runner)),
        ]);
    }
    let mut screen = match (status.exists, status.entries.is_empty()) {
        (false, _) => "never migrated\n".to_owned(),
        (true, true) => "nothing applied yet\n".to_owned(),
        (true, false) => table.render(),
    };
    for finding in &status.findings {
        let mark = if finding.is_refusal() { "error" } else { "note" };
        screen += &format!("{mark}: {}\n", text::shown(&finding.diagnostic().to_string()));
    }
    screen += &match &*status.pending {
        [] => "up to date".to_owned(),
        pending => {
            let shown: Vec<_> = pending.iter().take(20).map(|number| format!("{number:04}")).collect();
            let more = if pending.len() > shown.len() { ", …" } else { "" };
            format!("{} to run: {}{more}", text::counted(pending.len() as u64, "migration"), shown.join(", "))
        }
    };
    screen
}

fn state(entry: &Entry) -> String {
    match &entry.failed {
        Some(failed) => format!(
            "{} at statement {}: {}",
            entry.state.as_str(),
            failed.statement,
            text::excerpt(&failed.message, 60)
        ),
        None => entry.state.as_str().to_owned(),
    }
}

fn entry_json(entry: &Entry) -> Value {
    json!({
        "number": entry.number,
        "name": entry.name,
        "state": entry.state.as_str(),
        "hash": entry.hashes.text,
        "statements": entry.statements,
        "done": entry.done,
        "failed": entry.failed.as_ref().map(|failed| json!({
            "statement": failed.statement, "sqlstate": failed.sqlstate, "message": failed.message,
        })),
        "role": entry.role,
        "runner": entry.runner,
        "started_at": text::rfc3339(entry.started_at),
        "finished_at": entry.finished_at.map(text::rfc3339),
        "milliseconds": entry.milliseconds,
        "tool": entry.tool,
    })
}

fn finding_json(finding: &Finding) -> Value {
    let diagnostic = finding.diagnostic();
    json!({
        "code": diagnostic.code,
        "number": finding.number(),
        "file": diagnostic.place.file,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "refuses": finding.is_refusal(),
    })
}
