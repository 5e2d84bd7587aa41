//! `fencepost dead list`: the messages that a consumer gave up, and why.

use fencepost::{BatchSize, ConsumerPath, DeadLetter, Result, Store, Timestamp};
use serde_json::json;

use crate::cli::DeadListArgs;
use crate::commands::consumer;
use crate::open;
use crate::printer::Printer;
use crate::table::Table;
use crate::text;

/// How many are read at once.
const PAGE: i64 = 1_000;

/// The most characters of a reason that a row shows.
const SHOWN: usize = 60;

/// Runs the command.
pub async fn run(url: &str, args: &DeadListArgs, printer: &Printer) -> Result<()> {
    let path = ConsumerPath::new(&args.queue, &args.consumer)?;
    open::existing(url, async |store| {
        let letters = all(store, &path).await?;
        if letters.is_empty() {
            // They outlive their consumer; without any, a name that is none is what people want to hear of.
            consumer::find(store, &path).await?;
        }
        let now = store.now().await?;
        let human = || match &*letters {
            [] => format!("no dead letters of `{path}`"),
            letters => table(letters, now).render(),
        };
        printer.answer(human, || json!({"dead_letters": letters.iter().map(super::json).collect::<Vec<_>>()}))
    })
    .await
}

async fn all(store: &Store, path: &ConsumerPath) -> Result<Vec<DeadLetter>> {
    let max = BatchSize::new(PAGE)?;
    let mut letters: Vec<DeadLetter> = Vec::new();
    loop {
        let page = store.dead_letters(path, letters.last().map(|letter| letter.id), max).await?;
        let is_last = page.len() < PAGE as usize;
        letters.extend(page);
        if is_last {
            return Ok(letters);
        }
    }
}

fn table(letters: &[DeadLetter], now: Timestamp) -> Table {
    let mut table = Table::new(["id", "key", "kind", "attempts", "cause", "died", "reason"]);
    for letter in letters {
        // The last line of a reason is the cause, as far as programs have habits.
        let reason = letter.reason.as_ref().and_then(|reason| reason.as_str().trim_end().lines().last());
        table.row([
            letter.id.to_string().into(),
            letter.key.as_ref().map(ToString::to_string).into(),
            letter.kind.to_string().into(),
            letter.attempts.into(),
            letter.cause.as_str().to_owned().into(),
            text::relative(letter.died_at, now).into(),
            reason.map(|reason| text::excerpt(reason, SHOWN)).into(),
        ]);
    }
    table
}
