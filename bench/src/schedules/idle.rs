//! What a leader asks of a server while nothing is due.

use std::time::Duration;

use fencepost::HolderName;
use fencepost::runtime::{CancellationToken, Scheduler};
use fencepost_bench_rows::Outcome;
use fencepost_test_support::{FaultProxy, PrivateServer};

use super::laid;
use crate::figures::Figures;

/// How long a leader is looked at, which is a multiple of the third of its TTL.
const TIME: Duration = Duration::from_secs(60);

/// A third of the TTL that a leader has unless told.
const RENEWAL: Duration = Duration::from_nanos(10_000_000_000 / 3);

/// Round trips a renewal, of all its connections together.
pub async fn measure(server: &PrivateServer, figures: &mut Figures) -> Outcome<()> {
    let database = server.database().await?;
    let proxy = FaultProxy::start(server.address()).await?;
    let store = laid(&proxy.url(&database.url()), 100, "0 0 1 1 *").await?;
    let scheduler = Scheduler::new(store.contract(), HolderName::new("bench")?);
    let stop = CancellationToken::new();
    let leading = tokio::spawn({
        let stop = stop.clone();
        async move { scheduler.run_schedules(&stop).await }
    });
    // Until notifications are relied on.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let before = proxy.requests();
    tokio::time::sleep(TIME).await;
    let trips = (proxy.requests() - before) as f64;
    stop.cancel();
    leading.await??;
    figures
        .add_value("postgres, idle leader, round trips a renewal", trips * RENEWAL.as_secs_f64() / TIME.as_secs_f64());
    store.close().await;
    Ok(())
}
