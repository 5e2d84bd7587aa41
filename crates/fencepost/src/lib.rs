//! Exactly one owner, in order, fenced: leases and ordered queues in one SQLite file, or on PostgreSQL with many hosts.
//!
//! [`open`] connects to a store; what it returns answers the whole contract of [`fencepost_core`]. Every owner of a lease or a
//! slot carries an epoch, and every write that it protects is checked against that epoch in the same transaction, so a process
//! that was paused and wakes up late changes nothing.
//!
//! ```
//! use fencepost::{ClaimSlot, ConsumerPath, CreateConsumer, NewMessage, Partitions, SlotCount, WorkerName};
//!
//! # #[tokio::main]
//! # async fn main() -> fencepost::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let url = format!("sqlite:{}", folder.path().join("app.db").display());
//! let store = fencepost::open(url).create(true).await?;
//!
//! let billing = ConsumerPath::new("orders", "billing")?;
//! store.create_queue(&billing.queue, Partitions::default()).await?;
//! store.create_consumer(&CreateConsumer::ordered(billing.clone(), SlotCount::new(1)?)).await?;
//! store.send(&billing.queue, NewMessage::new("paid")?.key(fencepost::Key::new("customer-7")?)).await?;
//!
//! let claim = ClaimSlot::new(billing, WorkerName::new("worker-1")?);
//! let slot = store.claim(&claim).await?.expect("nobody else holds the slot");
//! let batch = store.receive(&slot.token, Default::default()).await?.expect("a message waits");
//! assert_eq!(batch.messages[0].payload, b"paid");
//! store.ack(&slot.token, batch.id).await?;
//! store.release_slot(&slot.token).await?;
//! # Ok(())
//! # }
//! ```

mod open;

pub use fencepost_core::*;
#[doc(inline)]
pub use fencepost_migrate as migrate;
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use fencepost_postgres as postgres;
#[doc(inline)]
pub use fencepost_runtime as runtime;
pub use fencepost_schedule::{LocalTime, Nominal, Preview, Schedule, Shift, Spec, Timetable, Zone};
#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use fencepost_sqlite as sqlite;

pub use open::{DEFAULT_URL, Open, Store, open};

/// The README's example, compiled as it stands there.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// The guide's examples, compiled and run as they stand there.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../docs/guide/leases.md")]
#[doc = include_str!("../../../docs/guide/queues.md")]
#[doc = include_str!("../../../docs/guide/failures.md")]
#[doc = include_str!("../../../docs/guide/notify.md")]
#[doc = include_str!("../../../docs/guide/sqlite.md")]
#[doc = include_str!("../../../docs/guide/migrations.md")]
#[doc = include_str!("../../../docs/guide/schedules.md")]
#[cfg_attr(feature = "postgres", doc = include_str!("../../../docs/guide/postgres.md"))]
pub struct Guide;
