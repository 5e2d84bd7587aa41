//! `fencepost send`: one message, or every record of a file.

mod file;
mod template;

use std::io::Read;

use fencepost::{Error, IdempotencyKey, Kind, MAX_PAYLOAD, OnceTtl, QueueName, Result, SentOnce};
use serde_json::json;

use self::template::Template;
use crate::cli::SendArgs;
use crate::open;
use crate::printer::Printer;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &SendArgs, printer: &Printer) -> Result<()> {
    // ORDER: what is wrong with the arguments is said before the store is opened and anything is read.
    let queue = QueueName::new(&args.queue)?;
    let template = Template::new(args)?;
    let once = once(args)?;
    if let Some(path) = &args.file {
        return file::run(url, path, args, file::Target { queue, template }, printer).await;
    }
    let payload = match args.payload.as_deref() {
        Some("-") => standard_input()?,
        payload => payload.unwrap_or_default().into(),
    };
    let message = template.message(payload, None)?;
    open::existing(url, async |store| {
        let sent = match &once {
            Some((key, ttl)) => store.send_once(&queue, message, key, *ttl).await?,
            None => SentOnce { id: store.send(&queue, message).await?, deduplicated: false },
        };
        if sent.deduplicated {
            printer.note(&format!("message {} was sent before under this idempotency key", sent.id));
        }
        printer.answer(
            || sent.id.to_string(),
            || json!({"queue": queue.as_str(), "id": sent.id.get(), "deduplicated": sent.deduplicated}),
        )
    })
    .await
}

/// By which key a message is sent once, and how long that is remembered.
fn once(args: &SendArgs) -> Result<Option<(IdempotencyKey, OnceTtl)>> {
    const ALLOWED: &str = "allowed are 1s to 365d, a number and a unit each: `90s`, `12h`, `7d`";
    let Some(key) = &args.idempotency_key else { return Ok(None) };
    let ttl = args.once_ttl.as_deref().map(|text| {
        text::parse_within(text, "once_ttl", "a time to remember an idempotency key", ALLOWED, OnceTtl::new)
    });
    Ok(Some((IdempotencyKey::new(key)?, ttl.transpose()?.unwrap_or_default())))
}

/// All of standard input, byte for byte. Reads no more than it takes to see that it is too much.
fn standard_input() -> Result<Vec<u8>> {
    let mut payload = Vec::new();
    std::io::stdin()
        .take(MAX_PAYLOAD as u64 + 1)
        .read_to_end(&mut payload)
        .map_err(|cause| Error::new(Kind::Unavailable, "cannot read standard input").caused_by(cause))?;
    if payload.len() > MAX_PAYLOAD {
        return Err(Error::new(Kind::LimitExceeded, "cannot send standard input as one payload: it is too large")
            .with("limit", MAX_PAYLOAD)
            .hinted("a payload may have 1048576 bytes (1 MiB); `--file -` sends every line as a message of its own"));
    }
    Ok(payload)
}
