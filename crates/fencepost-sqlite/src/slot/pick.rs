//! Choosing what goes into a batch when not everything after the cursor does.

use fencepost_core::slot::{Aside, Found, Place, SlotState, share_of_again};
use fencepost_core::{BatchSize, Key, Message, Position, Result, SlotIndex, Timestamp};
use rusqlite::Connection;

use crate::aside::AsideRow;
use crate::consumer::ConsumerRow;
use crate::log::{self, Logged};

/// How many messages of the log one pass looks at, beside those that it hands out.
const SCAN: usize = 1_000;

/// How many messages come out of the log at a time while one to be handed out alone is looked for.
const PAGE: u32 = 64;

/// What a receive hands out and passes over.
#[derive(Debug)]
pub(super) struct Picked {
    pub(super) found: Found,
    /// Messages that come again.
    again: Vec<AsideRow>,
    /// Messages that were to come again and have to wait.
    parked: Vec<AsideRow>,
    /// Messages of the log to hand out.
    fresh: Vec<Message>,
    /// Messages of the log that are not to be handed out now.
    set_aside: Vec<(i64, Place)>,
}

impl Default for Picked {
    fn default() -> Self {
        let (again, parked, fresh, set_aside) = Default::default();
        Self { found: Found::Nothing, again, parked, fresh, set_aside }
    }
}

impl Picked {
    /// Records what was picked and returns the messages of the batch, by position.
    pub(super) fn take(self, connection: &Connection, consumer: &ConsumerRow, deliveries: u32) -> Result<Vec<Message>> {
        let move_to =
            |row: &AsideRow, place| consumer.place(connection, row.position, Aside { place, ..row.aside }, None);
        let mut messages = self.fresh;
        for row in &self.again {
            move_to(row, Place::Batch)?;
            messages.extend(log::aside(connection, consumer.id, row.position.to_storage(), deliveries)?);
        }
        for row in &self.parked {
            move_to(row, Place::Parked)?;
        }
        for (position, place) in self.set_aside {
            consumer.set_aside(connection, position, place, None)?;
        }
        messages.sort_by_key(|message| message.position);
        Ok(messages)
    }
}

/// Picks what a slot without an open batch hands out next.
pub(super) fn pick(
    connection: &Connection,
    consumer: &ConsumerRow,
    slot: SlotIndex,
    state: &SlotState,
    max: BatchSize,
    now: Timestamp,
) -> Result<Picked> {
    match state.isolated {
        Some(end) => pick_alone(connection, consumer, slot, state.cursor, end),
        None => pick_batch(connection, consumer, slot, state, max, now),
    }
}

/// The next message of what a suspected batch was: first those that had come again, then those of the log.
fn pick_alone(
    connection: &Connection,
    consumer: &ConsumerRow,
    slot: SlotIndex,
    cursor: Position,
    end: Position,
) -> Result<Picked> {
    let one = |through| Found::Messages { through, size: 1, plain: false };
    let mut picked = Picked::default();
    for row in consumer.in_place(connection, slot, "alone")? {
        if !consumer.waits(connection, row.position.to_storage(), row.key.as_deref())? {
            return Ok(Picked { found: one(cursor), again: vec![row], ..picked });
        }
        picked.parked.push(row);
    }
    let mut after = cursor;
    loop {
        let share = consumer.slots.share(slot, consumer.partitions);
        let page = log::positions(connection, consumer.queue, share, after, end, PAGE)?;
        let Some(last) = page.last().copied() else {
            return Ok(Picked { found: Found::Skipped(end.max(cursor)), ..picked });
        };
        for Logged { message, .. } in log::messages(connection, &page, 1)? {
            let position = message.position.to_storage();
            if consumer.is_aside(connection, position)? {
                continue;
            }
            if !consumer.waits(connection, position, message.key.as_ref().map(Key::as_str))? {
                return Ok(Picked { found: one(message.position), fresh: vec![message], ..picked });
            }
            picked.set_aside.push((position, Place::Parked));
        }
        after = Position::from_storage(last);
    }
}

fn pick_batch(
    connection: &Connection,
    consumer: &ConsumerRow,
    slot: SlotIndex,
    state: &SlotState,
    max: BatchSize,
    now: Timestamp,
) -> Result<Picked> {
    let most = max.get() as usize;
    let mut again = consumer.ready(connection, slot, i64::from(max.get()), now)?;
    let (mut fresh, mut set_aside): (Vec<Message>, Vec<(i64, Place)>) = Default::default();
    // How far the cursor goes with each number of fresh messages: over everything before the next one.
    let mut through = vec![state.cursor];
    let mut after = state.cursor;
    while fresh.len() < most && set_aside.len() < SCAN {
        let share = consumer.slots.share(slot, consumer.partitions);
        let wanted = (most - fresh.len()).max(PAGE as usize) as u32;
        let page = log::positions(connection, consumer.queue, share, after, log::END, wanted)?;
        let Some(last) = page.last().copied() else { break };
        for logged in log::messages(connection, &page, 1)? {
            if fresh.len() == most {
                break;
            }
            let position = logged.message.position;
            match place_of(connection, consumer, &logged, now)? {
                Some(place) => set_aside.push((position.to_storage(), place)),
                None => {
                    fresh.push(logged.message);
                    through.push(position);
                }
            }
            *through.last_mut().expect("it has the cursor") = position;
        }
        after = Position::from_storage(last);
    }
    again.truncate(share_of_again(max, again.len(), fresh.len(), state.next_batch()));
    fresh.truncate(most - again.len());
    let through = through[fresh.len()];
    set_aside.retain(|(position, _)| *position <= through.to_storage());
    let found = match (again.len() + fresh.len()) as u32 {
        0 if through > state.cursor => Found::Skipped(through),
        0 => Found::Nothing,
        size => Found::Messages { through, size, plain: again.is_empty() && set_aside.is_empty() },
    };
    Ok(Picked { found, again, parked: Vec::new(), fresh, set_aside })
}

/// Where a message of the log is put that is not to be handed out now.
fn place_of(connection: &Connection, consumer: &ConsumerRow, logged: &Logged, now: Timestamp) -> Result<Option<Place>> {
    let Logged { message, .. } = logged;
    if logged.is_expired(now) || consumer.is_before_start(message.id) {
        return Ok(Some(Place::Void));
    }
    let waits = consumer.waits(connection, message.position.to_storage(), message.key.as_ref().map(Key::as_str))?;
    Ok(waits.then_some(Place::Parked))
}
