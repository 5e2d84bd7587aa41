//! `fencepost queue create`: makes a queue, and the store when there is none. Doing it again changes nothing.

use fencepost::{Created, Error, Kind, Partitions, QueueName, Result, Retention, Store};
use serde_json::json;

use super::retain::{self, Wish};
use crate::cli::QueueCreateArgs;
use crate::open::{self, Opened};
use crate::printer::Printer;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &QueueCreateArgs, printer: &Printer) -> Result<()> {
    // ORDER: what is wrong with the arguments is said before a store is made.
    let queue = QueueName::new(&args.name)?;
    let partitions = Partitions::new(args.partitions)?;
    let wish = Wish::of(&args.retention)?;
    open::creating(url, async |store, opened| {
        if opened != Opened::Current {
            printer.note(&format!("{} the store `{}`", opened.as_str(), store.info().location));
        }
        let created = store.create_queue(&queue, partitions).await? == Created::Created;
        let retention = match (wish, created) {
            (Some(wish), true) => {
                let wanted = wish.over(Retention::default());
                store.set_retention(&queue, wanted).await?;
                wanted
            }
            (Some(wish), false) => same_retention(store, &queue, wish).await?,
            (None, true) => Retention::default(),
            (None, false) => super::find(store, &queue).await?.retention,
        };
        let human = || {
            let size = text::counted(partitions.get().into(), "partition");
            let kept =
                if wish.is_some() { format!("; it keeps {}", retain::in_words(&retention)) } else { String::new() };
            if created {
                format!("created queue `{queue}` with {size}{kept}")
            } else {
                format!("queue `{queue}` is already there, with {size}{kept}")
            }
        };
        printer.answer(human, || {
            let mut answer = json!({
                "queue": queue.as_str(),
                "partitions": partitions.get(),
                "created": created,
                "store": opened.as_str(),
            });
            retain::extend(&mut answer, &retention);
            answer
        })
    })
    .await
}

/// The retention of a queue that was there, which has to be the one asked for.
async fn same_retention(store: &Store, queue: &QueueName, wish: Wish) -> Result<Retention> {
    let found = super::find(store, queue).await?.retention;
    if wish.over(found) == found {
        return Ok(found);
    }
    let keeps = retain::in_words(&found);
    Err(Error::new(
        Kind::Conflict,
        format!("cannot create the queue `{queue}` with another retention: it keeps {keeps}"),
    )
    .with("queue", queue)
    .during("create_queue")
    .hinted(format!("`fencepost queue retain {} …` changes it", text::shell_word(queue.as_str()))))
}
