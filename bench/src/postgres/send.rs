//! Sending: single messages by eight clients, and batches by two. Every call is a commit that survives a power cut.

use std::time::{Duration, Instant};

use fencepost::postgres::tokio_postgres::Client;
use fencepost::{Key, NewMessage, Queues};
use fencepost_bench_rows::Outcome;

use super::bed::Bed;
use super::{Figures, Options, Side, key};

/// How many clients send single messages.
const CLIENTS: u64 = 8;

/// How many send batches.
const BATCHERS: u64 = 2;

const KEYS: u64 = 1_000;

/// A table with the columns and the indexes of a segment of the log.
const RAW_TABLE: &str = "create table raw (like fencepost.q1_0 including all); create sequence raw_position";

const RAW: &str = "insert into raw (position, id, partition, key, kind, payload, headers, created_at)
    select n, n, $1::int2, $2, 'default', $3::bytea, null, clock_timestamp() from nextval('raw_position') n";

const RAW_BATCH: &str = "insert into raw (position, id, partition, key, kind, payload, headers, created_at)
    select n, n, n % 16, key, 'default', payload, null, clock_timestamp()
    from (select nextval('raw_position') n, key, payload from unnest($1::text[], $2::bytea[]) m (key, payload)) m";

const SKIP_TABLE: &str =
    "create table plain (id bigint generated always as identity primary key, key text, payload bytea not null,
    created_at timestamptz not null default clock_timestamp())";

/// The function of a queue without what wakes sleepers, for the cost of that.
const WITHOUT_WAKES: &str =
    "select regexp_replace(replace(pg_get_functiondef('fencepost.q1_send'::regproc), 'q1_send', 'q1_quiet'),
    'if pg_sequence_last_value.*?end if;', '')";

pub fn message(number: u64) -> Outcome<NewMessage> {
    Ok(NewMessage::new(vec![b'x'; 200])?.key(Key::new(format!("k{:05}", number % KEYS))?))
}

async fn prepared_bed(options: &Options, side: Side) -> Outcome<Bed> {
    let bed = Bed::make(&options.server).await?;
    let (store, _) = bed.store(16, 1).await?;
    let admin = bed.connect().await?;
    match side {
        Side::Raw => admin.batch_execute(RAW_TABLE).await?,
        Side::Skip => admin.batch_execute(SKIP_TABLE).await?,
        Side::Pgque => {
            admin.batch_execute(options.pgque()?).await?;
            admin.batch_execute("select pgque.create_queue('bench')").await?;
        }
        Side::Quiet => {
            let text: String = admin.query_one(WITHOUT_WAKES, &[]).await?.get(0);
            admin.batch_execute(&text).await?;
        }
        _ => {}
    }
    store_closed(store).await;
    Ok(bed)
}

async fn store_closed(store: fencepost::postgres::PostgresStore) {
    store.close().await;
}

/// Single sends; measures `rate` and `wal`.
pub async fn single(options: &Options, side: Side, figures: &mut Figures) -> Outcome<()> {
    let bed = prepared_bed(options, side).await?;
    let wal = bed.wal().await?;
    let (store, path) = bed.store(16, 1).await?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(bed.connect().await?);
    }
    // What is prepared and cached is so before the clock runs.
    let time = Duration::from_millis(options.time);
    let started = Instant::now() + Duration::from_millis(300);
    let tasks: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(number, client)| {
            let (store, queue) = (store.clone(), path.queue.clone());
            tokio::spawn(async move {
                let (mut sent, mut counted) = (number as u64 * 37, 0_u64);
                let statement = client.prepare(single_sql(side)).await?;
                let payload = vec![b'x'; 200];
                let text = "x".repeat(200);
                while started.elapsed() < time {
                    let key = format!("k{:05}", sent % KEYS);
                    match side {
                        Side::Raw => {
                            client.execute(&statement, &[&((sent % 16) as i16), &key, &payload]).await.map(drop)?
                        }
                        Side::Pgque => client.query_one(&statement, &[&text, &key]).await.map(drop)?,
                        Side::Store => store.send(&queue, message(sent)?).await.map(drop)?,
                        _ => client.query(&statement, &[&payload, &key]).await.map(drop)?,
                    }
                    sent += 1;
                    if Instant::now() > started {
                        counted += 1;
                    }
                }
                Outcome::Ok((sent - number as u64 * 37, counted))
            })
        })
        .collect();
    let (mut sent, mut counted) = (0, 0);
    for task in tasks {
        let (all, of_time) = task.await??;
        sent += all;
        counted += of_time;
    }
    figures.add(&key("send", side, "rate"), counted, started.elapsed());
    figures.add_value(&key("send", side, "wal"), (bed.wal().await? - wal) / sent as f64);
    store_closed(store).await;
    Ok(())
}

fn single_sql(side: Side) -> &'static str {
    match side {
        Side::Raw => RAW,
        Side::Skip => "insert into plain (payload, key) values ($1::bytea, $2)",
        Side::Pgque => "select pgque.send('bench', 'default', $1::text, $2::text)",
        Side::ByName => "select fencepost.send('bench', $1::bytea, $2)",
        Side::Quiet => "select fencepost.q1_quiet($1::bytea, $2)",
        _ => "select fencepost.q1_send($1::bytea, $2)",
    }
}

/// Batches of `size`; measures `rate` in messages and `wal` a message.
pub async fn batches(options: &Options, side: Side, size: u64, figures: &mut Figures) -> Outcome<()> {
    let bed = prepared_bed(options, side).await?;
    let (store, path) = bed.store(16, 1).await?;
    let wal = bed.wal().await?;
    let time = Duration::from_millis(options.time);
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..BATCHERS {
        clients.push(bed.connect().await?);
    }
    let started = Instant::now() + Duration::from_millis(300);
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let (store, queue) = (store.clone(), path.queue.clone());
            tokio::spawn(async move {
                let statement = client.prepare(batch_sql(side)).await?;
                let keys: Vec<String> = (0..size).map(|n| format!("k{:05}", n % KEYS)).collect();
                let payloads = vec![vec![b'x'; 200]; size as usize];
                let texts = vec!["x".repeat(200); size as usize];
                let (mut sent, mut counted) = (0, 0);
                while started.elapsed() < time {
                    match side {
                        Side::Raw => client.execute(&statement, &[&keys, &payloads]).await.map(drop)?,
                        Side::Pgque => client.query_one(&statement, &[&texts]).await.map(drop)?,
                        Side::Store => {
                            let messages = (0..size).map(message).collect::<Outcome<_>>()?;
                            store.send_batch(&queue, messages).await.map(drop)?;
                        }
                        _ => client.query_one(&statement, &[&texts, &keys]).await.map(drop)?,
                    }
                    sent += size;
                    if Instant::now() > started {
                        counted += size;
                    }
                }
                Outcome::Ok((sent, counted))
            })
        })
        .collect();
    let (mut sent, mut counted) = (0, 0);
    for task in tasks {
        let (all, of_time) = task.await??;
        sent += all;
        counted += of_time;
    }
    let row = format!("send_batch {size}");
    figures.add(&key(&row, side, "rate"), counted, started.elapsed());
    figures.add_value(&key(&row, side, "wal"), (bed.wal().await? - wal) / sent as f64);
    store_closed(store).await;
    Ok(())
}

fn batch_sql(side: Side) -> &'static str {
    match side {
        Side::Raw => RAW_BATCH,
        Side::Pgque => "select pgque.send_batch('bench', 'default', $1::text[])",
        _ => "select fencepost.send_batch('bench', $1::text[], $2)",
    }
}
