//! Leases beside a bare UPDATE of one row, call by call in turn, so that both meet the same moments. Every call is a commit that
//! survives a power cut.

use std::time::{Duration, Instant};

use fencepost::{AcquireLease, Acquired, HolderName, LeaseName, Leases};
use fencepost_bench_rows::Outcome;

use super::bed::Bed;
use super::{Figures, Options, Side, key};

/// The row.
pub const ROW: &str = "lease";

/// Measures `update`, `acquire`, `renew` and `release` in ms, by prepared SQL or through the store, and `rate`, pairs a second.
pub async fn lease(options: &Options, side: Side, figures: &mut Figures) -> Outcome<()> {
    let bed = Bed::make(&options.server).await?;
    let (store, _) = bed.store(1, 1).await?;
    let client = bed.connect().await?;
    client
        .batch_execute("create table bare (name text primary key, n bigint); insert into bare values ('bench', 0)")
        .await?;
    let update = client.prepare("update bare set n = n + 1 where name = $1").await?;
    let acquire = client.prepare("select (a).epoch from fencepost.lease_acquire($1, 'bench', '30 s') a").await?;
    let renew = client.prepare("select fencepost.lease_renew($1, $2)").await?;
    let release = client.prepare("select fencepost.lease_release($1, $2)").await?;
    let (name, request) = ("bench", AcquireLease::new(LeaseName::new("bench")?, HolderName::new("bench")?));
    let mut times: [Vec<Duration>; 4] = Default::default();
    for round in 0..options.leases + 20 {
        let mut took = [Duration::ZERO; 4];
        let mut timed = |index: usize, since: Instant| took[index] = since.elapsed();
        let since = Instant::now();
        client.execute(&update, &[&name]).await?;
        timed(0, since);
        let since = Instant::now();
        if side == Side::Store {
            let Acquired::Granted { token, .. } = store.acquire_lease(&request).await? else {
                return Err("the lease is free".into());
            };
            timed(1, since);
            let since = Instant::now();
            store.renew_lease(&token, None).await?;
            timed(2, since);
            let since = Instant::now();
            store.release_lease(&token).await?;
            timed(3, since);
        } else {
            let epoch: i64 = client.query_one(&acquire, &[&name]).await?.get(0);
            timed(1, since);
            let since = Instant::now();
            client.query_one(&renew, &[&name, &epoch]).await?;
            timed(2, since);
            let since = Instant::now();
            client.query_one(&release, &[&name, &epoch]).await?;
            timed(3, since);
        }
        // The first ones prepare what is kept.
        if round >= 20 {
            for (all, one) in times.iter_mut().zip(took) {
                all.push(one);
            }
        }
    }
    let pair: Duration = times[1].iter().chain(&times[3]).sum();
    figures.add(&key(ROW, side, "rate"), times[1].len() as u64, pair);
    for (measure, mut all) in ["update", "acquire", "renew", "release"].into_iter().zip(times) {
        all.sort();
        figures.add_value(&key(ROW, side, measure), all[all.len() / 2].as_secs_f64() * 1e3);
    }
    Ok(())
}
