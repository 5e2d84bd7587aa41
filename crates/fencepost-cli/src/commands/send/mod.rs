//! `fencepost send`: one message, or every record of a file.

mod file;

use std::io::Read;

use fencepost::{Error, Key, Kind, MAX_PAYLOAD, MessageKind, NewMessage, QueueName, Result};
use serde_json::json;

use crate::cli::SendArgs;
use crate::open;
use crate::printer::Printer;

/// Runs the command.
pub async fn run(url: &str, args: &SendArgs, printer: &Printer) -> Result<()> {
    // ORDER: what is wrong with the arguments is said before the store is opened and anything is read.
    let queue = QueueName::new(&args.queue)?;
    let key = args.key.as_deref().map(Key::new).transpose()?;
    let kind = MessageKind::new(&args.kind)?;
    if let Some(path) = &args.file {
        return file::run(url, path, args, file::Target { queue, key, kind }, printer).await;
    }
    let payload = match args.payload.as_deref() {
        Some("-") => standard_input()?,
        payload => payload.unwrap_or_default().into(),
    };
    let message = NewMessage::new(payload)?.key(key).kind(kind);
    open::existing(url, async |store| {
        let id = store.send(&queue, message).await?;
        printer.answer(|| id.to_string(), || json!({"queue": queue.as_str(), "id": id.get()}))
    })
    .await
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
