//! `fencepost dead …`: messages that a consumer gave up.

pub mod list;
pub mod purge;
pub mod replay;
pub mod show;

use fencepost::{BatchSize, ConsumerPath, DeadLetter, Error, Kind, MessageId, Result, Store};
use serde_json::{Value, json};

use super::{consumer, message};
use crate::cli::DeadChoiceArgs;
use crate::text;

/// Which dead letters a command is about: those named, or all.
#[derive(Debug)]
pub struct Choice {
    path: ConsumerPath,
    ids: Option<Vec<MessageId>>,
}

impl Choice {
    /// # Errors
    /// `invalid_input` for a name or an id that is none.
    pub fn new(args: &DeadChoiceArgs) -> Result<Self> {
        let ids = args.ids.iter().map(|id| MessageId::new(*id)).collect::<Result<_>>()?;
        Ok(Self { path: ConsumerPath::new(&args.queue, &args.consumer)?, ids: (!args.all).then_some(ids) })
    }

    /// Makes sure that everything named is there, so that nothing is done by half.
    ///
    /// # Errors
    /// `not_found` with the first id that is not there, or the consumer when it has no dead letters and is not there itself.
    pub async fn check(&self, store: &Store) -> Result<()> {
        let Some(ids) = &self.ids else {
            let is_empty = store.dead_letters(&self.path, None, BatchSize::ONE).await?.is_empty();
            return if is_empty { consumer::find(store, &self.path).await.map(drop) } else { Ok(()) };
        };
        for id in ids {
            find(store, &self.path, *id).await?;
        }
        Ok(())
    }

    /// What was done to how many, for programs.
    pub fn json(&self, verb: &str, count: u64) -> Value {
        json!({"queue": self.path.queue.as_str(), "consumer": self.path.consumer.as_str(), verb: count})
    }
}

/// One dead letter.
///
/// # Errors
/// `not_found` when the message is none.
pub async fn find(store: &Store, path: &ConsumerPath, id: MessageId) -> Result<DeadLetter> {
    let before = MessageId::new(id.get() - 1).ok();
    let found = store.dead_letters(path, before, BatchSize::ONE).await?;
    found.into_iter().find(|letter| letter.id == id).ok_or_else(|| {
        let names = [&path.queue.to_string(), &path.consumer.to_string()].map(|name| text::shell_word(name)).join(" ");
        Error::new(Kind::NotFound, format!("cannot find the message `{id}` among the dead letters of `{path}`"))
            .with("consumer", path)
            .with("message", id)
            .hinted(format!("`fencepost dead list {names}` shows those there are; it may have been replayed or purged"))
    })
}

/// A dead letter for programs.
pub fn json(letter: &DeadLetter) -> Value {
    let mut object = json!({
        "queue": letter.path.queue.as_str(),
        "consumer": letter.path.consumer.as_str(),
        "id": letter.id.get(),
        "position": letter.position.to_string(),
        "key": letter.key.as_ref().map(|key| key.as_str()),
        "kind": letter.kind.as_str(),
    });
    message::extend_with_content(&mut object, &letter.payload, &letter.headers);
    object["created_at"] = text::rfc3339(letter.created_at).into();
    object["attempts"] = letter.attempts.into();
    object["cause"] = letter.cause.as_str().into();
    object["reason"] = letter.reason.as_ref().map(|reason| reason.as_str()).into();
    object["died_at"] = text::rfc3339(letter.died_at).into();
    object
}
