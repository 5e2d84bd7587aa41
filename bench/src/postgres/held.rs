//! Full speed while somebody holds an old snapshot: what leaves dead rows behind gets slower. All sides run at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost::{AcquireLease, Acquired, BatchSize, HolderName, LeaseName, Leases, Queues, Slots};
use fencepost_bench_rows::Outcome;

use super::bed::{Bed, claim};
use super::send::message;
use super::{Figures, Options, Side, key};

/// Measures `kept`: rounds in the last sixth of the time by those in the first; and `dead` rows at the end.
pub async fn held(options: &Options, figures: &mut Figures) -> Outcome<()> {
    let bed = Bed::make(&options.server).await?;
    let (store, path) = bed.store(16, 1).await?;
    let client = bed.connect().await?;
    client
        .batch_execute(
            "create table plain (id bigint generated always as identity primary key, payload bytea not null)",
        )
        .await?;
    let token = claim(&store, &path, 0).await?;
    let lease = AcquireLease::new(LeaseName::new("bench")?, HolderName::new("bench")?);
    let holding = bed.connect().await?;
    holding.batch_execute("begin isolation level repeatable read; select count(*) from fencepost.queue").await?;

    let part = Duration::from_secs(options.held) / 6;
    let (started, end) = (Instant::now(), part * 6);
    let counts: Arc<[[AtomicU64; 2]; 3]> = Arc::default();
    let count = move |counts: &[[AtomicU64; 2]; 3], of: usize| {
        let at = started.elapsed();
        if at < part {
            counts[of][0].fetch_add(1, Ordering::Relaxed);
        } else if at >= part * 5 && at < end {
            counts[of][1].fetch_add(1, Ordering::Relaxed);
        }
        at < end
    };
    let queue = tokio::spawn({
        let (store, counts) = (store.clone(), counts.clone());
        async move {
            let mut number = 0;
            while count(&counts, 0) {
                number += 1;
                store.send(&path.queue, message(number)?).await?;
                let batch = store.receive(&token, BatchSize::default()).await?.ok_or("a message waits")?;
                store.ack(&token, batch.id).await?;
                if number % 2_000 == 0 {
                    store.maintain(Some(&path.queue)).await?;
                }
            }
            Outcome::Ok(())
        }
    });
    let leases = tokio::spawn({
        let (store, counts) = (store.clone(), counts.clone());
        async move {
            while count(&counts, 1) {
                if let Acquired::Granted { token, .. } = store.acquire_lease(&lease).await? {
                    store.release_lease(&token).await?;
                }
            }
            Outcome::Ok(())
        }
    });
    let plain = tokio::spawn({
        let counts = counts.clone();
        async move {
            let send = client.prepare("insert into plain (payload) values ($1)").await?;
            let take = "delete from plain where id in (select id from plain order by id limit 100 for update skip locked) returning id";
            let take = client.prepare(take).await?;
            while count(&counts, 2) {
                client.execute(&send, &[&vec![b'x'; 200]]).await?;
                client.query(&take, &[]).await?;
            }
            Outcome::Ok(())
        }
    });
    for task in [queue, leases, plain] {
        task.await??;
    }
    drop(holding);
    super::bed::told().await;
    let own = bed.connect().await?;
    let dead = "select coalesce(sum(n_dead_tup) filter (where relname ~ '^(q1_|state_)'), 0)::float8,
        coalesce(sum(n_dead_tup) filter (where relname ~ '^lease'), 0)::float8,
        coalesce(sum(n_dead_tup) filter (where relname = 'plain'), 0)::float8 from pg_stat_user_tables";
    let dead = own.query_one(dead, &[]).await?;
    for (index, name) in
        ["held snapshot: send, receive, ack", "held snapshot: lease acquire, release", "held snapshot: skip-locked"]
            .into_iter()
            .enumerate()
    {
        let [first, last] = &counts[index];
        let (first, last) = (first.load(Ordering::Relaxed) as f64, last.load(Ordering::Relaxed) as f64);
        let side = if index == 2 { Side::Skip } else { Side::Store };
        figures.add_value(&key(name, side, "rounds/s at first"), first / part.as_secs_f64());
        figures.add_value(&key(name, side, "rounds/s at last"), last / part.as_secs_f64());
        figures.add_value(&key(name, side, "kept"), last / first);
        figures.add_value(&key(name, side, "dead rows"), dead.get(index));
    }
    Ok(())
}
