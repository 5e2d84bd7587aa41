//! What workers say, as parts of the story and in numbers.

use std::time::Instant;

use fencepost::{Error, Kind, Result};

use super::Stage;
use super::fate::Fate;
use crate::commands::demo::crew::Said;
use crate::commands::demo::story::{FAULT, PLAIN, REFUSED, RESCUE, messages, short};
use crate::commands::demo::words::Word;

/// Codes of the store's errors that end the show.
const UNUSABLE: [&str; 6] = ["storage_full", "read_only", "permission_denied", "io_error", "corrupt", "store_closed"];

impl Stage<'_> {
    /// What a worker said, as a part of the story.
    pub(super) async fn hear(&mut self, Said { worker, word }: Said) -> Result<()> {
        if !matches!(word, Some(Word::Trouble { .. })) {
            self.progress = Instant::now();
        }
        let name = format!("worker-{}", worker + 1);
        let Some(word) = word else {
            if self.processes[worker].is_some() && !matches!(self.fates[worker], Fate::Killed { .. }) {
                return Err(Error::new(
                    Kind::Internal,
                    format!("cannot go on: `{name}` ended before the work was done"),
                ));
            }
            return Ok(());
        };
        let facts = serde_json::to_value(&word).unwrap_or_default();
        match word {
            Word::Ready => {}
            Word::Committed { messages, .. } => self.committed += messages as u64,
            Word::Claimed { slot, epoch, taken_from, batch, redelivered } => {
                self.owners.insert(slot, (epoch, worker));
                self.figures.redelivered += u64::from(redelivered);
                let (style, what) = match (taken_from, batch) {
                    (Some(from), Some(batch)) => {
                        self.figures.takeovers += 1;
                        let again = messages(u64::from(redelivered));
                        (
                            RESCUE,
                            format!(
                                "takes over slot {slot}, epoch {} -> {}: batch {batch} again, {again}",
                                short(from),
                                short(epoch)
                            ),
                        )
                    }
                    (_, Some(batch)) => {
                        (RESCUE, format!("inherits slot {slot} with batch {batch}, epoch {}", short(epoch)))
                    }
                    _ => (PLAIN, format!("owns slot {slot}, epoch {}", short(epoch))),
                };
                self.story.tell(&name, style, &what, facts)?;
            }
            Word::MidBatch { slot, epoch, batch, handled, messages } => {
                if let Some(mut process) = self.processes[worker].take() {
                    process.kill().await?;
                }
                self.fates[worker] = Fate::Killed { slot, epoch };
                self.figures.faults.0 += 1;
                let what = format!(
                    "is killed (SIGKILL) in batch {batch} of slot {slot}, epoch {}: {handled} of {messages} handled",
                    short(epoch)
                );
                self.story.tell(&name, FAULT, &what, facts)?;
            }
            Word::Stopping { slot, epoch, batch, .. } => {
                self.fates[worker] = Fate::Stopping { slot, epoch };
                self.figures.faults.1 += 1;
                let what = format!("stops itself (SIGSTOP) in batch {batch} of slot {slot}, epoch {}", short(epoch));
                self.story.tell(&name, FAULT, &what, facts)?;
            }
            Word::Continued { slot, epoch, batch } => {
                let what = format!(
                    "wakes up, still believes in epoch {}, goes on with batch {batch} of slot {slot}",
                    short(epoch)
                );
                self.story.tell(&name, FAULT, &what, facts)?;
            }
            Word::Fenced { slot, call, batch, messages, presented, current } => {
                self.figures.fenced += 1;
                if self.fates[worker] == Fate::Continued {
                    self.fates[worker] = Fate::Refused;
                }
                let what = format!(
                    "REFUSED: {call} of batch {batch} by epoch {}, slot {slot} has {}; {} undone",
                    short(presented),
                    current.parse().map_or(current, short),
                    self::messages(messages as u64)
                );
                self.story.tell(&name, REFUSED, &what, facts)?;
            }
            Word::Trouble { message, code } => {
                self.story.tell(&name, FAULT, &format!("has trouble: {message}"), facts)?;
                // Nothing that waiting would mend.
                if let Some(code) = code.and_then(|code| UNUSABLE.into_iter().find(|known| *known == code)) {
                    return Err(Error::new(Kind::Unavailable, format!("cannot go on: `{name}` {message}"))
                        .coded(code)
                        .hinted("see to the store and its disk, then run the demo again"));
                }
            }
        }
        Ok(())
    }
}
