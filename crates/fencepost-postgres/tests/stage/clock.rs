//! The server's clock in tests: it stands in a table, and follows a manual clock that the test moves.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use fencepost_core::{BootInstant, Clock, ManualClock};
use fencepost_test_support::TestDatabase;
use tokio_postgres::Client;

/// Puts a clock that stands still in place of the server's. Part of the template of tests' databases.
pub const STAND_STILL: &str = "create table fencepost.test_clock (at timestamptz not null); \
    insert into fencepost.test_clock values ('2026-01-01 00:00:00+00'); \
    create or replace function fencepost._clock() returns timestamptz language sql volatile parallel restricted \
    as $$ select at from fencepost.test_clock $$; \
    alter function fencepost._clock() set search_path = pg_catalog, pg_temp;";

/// A clock that carries its changes into the database before they are seen here.
///
/// The server is another host than the caller's: it knows how much time has passed, and nothing of a wall clock that is stepped
/// here.
pub fn follow(database: &TestDatabase) -> Arc<ManualClock> {
    let (moves, heard) = channel::<(i64, Sender<()>)>();
    let (server, name) = (database.server().clone(), database.name().to_owned());
    // On a thread of its own: who moves the clock may be a task of any runtime, and waits.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let client = server.connect(&name).await.expect("the test's database");
            carry(&client, &heard).await;
        });
    });
    let clock = ManualClock::default();
    let start = (clock.wall().as_micros(), clock.boot());
    Arc::new(clock.observed(move |_, boot: BootInstant| {
        let shown = start.0 + boot.since(start.1).as_micros() as i64;
        let (done, wait) = channel();
        moves.send((shown, done)).expect("the clock's thread lives");
        wait.recv().expect("the database's clock was set");
    }))
}

async fn carry(client: &Client, moves: &Receiver<(i64, Sender<()>)>) {
    while let Ok((micros, done)) = moves.recv() {
        let set =
            format!("update fencepost.test_clock set at = timestamptz 'epoch' + {micros} * interval '1 microsecond'");
        client.batch_execute(&set).await.expect("the database's clock can be set");
        let _ = done.send(());
    }
}
