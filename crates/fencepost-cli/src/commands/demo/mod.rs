//! `fencepost demo`: real events through real processes, one killed and one paused, and a table that must come out exactly right.
//!
//! `stage` runs the show, `worker` is what the processes do, `crew` handles them, `words` is what they say, `input` and `tally` are
//! the job, `story` prints it, `verdict` compares. The only engines named are those of the demo's own `table`: `sqlite`, `postgres`.

mod crew;
mod input;
mod plan;
mod postgres;
mod sqlite;
mod stage;
mod story;
mod table;
mod tally;
mod verdict;
mod words;
pub mod worker;

use std::time::Duration;

use fencepost::runtime::KeptLease;
use fencepost::{
    AcquireLease, Acquired, ConsumerPath, CreateConsumer, Error, HolderName, Kind, LeaseName, Partitions, Result,
    SlotCount, Start, Store, Ttl,
};

use self::input::Input;
use self::plan::Plan;
use self::stage::Stage;
use self::story::Story;
use self::table::Table;
use crate::cli::DemoArgs;
use crate::open;
use crate::printer::Printer;
use crate::text;

/// More than the default, so that many workers have a slot each.
const PARTITIONS: i64 = 64;

/// Runs the command.
pub async fn run(url: &str, args: &DemoArgs, printer: &Printer) -> Result<()> {
    let plan = Plan::new(args)?;
    let input = Input::open(args.file.as_deref(), args.key.as_deref())?;
    // The plain single pass comes first: it checks every record before anything is touched, and is what must come out.
    let expected = input.single_pass()?;
    open::creating(url, async |store, _| {
        let lease = only_one(store).await?;
        let shown = show(url, store, &plan, &input, &expected, printer, &lease).await;
        // Best effort: it expires by itself.
        let _ = lease.release().await;
        shown
    })
    .await
}

async fn show(
    url: &str,
    store: &Store,
    plan: &Plan,
    input: &Input,
    expected: &input::Expected,
    printer: &Printer,
    lease: &KeptLease,
) -> Result<()> {
    let table = table::beside(store)?;
    prepare(store, &*table, plan).await?;
    let story = Story::begin(*printer, input, expected, plan, store)?;
    let mut stage = Stage::open(url, store, plan, input, expected, story).await?;
    let outcome = tokio::select! {
        played = stage.play() => played,
        () = lease.lost().cancelled() => Err(Error::new(Kind::LeadershipLost, "cannot go on: the demo's own lease was lost")),
    };
    let figures = stage.close().await;
    outcome?;
    // Only the table stays, to be looked at.
    drop_queue(store).await?;
    verdict::give(&figures, expected, &table.rows().await?, input, table.place())
}

/// Drops the demo's queue. Whether one was dropped whose answer was lost is found by dropping it again.
async fn drop_queue(store: &Store) -> Result<()> {
    let queue = path()?.queue;
    let mut dropped = store.drop_queue(&queue, true).await;
    if dropped.as_ref().is_err_and(|error| error.kind() == Kind::UnknownOutcome) {
        dropped = store.drop_queue(&queue, true).await;
        if dropped.as_ref().is_err_and(|error| error.kind() == Kind::NotFound) {
            return Ok(());
        }
    }
    dropped.map(drop)
}

/// The demo's consumer.
fn path() -> Result<ConsumerPath> {
    ConsumerPath::new("fencepost-demo", "tally")
}

/// Two demos at once in one store would handle each other's messages: a lease keeps the second one out.
async fn only_one(store: &Store) -> Result<KeptLease> {
    let holder = text::this_process(HolderName::new)?;
    let request = AcquireLease::new(LeaseName::new("fencepost-demo")?, holder).ttl(Ttl::new(Duration::from_secs(5))?);
    KeptLease::acquire(store.contract(), &request).await?.map_err(|held| {
        let Acquired::Held { holder, expires_in, .. } = held else {
            return Error::new(Kind::Conflict, "cannot run the demo: somebody else starts it just now")
                .hinted("wait for it to end, or use another store");
        };
        Error::new(Kind::Conflict, format!("cannot run the demo: it runs already in this store, by `{holder}`"))
            .with("holder", &holder)
            .with("expires_in_ms", expires_in.as_millis())
            .hinted("wait for it to end, or use another store; after a crash its lease expires within 5 s")
    })
}

/// An empty table, and a consumer that begins after whatever an earlier demo left.
async fn prepare(store: &Store, table: &dyn Table, plan: &Plan) -> Result<()> {
    let path = path()?;
    table.reset().await?;
    store.create_queue(&path.queue, Partitions::new(PARTITIONS)?).await?;
    store.drop_consumer(&path, true).await?;
    let slots = SlotCount::new(i64::from(plan.workers))?;
    store.create_consumer(&CreateConsumer::ordered(path, slots).start(Start::Latest)).await?;
    Ok(())
}
