//! Notices: one look for all listeners of a store tells what was committed since the last one. Looks are made by the task that looks after
//! sleepers, see wake.rs, and by who begins to listen.

use std::collections::HashMap;
use std::time::Instant;

use async_trait::async_trait;
use fencepost_core::{ChannelName, Notice, NoticePayload, NoticeReceiver, Notices, Result, Topic, WakeHub};
use sha2::{Digest, Sha256};
use tokio_postgres::types::Type;
use tokio_postgres::{Row, Transaction};

use crate::error::damaged;
use crate::store::{PostgresStore, column};
use crate::time::At;
use crate::transaction::call;

const NOTIFY: &str = "select fencepost.notify($1, $2)";
const LOOK: &str = "select * from fencepost._notices($1, $2, $3, $4, $5, $6)";

/// The sleepers of so many groups of channels are registered apart, see `_asleep` in sql/functions/wake.
const GROUPS: i64 = 16;

#[async_trait]
impl Notices for PostgresStore {
    async fn notify(&self, channel: &ChannelName, payload: &NoticePayload) -> Result<()> {
        let (channel, payload) = (channel.as_str(), payload.as_str());
        self.write("notify", NOTIFY, &[(&channel, Type::TEXT), (&payload, Type::TEXT)]).await?;
        if self.hub().listens() {
            self.watcher().hurry();
        }
        Ok(())
    }

    async fn listen(&self, channel: &ChannelName) -> Result<NoticeReceiver> {
        let called = Instant::now();
        let mut seen = self.watcher().notices.lock().await;
        // ORDER: others are given what was there before this one listens, and this one gets what comes after. A look that was begun since
        // the call serves it as well.
        if seen.looked.is_none_or(|looked| looked < called) {
            seen.look(self).await?;
        }
        let receiver = self.hub().listener(channel);
        drop(seen);
        self.watcher().came();
        Ok(receiver)
    }
}

/// Notifies with a caller's transaction.
pub(crate) async fn notify_in(
    transaction: &Transaction<'_>,
    channel: &ChannelName,
    payload: &NoticePayload,
) -> Result<()> {
    let (channel, payload) = (channel.as_str(), payload.as_str());
    call(transaction, "notify", NOTIFY, &[(&channel, Type::TEXT), (&payload, Type::TEXT)]).await.map(drop)
}

/// Up to where listeners were given what was committed.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// When the last look was begun.
    looked: Option<Instant>,
    /// Which server, timeline and database it saw, and by which snapshot; nothing while nobody is to be told anything.
    last: Option<(String, String)>,
    /// What is under way: everything up to a snapshot is given before the next one is taken.
    pass: Option<Pass>,
}

/// A pass over what is new, in pages. A page that was given is not given again, whatever becomes of the next.
#[derive(Debug)]
struct Pass {
    upto: String,
    after: (String, i64),
    /// Whether listeners were told that they missed something.
    is_told: bool,
}

impl Seen {
    /// Gives listeners what was committed since the last look.
    ///
    /// Cancel-safe: what a page brought is given, and remembered as given, in one go.
    pub(crate) async fn look(&mut self, store: &PostgresStore) -> Result<()> {
        let begun = Instant::now();
        let mut is_resumed = self.pass.is_some();
        loop {
            let channels = channels(store.hub());
            if channels.is_empty() {
                // Who comes next is owed nothing of what was before.
                (self.last, self.pass, is_resumed) = (None, None, false);
            }
            let (place, since) = self.last.as_ref().map(|(place, since)| (&**place, &**since)).unzip();
            let upto = self.pass.as_ref().map(|pass| &*pass.upto);
            let (xid, id) = self.pass.as_ref().map(|pass| (&*pass.after.0, pass.after.1)).unzip();
            let values: [_; 6] = [
                (&channels as _, Type::TEXT_ARRAY),
                (&place as _, Type::TEXT),
                (&since as _, Type::TEXT),
                (&upto as _, Type::TEXT),
                (&xid as _, Type::TEXT),
                (&id as _, Type::INT8),
            ];
            let rows = store.read("listen", LOOK, &values).await?;
            self.take(&rows, store.hub())?;
            if self.pass.is_none() && !std::mem::take(&mut is_resumed) {
                self.looked = Some(begun);
                return Ok(());
            }
        }
    }

    /// Gives listeners the notices of a page, and remembers where the next one begins.
    fn take(&mut self, rows: &[Row], hub: &WakeHub) -> Result<()> {
        let [head, notices @ ..] = rows else { return Ok(()) };
        let (place, seen): (String, String) = (column(head, 0)?, column(head, 1)?);
        let is_told = self.pass.as_ref().is_some_and(|pass| pass.is_told);
        let is_lost: bool = column(head, 2)?;
        let next: Option<String> = column(head, 3)?;
        let after = next.map(|xid| Ok((xid, column::<i64>(head, 4)?))).transpose()?;
        let notices: Vec<(ChannelName, Notice)> = notices.iter().map(decode).collect::<Result<_>>()?;
        if is_lost && !is_told {
            hub.resync();
        }
        for (channel, notice) in &notices {
            hub.deliver(channel, notice);
        }
        match after {
            Some(after) => self.pass = Some(Pass { upto: seen, after, is_told: is_told || is_lost }),
            None => (self.last, self.pass) = (Some((place, seen)), None),
        }
        Ok(())
    }
}

fn decode(row: &Row) -> Result<(ChannelName, Notice)> {
    let (channel, payload, at) = (column::<String>(row, 5)?, column::<String>(row, 6)?, column::<At>(row, 7)?.0);
    let decoded = || {
        let payload = NoticePayload::new(payload)?;
        Ok((ChannelName::new(channel)?, Notice::Payload { payload, at }))
    };
    decoded().map_err(|cause| damaged("notice", cause))
}

/// The channels that somebody listens to, or sleeps on.
fn channels(hub: &WakeHub) -> Vec<String> {
    let named = |topic| match topic {
        Topic::Channel(channel) => Some(channel.as_str().to_owned()),
        _ => None,
    };
    hub.topics().into_iter().filter_map(named).collect()
}

/// What the server calls a topic in a notification, as `_topic_hash` does.
pub(crate) fn hash(name: &str) -> i64 {
    let digest: [u8; 32] = Sha256::digest(name).into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// One topic of each group of channels: registering it registers all of the group.
pub(crate) fn one_of_each_group(names: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    names.map(|name| (hash(&name) & (GROUPS - 1), name)).collect::<HashMap<_, _>>().into_values()
}
