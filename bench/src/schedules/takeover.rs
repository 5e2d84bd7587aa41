//! How soon another process leads when the leader is killed, and when it stops.

use std::process::Stdio;
use std::time::{Duration, Instant};

use fencepost::runtime::{ScheduleEvent, ScheduleObserver, Scheduler, stop_on_signals};
use fencepost::{HolderName, Ttl};
use fencepost_bench_rows::{Outcome, say};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::laid;
use crate::figures::Figures;

/// What a process is started for that leads, or waits to.
pub const LEAD: &str = "lead-schedules";

/// Names the variable with the URL of the store, since everybody reads command lines.
const URL: &str = "DATABASE_URL";

/// The lease of a leader that is killed.
const TTL: Duration = Duration::from_secs(2);

struct Says;

impl ScheduleObserver for Says {
    fn hear(&self, event: ScheduleEvent<'_>) {
        if matches!(event, ScheduleEvent::Leads { .. }) {
            say("leads");
        }
    }
}

/// Leads, or waits to, until the process is told to stop.
pub async fn lead() -> Outcome<()> {
    let store = fencepost::open(std::env::var(URL)?).await?;
    let scheduler = Scheduler::new(store.contract(), HolderName::new(format!("p{}", std::process::id()))?);
    scheduler.ttl(Ttl::new(TTL)?).observer(std::sync::Arc::new(Says)).supervise(&stop_on_signals()?).await?;
    store.close().await;
    Ok(())
}

/// A process that leads, or waits to.
struct Leader {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Leader {
    fn start(url: &str) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.arg(LEAD).env(URL, url).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let said = BufReader::new(child.stdout.take().ok_or("its output is piped")?).lines();
        Ok(Self { child, said })
    }

    async fn leads(&mut self) -> Outcome<()> {
        let line = tokio::time::timeout(Duration::from_secs(30), self.said.next_line()).await??;
        if line.as_deref() == Some("leads") { Ok(()) } else { Err(format!("it said {line:?}").into()) }
    }

    fn signal(&self, signal: Signal) -> Outcome<()> {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or("it has ended")?;
        Ok(kill_process(id, signal)?)
    }
}

/// From the signal until another process says that it leads, in ms.
pub async fn measure(url: &str, times: u32, figures: &mut Figures) -> Outcome<()> {
    let store = laid(url, 1, "0 0 1 1 *").await?;
    let engine = store.info().engine;
    let mut first = Leader::start(url)?;
    first.leads().await?;
    for (signal, row) in [(Signal::KILL, "kill -9, more than the TTL"), (Signal::TERM, "clean stop")] {
        for time in 0..times {
            let mut second = Leader::start(url)?;
            // It waits by then, and the moments between two renewals take turns.
            tokio::time::sleep(Duration::from_millis(1_500 + u64::from(time) * 137)).await;
            let since = Instant::now();
            first.signal(signal)?;
            second.leads().await?;
            let took = since.elapsed().as_secs_f64() * 1e3;
            let over = if signal == Signal::KILL { took - TTL.as_secs_f64() * 1e3 } else { took };
            figures.add_value(&format!("{engine}, another leads after a {row}, ms"), over);
            first.child.wait().await?;
            first = second;
        }
    }
    first.signal(Signal::TERM)?;
    first.child.wait().await?;
    store.close().await;
    Ok(())
}
