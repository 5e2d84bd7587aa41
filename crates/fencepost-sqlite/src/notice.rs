//! Notices: rows that are appended and, after a while, removed from the beginning. Who listens in this process is given each one once, by
//! whoever sees first that it was committed: the writer that committed it, the watcher, or the next who begins to listen.

use std::sync::Mutex;

use async_trait::async_trait;
use fencepost_core::{
    ChannelName, NOTICE_KEPT, NOTICES_KEPT, Notice, NoticePayload, NoticeReceiver, Notices, Result, Timestamp, WakeHub,
};
use rusqlite::Connection;

use crate::state::{Group, damaged, recorded};
use crate::statement::{all, execute, value};
use crate::store::SqliteStore;

/// One notice of so many removes old ones, so that they go also where nobody maintains the store.
const TRIMMING: i64 = 256;

/// So many go at a time at most: more than come meanwhile.
const TRIMMED: i64 = 2 * TRIMMING;

/// So many are read at a time.
const PAGE: usize = 1_000;

#[async_trait]
impl Notices for SqliteStore {
    async fn notify(&self, channel: &ChannelName, payload: &NoticePayload) -> Result<()> {
        let (channel, payload) = (channel.clone(), payload.clone());
        self.transact("notify", move |group| notify(group, &channel, &payload)).await
    }

    async fn listen(&self, channel: &ChannelName) -> Result<NoticeReceiver> {
        let (shared, channel) = (self.shared().clone(), channel.clone());
        let receiver =
            self.read("listen", move |snapshot| shared.delivered.listen(snapshot, &shared.hub, &channel)).await?;
        self.watcher().signal();
        Ok(receiver)
    }
}

/// The number of the last notice that listeners were given.
#[derive(Debug, Default)]
pub(crate) struct Delivered(Mutex<i64>);

impl Delivered {
    /// Gives listeners what was committed since the last time.
    pub(crate) fn catch_up(&self, connection: &Connection, hub: &WakeHub) -> Result<()> {
        let mut last = self.0.lock().expect("no panic while notices are delivered");
        if hub.listens() { deliver(connection, hub, &mut last) } else { Ok(()) }
    }

    /// A receiver of what is committed after the snapshot.
    fn listen(&self, snapshot: &Connection, hub: &WakeHub, channel: &ChannelName) -> Result<NoticeReceiver> {
        // ORDER: the snapshot is taken by the first statement, so it shows whatever was delivered before.
        let mut last = self.0.lock().expect("no panic while notices are delivered");
        if hub.listens() {
            deliver(snapshot, hub, &mut last)?;
        } else {
            *last = value(snapshot, include_str!("../sql/notice/last.sql"), [])?;
        }
        Ok(hub.listener(channel))
    }
}

/// Gives listeners what came after the last one that they were given.
fn deliver(connection: &Connection, hub: &WakeHub, last: &mut i64) -> Result<()> {
    loop {
        type Columns = (i64, String, String, i64);
        let sql = include_str!("../sql/notice/after.sql");
        let found: Vec<Columns> =
            all(connection, sql, (*last, PAGE as i64), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        let many = found.len();
        for (id, channel, payload, at) in found {
            if id > *last + 1 {
                // The ones between were removed before anybody here saw them.
                hub.resync();
            }
            *last = id;
            let decoded = || Ok((ChannelName::new(channel)?, NoticePayload::new(payload)?));
            let (channel, payload) = decoded().map_err(|cause| damaged("fencepost_notice", cause))?;
            hub.deliver(&channel, &Notice::Payload { payload, at: Timestamp::from_micros(at) });
        }
        if many < PAGE {
            return Ok(());
        }
    }
}

/// Appends a notice, which is delivered once this is committed.
pub(crate) fn notify(group: &mut Group<'_>, channel: &ChannelName, payload: &NoticePayload) -> Result<()> {
    let now = group.now()?;
    let values = (channel.as_str(), payload.as_str(), now.as_micros());
    execute(group.connection(), include_str!("../sql/notice/insert.sql"), values)?;
    group.notified();
    if group.connection().last_insert_rowid() % TRIMMING == 0 {
        forget(group.connection(), now, TRIMMED)?;
    }
    Ok(())
}

/// Removes the oldest ones, at most so many, of those that are too old or too many. Returns how many it removed.
fn forget(connection: &Connection, now: Timestamp, most: i64) -> Result<usize> {
    execute(connection, include_str!("../sql/notice/forget.sql"), (kept_since(now), NOTICES_KEPT, most))
}

fn kept_since(now: Timestamp) -> i64 {
    now.as_micros() - NOTICE_KEPT.as_micros() as i64
}

impl SqliteStore {
    /// Removes notices after their time. Returns how many steps that took.
    pub(crate) async fn forget_notices(&self, most: i64) -> Result<u64> {
        let shared = self.shared().clone();
        let any: bool = self
            .read("maintain", move |snapshot| {
                let since = kept_since(shared.clock.now(recorded(snapshot)?));
                value(snapshot, include_str!("../sql/notice/forgettable.sql"), (since, NOTICES_KEPT))
            })
            .await?;
        let mut steps = 0;
        if !any {
            return Ok(steps);
        }
        loop {
            let removed = self
                .transact("maintain", move |group| {
                    let now = group.now()?;
                    forget(group.connection(), now, most)
                })
                .await?;
            if removed == 0 {
                return Ok(steps);
            }
            steps += 1;
        }
    }
}
