//! What the text of a schedule means: which nominal times it has in its zone, which of them fire when nobody was there, and how far
//! jitter moves them. It reads the files of time zones and does nothing else: it knows no engine, starts no task, asks no clock.
//!
//! ```
//! use fencepost_core::Timestamp;
//! use fencepost_schedule::{Spec, Timetable, Zone};
//!
//! let timetable = Timetable::new(Spec::parse("30 2 * * *")?, Zone::parse("Europe/Berlin")?, Timestamp::default());
//! let fires = timetable.preview("2026-03-28T12:00:00Z".parse()?, 2);
//! assert_eq!(
//!     fires[0].to_string(),
//!     "2026-03-29T03:00:00+02:00 CEST (the clocks skip 2026-03-29T02:30:00, so it fires at the first instant after the gap)",
//! );
//! assert_eq!(fires[1].to_string(), "2026-03-30T02:30:00+02:00 CEST");
//! # Ok::<_, fencepost_core::Error>(())
//! ```

mod calendar;
mod jitter;
mod misfire;
mod preview;
mod schedule;
mod spec;
mod timetable;
mod zone;

pub use calendar::LocalTime;
pub use misfire::GRACE;
pub use preview::Preview;
pub use schedule::{Schedule, tick};
pub use spec::{LONGEST_INTERVAL, SHORTEST_INTERVAL, Spec};
pub use timetable::{Nominal, Shift, Timetable};
pub use zone::Zone;
