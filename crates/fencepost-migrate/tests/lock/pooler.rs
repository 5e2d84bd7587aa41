//! C14: what stands between the lock and its server.

use fencepost_core::Kind;
use fencepost_migrate::MigrationLock;
use fencepost_test_support::{PgBouncer, skip_or_fail};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};

use crate::database::{place, pool};

/// C14
#[tokio::test]
async fn c14_a_pooler_in_transaction_mode_is_refused_before_anything_is_locked() {
    let Some(place) = place().await else { return };
    let Some(bouncer) = skip_or_fail(PgBouncer::start(&place.database).await) else { return };
    for lock in [
        MigrationLock::new(pool(&bouncer.url(), 4), "shop").unwrap(),
        MigrationLock::at(&bouncer.url(), "shop").unwrap(),
    ] {
        for error in [lock.acquire().await.unwrap_err(), lock.try_acquire().await.unwrap_err()] {
            assert_eq!(
                (error.kind(), error.code(), error.fact("evidence")),
                (Kind::Unsupported, "pooler", Some("process"))
            );
            let hint = error.hint().unwrap();
            assert!(hint.contains("--lock lease") && hint.contains("pooler=session"), "{hint}");
        }
        assert!(!lock.is_held());
        assert_eq!(place.all().await, 0);
    }
}

/// C14: a pooler in session mode is known to be there.
#[tokio::test]
async fn c14_a_pooler_in_session_mode_works_where_it_is_said() {
    let Some(place) = place().await else { return };
    let started = PgBouncer::start_with(&place.database, &[("pool_mode", "session"), ("default_pool_size", "8")]);
    let Some(bouncer) = skip_or_fail(started.await) else { return };
    assert_eq!(MigrationLock::at(&bouncer.url(), "shop").unwrap().acquire().await.unwrap_err().code(), "pooler");
    let first = MigrationLock::at(&format!("{}?pooler=session", bouncer.url()), "shop").unwrap();
    let second = MigrationLock::behind_session_pooler(pool(&bouncer.url(), 2), "shop").unwrap();
    first.acquire().await.unwrap();
    assert!(!second.try_acquire().await.unwrap());
    assert!(first.release().await.unwrap());
    assert!(second.try_acquire().await.unwrap());
    assert!(second.release().await.unwrap());
    assert_eq!(place.all().await, 0);
}

/// C14: a pooler that tells its clients the server's own number.
#[tokio::test(flavor = "multi_thread")]
async fn c14_a_pooler_that_hides_is_recognised_by_sessions_that_are_shared() {
    let Some(place) = place().await else { return };
    let Some(bouncer) = skip_or_fail(PgBouncer::start(&place.database).await) else { return };
    // An idle pooler gives everybody the same session, and this is its number.
    let session = pool(&bouncer.url(), 1).get().await.unwrap();
    let rows = session.query_typed("select pg_backend_pid()", &[]).await.unwrap();
    let process: i32 = rows[0].get(0);
    drop(session);
    let lock = MigrationLock::new(pool(&hiding(&bouncer.url(), process).await, 4), "shop").unwrap();
    let error = lock.acquire().await.unwrap_err();
    assert_eq!((error.code(), error.fact("evidence")), ("pooler", Some("shared")));
    assert_eq!(place.all().await, 0);
    // Where each has a session of its own, nothing is to be found.
    let direct = place.lock("shop");
    assert!(direct.try_acquire().await.unwrap() && direct.release().await.unwrap());
}

/// The URL of somebody in between who tells each connection that it is answered by `process`.
async fn hiding(url: &str, process: i32) -> String {
    let address = url.split_once('@').and_then(|(_, rest)| rest.split_once('/')).unwrap().0.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = url.replace(&address, &listener.local_addr().unwrap().to_string());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&address).await.unwrap();
            let ((mut said, mut hears), (mut answered, mut asked)) = (client.into_split(), server.into_split());
            tokio::spawn(async move { copy(&mut said, &mut asked).await });
            tokio::spawn(async move {
                let mut bytes = vec![0; 16384];
                while let Ok(count @ 1..) = answered.read(&mut bytes).await {
                    let key = bytes[..count].windows(5).position(|begin| begin == [b'K', 0, 0, 0, 12]);
                    if let Some(at) = key.filter(|at| at + 9 <= count) {
                        bytes[at + 5..at + 9].copy_from_slice(&process.to_be_bytes());
                    }
                    if hears.write_all(&bytes[..count]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}
