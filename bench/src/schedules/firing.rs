//! How long after its nominal time a message is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost::HolderName;
use fencepost::runtime::{CancellationToken, ScheduleEvent, ScheduleObserver, Scheduler};
use fencepost_bench_rows::Outcome;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{laid, now};
use crate::figures::Figures;

/// Tells of each message when it was nominally due and how late the leader knew that it is stored, both in µs.
struct Lateness(UnboundedSender<(i64, i64)>);

impl ScheduleObserver for Lateness {
    fn hear(&self, event: ScheduleEvent<'_>) {
        if let ScheduleEvent::Fired { fired, .. } = event {
            for one in fired {
                let at = one.nominal_at.as_micros();
                let _ = self.0.send((at, now().as_micros() as i64 - at));
            }
        }
    }
}

/// So many schedules that are due together each `every` seconds: how late the last of each second is there, in ms.
pub async fn measure(url: &str, many: usize, every: u32, seconds: usize, figures: &mut Figures) -> Outcome<()> {
    let store = laid(url, many, &format!("*/{every} * * * * *")).await?;
    let (tell, mut told) = unbounded_channel();
    let scheduler = Scheduler::new(store.contract(), HolderName::new("bench")?).observer(Arc::new(Lateness(tell)));
    let stop = CancellationToken::new();
    let leading = tokio::spawn({
        let stop = stop.clone();
        async move { scheduler.run_schedules(&stop).await }
    });
    let mut bursts: BTreeMap<i64, (usize, i64)> = BTreeMap::new();
    // What was due before it led is late by that, and comes first.
    let complete = |bursts: &BTreeMap<i64, (usize, i64)>| bursts.values().filter(|burst| burst.0 == many).count();
    while complete(&bursts) < seconds + 2 {
        let (at, late) = told.recv().await.ok_or("the leader ended")?;
        let burst = bursts.entry(at).or_default();
        *burst = (burst.0 + 1, burst.1.max(late));
    }
    stop.cancel();
    leading.await??;
    let engine = store.info().engine;
    let mut late: Vec<f64> = bursts.into_values().skip(2).take(seconds).map(|(_, late)| late as f64 / 1e3).collect();
    late.sort_by(f64::total_cmp);
    for (measure, value) in
        [("p50", late[late.len() / 2]), ("p99", late[late.len() * 99 / 100]), ("most", late[late.len() - 1])]
    {
        figures.add_value(&format!("{engine}, {many} due at once, all stored after, {measure} ms"), value);
    }
    store.close().await;
    Ok(())
}
