//! `fencepost dead show`: one message that a consumer gave up, whole, with the reason.

use fencepost::{ConsumerPath, DeadCause, DeadLetter, MessageId, Result, Timestamp};

use crate::cli::DeadShowArgs;
use crate::open;
use crate::printer::Printer;
use crate::table::facts;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &DeadShowArgs, printer: &Printer) -> Result<()> {
    let path = ConsumerPath::new(&args.queue, &args.consumer)?;
    let id = MessageId::new(args.id)?;
    open::existing(url, async |store| {
        let letter = super::find(store, &path, id).await?;
        let now = store.now().await?;
        printer.answer(|| screen(&letter, now), || super::json(&letter))
    })
    .await
}

fn screen(letter: &DeadLetter, now: Timestamp) -> String {
    let at = |at: Timestamp| format!("{} ({})", text::relative(at, now), text::rfc3339(at));
    let cause = match letter.cause {
        DeadCause::Attempts => "attempts: it failed as often as the consumer allows",
        DeadCause::Rejected => "rejected: its handler said that it can never succeed",
        DeadCause::Crashes => "crashes: handed out alone, it ended two workers",
    };
    let mut screen = facts(&[
        ("message", letter.id.to_string()),
        ("consumer", letter.path.to_string()),
        ("key", letter.key.as_ref().map_or_else(|| "-".into(), ToString::to_string)),
        ("kind", letter.kind.to_string()),
        ("sent", at(letter.created_at)),
        ("died", at(letter.died_at)),
        ("attempts", letter.attempts.to_string()),
        ("cause", cause.to_owned()),
    ]);
    for (name, value) in &letter.headers {
        screen += &format!("header {}={}\n", text::harmless(name), text::harmless(value));
    }
    if let Some(reason) = &letter.reason {
        screen += &format!("\nreason\n{}\n", text::harmless(reason.as_str().trim_end()));
    }
    let payload = match std::str::from_utf8(&letter.payload) {
        Ok(payload) => text::harmless(payload.trim_end()),
        Err(_) => super::message::payload_excerpt(&letter.payload),
    };
    screen + &format!("\npayload\n{payload}\n")
}
