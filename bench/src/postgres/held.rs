//! Full speed while somebody holds an old snapshot: what leaves dead rows behind where it looks gets slower. One form after another,
//! each for the whole time in a database of its own.

use std::time::{Duration, Instant};

use fencepost::postgres::tokio_postgres::Client;
use fencepost::{AcquireLease, Acquired, BatchSize, Delay, Failure, HolderName, LeaseName, Leases, Queues, Slots};
use fencepost_bench_rows::{Outcome, say};

use super::bed::{Bed, claim};
use super::send::message;
use super::{Figures, Options, Side, key};

/// Of a hundred messages, how many fail once.
const RETRIED: u64 = 5;

/// Rounds between two calls of maintenance.
const MAINTAINED: u64 = 500;

/// What is done all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Queue,
    Retries,
    Lease,
    Skip,
}

impl Form {
    const ALL: [Self; 4] = [Self::Queue, Self::Retries, Self::Lease, Self::Skip];

    fn row(self) -> &'static str {
        match self {
            Self::Queue => QUEUE,
            Self::Retries => RETRIES,
            Self::Lease => LEASE,
            Self::Skip => "held snapshot: skip-locked",
        }
    }

    fn side(self) -> Side {
        if self == Self::Skip { Side::Skip } else { Side::Store }
    }
}

pub const QUEUE: &str = "held snapshot: send, receive, ack";
pub const RETRIES: &str = "held snapshot: the same, 5 % retried";
pub const LEASE: &str = "held snapshot: lease acquire, release";

/// Measures each form that is wanted: `first` and `last`, the rounds a second in the first and last three tenths of the time, `kept`, the
/// one by the other, and the same of the `buffers` a round; then the dead rows at the end.
pub async fn held(options: &Options, figures: &mut Figures) -> Outcome<()> {
    for form in Form::ALL.into_iter().filter(|form| options.has(form.row())) {
        say(form.row());
        let bed = Bed::make(&options.server).await?;
        let holding = bed.connect().await?;
        let mut work = Work::begin(&bed, form).await?;
        holding.batch_execute("begin isolation level repeatable read; select count(*) from pg_class").await?;
        let stretch = Duration::from_secs(options.held);
        let first = work.stretch(&bed, stretch * 3 / 10).await?;
        work.stretch(&bed, stretch * 4 / 10).await?;
        let last = work.stretch(&bed, stretch * 3 / 10).await?;
        let mut add = |measure: &str, value: f64| figures.add_value(&key(form.row(), form.side(), measure), value);
        add("rounds/s at first", first.rate);
        add("rounds/s at last", last.rate);
        add("kept", last.rate / first.rate);
        add("buffers a round at first", first.buffers);
        add("buffers a round at last", last.buffers);
        add("buffers, last / first", last.buffers / first.buffers);
        for (measure, dead) in dead(&bed).await? {
            add(measure, dead);
        }
    }
    Ok(())
}

/// What one stretch of time has shown.
struct Seen {
    rate: f64,
    buffers: f64,
}

/// One form, with what it needs.
struct Work {
    form: Form,
    client: Client,
    store: fencepost::postgres::PostgresStore,
    path: fencepost::ConsumerPath,
    token: fencepost::SlotToken,
    rounds: u64,
}

impl Work {
    async fn begin(bed: &Bed, form: Form) -> Outcome<Self> {
        let (store, path) = bed.store(16, 1).await?;
        let client = bed.connect().await?;
        let table = "create table plain (id bigint generated always as identity primary key, payload bytea not null)";
        client.batch_execute(table).await?;
        let token = claim(&store, &path, 0).await?;
        Ok(Self { form, client, store, path, token, rounds: 0 })
    }

    async fn stretch(&mut self, bed: &Bed, time: Duration) -> Outcome<Seen> {
        super::bed::told().await;
        let (rounds, counted, started) = (self.rounds, bed.counted().await?, Instant::now());
        while started.elapsed() < time {
            self.rounds += 1;
            match self.form {
                Form::Queue | Form::Retries => self.message().await?,
                Form::Lease => self.lease().await?,
                Form::Skip => self.skip().await?,
            }
        }
        let (done, spent) = ((self.rounds - rounds) as f64, started.elapsed().as_secs_f64());
        super::bed::told().await;
        let buffers = bed.counted().await?.since(counted).buffers;
        Ok(Seen { rate: done / spent, buffers: buffers / done })
    }

    /// Sends one and handles whatever is there.
    async fn message(&mut self) -> Outcome<()> {
        self.store.send(&self.path.queue, message(self.rounds)?).await?;
        if let Some(batch) = self.store.receive(&self.token, BatchSize::default()).await? {
            for message in &batch.messages {
                if self.form == Form::Retries && message.attempt == 1 && message.id.get().unsigned_abs() % 100 < RETRIED
                {
                    let failure = Failure { retry_after: Some(Delay::new(Duration::ZERO)?), reason: None };
                    self.store.nack(&self.token, batch.id, message.id, &failure).await?;
                }
            }
            self.store.ack(&self.token, batch.id).await?;
        }
        if self.rounds.is_multiple_of(MAINTAINED) {
            self.store.maintain(Some(&self.path.queue)).await?;
        }
        Ok(())
    }

    async fn lease(&self) -> Outcome<()> {
        let lease = AcquireLease::new(LeaseName::new("bench")?, HolderName::new("bench")?);
        match self.store.acquire_lease(&lease).await? {
            Acquired::Granted { token, .. } => self.store.release_lease(&token).await?,
            _ => return Err("nobody else has the lease".into()),
        };
        Ok(())
    }

    async fn skip(&self) -> Outcome<()> {
        let send = "insert into plain (payload) values ($1)";
        let take = "delete from plain where id in (select id from plain order by id limit 100 for update skip locked) returning id";
        self.client.execute(send, &[&vec![b'x'; 200]]).await?;
        self.client.query(take, &[]).await?;
        Ok(())
    }
}

/// The dead rows that nobody could remove, by whose they are.
async fn dead(bed: &Bed) -> Outcome<[(&'static str, f64); 5]> {
    let own = bed.connect().await?;
    let dead = "select coalesce(sum(n_dead_tup) filter (where relname ~ '^(q1_|state_)'), 0)::float8,
        coalesce(sum(n_dead_tup) filter (where schemaname = 'fencepost' and relname !~ '^(q1_|state_|lease)'), 0)::float8,
        coalesce(sum(n_dead_tup) filter (where schemaname = 'fencepost' and relname ~ '^lease'), 0)::float8,
        coalesce(sum(n_dead_tup) filter (where schemaname = 'pg_catalog'), 0)::float8,
        coalesce(sum(n_dead_tup) filter (where relname = 'plain'), 0)::float8 from pg_stat_all_tables";
    let row = own.query_one(dead, &[]).await?;
    Ok([
        ("dead rows of log and state", row.get(0)),
        ("dead rows of other tables", row.get(1)),
        ("dead rows of leases", row.get(2)),
        ("dead rows of the catalog", row.get(3)),
        ("dead rows of the plain table", row.get(4)),
    ])
}
