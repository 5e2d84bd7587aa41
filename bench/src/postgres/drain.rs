//! Draining a backlog that was sent in transactions of 500. Each call with messages is a commit that survives a power cut.

use std::time::Instant;

use fencepost::postgres::tokio_postgres::Client;
use fencepost::{BatchSize, Queues, Slots};
use fencepost_bench_rows::Outcome;

use super::bed::{Bed, claim, told};
use super::send::message;
use super::{Figures, Options, Side, key};

/// Messages in one transaction of the backlog.
const FILL: u64 = 500;

/// How many sessions fill and drain.
#[derive(Debug, Clone, Copy)]
pub struct Drain {
    pub consumers: i64,
    pub partitions: i64,
    pub max: i64,
}

impl Drain {
    pub fn title(self) -> String {
        format!("drain n = {}, max {}", self.consumers, self.max)
    }
}

/// Measures `rate`, and by message `tuples`, `buffers` and `commits`.
pub async fn drain(options: &Options, side: Side, drain: Drain, figures: &mut Figures) -> Outcome<()> {
    let bed = Bed::make(&options.server).await?;
    let count = options.backlog / FILL * FILL;
    let taken = match side {
        Side::Pgque | Side::PgqueLarge => pgque(options, &bed, side, drain, count).await?,
        Side::Skip => skip(&bed, drain, count).await?,
        _ => fencepost(&bed, side, drain, count).await?,
    };
    let (taken, time, counted) = taken;
    if taken != count {
        return Err(format!("{taken} of {count} messages were drained").into());
    }
    let row = drain.title();
    figures.add(&key(&row, side, "rate"), taken, time);
    for (measure, value) in [("tuples", counted.tuples), ("buffers", counted.buffers), ("commits", counted.commits)] {
        figures.add_value(&key(&row, side, measure), value / taken as f64);
    }
    Ok(())
}

type Drained = (u64, std::time::Duration, super::bed::Counted);

async fn fencepost(bed: &Bed, side: Side, drain: Drain, count: u64) -> Outcome<Drained> {
    let (store, path) = bed.store(drain.partitions, drain.consumers).await?;
    for begin in (0..count).step_by(FILL as usize) {
        store.send_batch(&path.queue, (begin..begin + FILL).map(message).collect::<Outcome<_>>()?).await?;
    }
    // What its sessions have counted they tell when they end.
    store.close().await;
    let (store, path) = bed.store(drain.partitions, drain.consumers).await?;
    let admin = bed.connect().await?;
    rested(&admin).await?;
    let mut tokens = Vec::new();
    for slot in 0..drain.consumers {
        tokens.push(claim(&store, &path, slot).await?);
    }
    let mut clients: Vec<Client> = Vec::new();
    for _ in &tokens {
        clients.push(bed.connect().await?);
    }
    told().await;
    let before = bed.counted().await?;
    let started = Instant::now();
    let mut tasks = Vec::new();
    for (token, client) in tokens.into_iter().zip(clients) {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            if matches!(side, Side::Store) {
                let max = BatchSize::new(drain.max)?;
                let (mut taken, mut next) = (0, store.receive(&token, max).await?);
                while let Some(batch) = next {
                    taken += batch.messages.len() as u64;
                    next = store.ack_receive(&token, batch.id, max).await?.next;
                }
                return Outcome::Ok(taken);
            }
            let (first, then) = calls(side);
            let (first, then) = (client.prepare(first).await?, client.prepare(then).await?);
            let (slot, epoch, max) = (i32::from(token.slot.get()), token.epoch.get(), drain.max as i32);
            let mut rows = client.query(&first, &[&slot, &epoch, &max]).await?;
            let mut taken = 0;
            // An ack that finds nothing more is told by one row without a batch, or by none.
            while let Some(batch) = rows.first().and_then(|row| row.get::<_, Option<i64>>("batch_id")) {
                taken += rows.len() as u64;
                rows = client.query(&then, &[&slot, &epoch, &batch, &max]).await?;
            }
            Outcome::Ok(taken)
        }));
    }
    let taken = sum(tasks).await?;
    let time = started.elapsed();
    store.close().await;
    drop(store);
    told().await;
    Ok((taken, time, bed.counted().await?.since(before)))
}

/// A receive, and an ack with a receive: by the queue's own function, as drivers call it, or by its name.
fn calls(side: Side) -> (&'static str, &'static str) {
    match side {
        Side::ByName => (
            "select * from fencepost.receive('bench', 'worker', $1, $2, $3)",
            "select * from fencepost.ack_receive('bench', 'worker', $1, $2, $3, $4)",
        ),
        _ => (
            "select * from fencepost.q1_receive('bench', 'worker', $1, $2, $3)",
            "select * from fencepost.q1_receive('bench', 'worker', $1, $2, $4, $3)",
        ),
    }
}

async fn pgque(options: &Options, bed: &Bed, side: Side, drain: Drain, count: u64) -> Outcome<Drained> {
    let admin = bed.connect().await?;
    admin.batch_execute(options.pgque()?).await?;
    admin.batch_execute("select pgque.create_queue('bench')").await?;
    let n = drain.consumers as i32;
    for slot in 0..n {
        admin.execute("select pgque.subscribe_slot('bench', 'worker', $1, $2)", &[&slot, &n]).await?;
    }
    admin.batch_execute("select pgque.force_next_tick('bench'); select pgque.ticker('bench')").await?;
    let send = admin
        .prepare(
            "select count(pgque.send('bench', 'default', repeat('x', 200), 'k' || lpad((n % 1000)::text, 5, '0')))
            from generate_series($1::int8, $2) n",
        )
        .await?;
    // A tick after every transaction, or after as many as give every slot a batch of the size asked for.
    let tick = if side == Side::PgqueLarge { (drain.max * drain.consumers) as u64 } else { FILL };
    for begin in (0..count).step_by(FILL as usize) {
        admin.execute(&send, &[&(begin as i64), &((begin + FILL - 1) as i64)]).await?;
        if (begin + FILL).is_multiple_of(tick.max(FILL)) || begin + FILL >= count {
            admin.batch_execute("select pgque.force_next_tick('bench'); select pgque.ticker('bench')").await?;
        }
    }
    rested(&admin).await?;
    let mut clients = Vec::new();
    for slot in 0..n {
        let client = bed.connect().await?;
        client.execute("select pgque.claim_slot('bench', 'worker', $1, 'bench', '1 hour')", &[&slot]).await?;
        clients.push(client);
    }
    told().await;
    let before = bed.counted().await?;
    let started = Instant::now();
    let mut tasks = Vec::new();
    for (slot, client) in (0..n).zip(clients) {
        tasks.push(tokio::spawn(async move {
            // A batch of PgQue is what lies between two ticks; a smaller limit would leave out the rest of it.
            let take = client
                .prepare("select * from pgque.receive_partitioned('bench', 'worker', $1, $2, 'bench', 1000000)")
                .await?;
            let done = client.prepare("select pgque.ack_partitioned('bench', 'worker', $1, $2, 'bench')").await?;
            let more = client
                .prepare(
                    "select s.sub_last_tick < (select max(tick_id) from pgque.tick) from pgque.subscription s
                    join pgque.consumer c on c.co_id = s.sub_consumer where c.co_name = pgque._slot_name('worker', $1, $2)",
                )
                .await?;
            let mut taken = 0;
            loop {
                let rows = client.query(&take, &[&slot, &n]).await?;
                if rows.is_empty() {
                    if !client.query_one(&more, &[&slot, &n]).await?.get::<_, bool>(0) {
                        return Outcome::Ok(taken);
                    }
                    continue;
                }
                taken += rows.len() as u64;
                client.execute(&done, &[&slot, &n]).await?;
            }
        }));
    }
    let taken = sum(tasks).await?;
    let time = started.elapsed();
    told().await;
    Ok((taken, time, bed.counted().await?.since(before)))
}

async fn skip(bed: &Bed, drain: Drain, count: u64) -> Outcome<Drained> {
    let admin = bed.connect().await?;
    admin
        .batch_execute(&format!(
            "create table plain (id bigint generated always as identity primary key, key text, payload bytea not null,
                created_at timestamptz not null default clock_timestamp());
            insert into plain (key, payload)
                select 'k' || lpad((n % 1000)::text, 5, '0'), repeat('x', 200)::bytea from generate_series(1, {count}) n",
        ))
        .await?;
    rested(&admin).await?;
    told().await;
    let before = bed.counted().await?;
    let started = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..drain.consumers {
        let client = bed.connect().await?;
        tasks.push(tokio::spawn(async move {
            let take = client
                .prepare(
                    "delete from plain where id in (select id from plain order by id limit $1 for update skip locked)
                    returning id, key, payload, created_at",
                )
                .await?;
            let mut taken = 0;
            loop {
                let rows = client.query(&take, &[&drain.max]).await?;
                if rows.is_empty() {
                    return Outcome::Ok(taken);
                }
                taken += rows.len() as u64;
            }
        }));
    }
    let taken = sum(tasks).await?;
    let time = started.elapsed();
    told().await;
    Ok((taken, time, bed.counted().await?.since(before)))
}

/// What a server does some time after a backlog was made, done now: it is no part of the drain.
async fn rested(admin: &Client) -> Outcome<()> {
    admin.batch_execute("vacuum analyze").await?;
    Ok(admin.batch_execute("checkpoint").await?)
}

async fn sum(tasks: Vec<tokio::task::JoinHandle<Outcome<u64>>>) -> Outcome<u64> {
    let mut taken = 0;
    for task in tasks {
        taken += task.await??;
    }
    Ok(taken)
}
