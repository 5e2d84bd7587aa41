//! `fencepost queue retain`: changes how long a queue keeps its messages; and how that is asked for and shown.

use std::time::Duration;

use fencepost::{Error, QueueName, Result, Retention};
use serde_json::Value;

use crate::cli::{QueueRetainArgs, RetentionArgs};
use crate::open;
use crate::printer::Printer;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &QueueRetainArgs, printer: &Printer) -> Result<()> {
    let queue = QueueName::new(&args.name)?;
    let Some(wish) = Wish::of(&args.retention)? else {
        return Err(Error::invalid(
            format!("cannot change how long the queue `{queue}` keeps its messages: nothing is asked for"),
            "`--retain-for`, `--retain-unread` and `--retain-unread-bytes` say what to change",
        ));
    };
    open::existing(url, async |store| {
        let found = super::find(store, &queue).await?.retention;
        let wanted = wish.over(found);
        if wanted != found {
            store.set_retention(&queue, wanted).await?;
        }
        let human = || format!("queue `{queue}` keeps {}", in_words(&wanted));
        printer.answer(human, || {
            let mut answer = serde_json::json!({"queue": queue.as_str(), "changed": wanted != found});
            extend(&mut answer, &wanted);
            answer
        })
    })
    .await
}

/// What was asked for, checked; the rest stays as it is.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    consumed: Option<Duration>,
    unread: Option<Duration>,
    unread_bytes: Option<u64>,
}

impl Wish {
    /// Nothing when nothing was asked for.
    ///
    /// # Errors
    /// `invalid_input` for what is no duration or out of range.
    pub fn of(args: &RetentionArgs) -> Result<Option<Self>> {
        let RetentionArgs { retain_for, retain_unread, retain_unread_bytes } = args;
        let wish = Self {
            consumed: retain_for.as_deref().map(|text| time(text, "retain_for")).transpose()?,
            unread: retain_unread.as_deref().map(|text| time(text, "retain_unread")).transpose()?,
            unread_bytes: retain_unread_bytes.map(bytes).transpose()?,
        };
        let is_empty = wish.consumed.is_none() && wish.unread.is_none() && wish.unread_bytes.is_none();
        Ok((!is_empty).then_some(wish))
    }

    /// What it makes of a queue's retention.
    pub fn over(&self, found: Retention) -> Retention {
        Retention {
            consumed: self.consumed.unwrap_or(found.consumed),
            unread: self.unread.unwrap_or(found.unread),
            unread_bytes: self.unread_bytes.unwrap_or(found.unread_bytes),
        }
    }
}

fn time(text: &str, argument: &'static str) -> Result<Duration> {
    const ALLOWED: &str = "allowed are 0s to 3650d, a number and a unit each: `90s`, `12h`, `7d`";
    text::parse_within(text, argument, "a time to keep messages", ALLOWED, |time| {
        Retention { consumed: time, ..Retention::default() }.check().map(|()| time)
    })
}

fn bytes(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| {
        Error::invalid(format!("cannot keep `{number}` bytes of messages"), "allowed are 0 to 9223372036854775807")
            .with("argument", "retain_unread_bytes")
    })
}

/// For people.
pub fn in_words(Retention { consumed, unread, unread_bytes }: &Retention) -> String {
    let consumed = match *consumed {
        Duration::ZERO => "messages until every consumer has acked them".to_owned(),
        time => format!("messages for {} at least", text::exact(time)),
    };
    let (unread, bytes) = (text::exact(*unread), text::count(*unread_bytes));
    format!("{consumed}; without consumers for {unread}, {bytes} bytes at most")
}

/// For programs: adds it to an object.
pub fn extend(object: &mut Value, Retention { consumed, unread, unread_bytes }: &Retention) {
    object["retain_for_ms"] = (consumed.as_millis() as u64).into();
    object["retain_unread_ms"] = (unread.as_millis() as u64).into();
    object["retain_unread_bytes"] = (*unread_bytes).into();
}
