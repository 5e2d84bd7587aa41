//! Callers' own transactions: what of them is stored, and what the commit says.

use fencepost_core::{AcquireLease, Acquired, Epoch, HolderName, Kind, LeaseName, LeaseToken, Leases};
use fencepost_postgres::{TransactionCalls, commit};
use fencepost_test_support::FaultProxy;
use tokio_postgres::NoTls;

use crate::stage::Stage;

async fn held(stage: &Stage) -> LeaseToken {
    let request = AcquireLease::new(LeaseName::new("nightly").unwrap(), HolderName::new("a").unwrap());
    let Acquired::Granted { token, .. } = stage.store.acquire_lease(&request).await.unwrap() else {
        panic!("not granted")
    };
    token
}

/// B21: a commit after a failed statement whose error was ignored says that nothing was stored.
#[tokio::test]
async fn b21_a_commit_after_an_ignored_failure_fails() {
    let Some(stage) = Stage::new().await else { return };
    let token = held(&stage).await;
    let stranger = LeaseToken { epoch: Epoch::new(1).unwrap(), ..token.clone() };
    let mut client = stage.client().await;
    client.batch_execute("create table paid (id int)").await.unwrap();
    for (by, stored) in [(&stranger, 0), (&token, 1)] {
        let open = client.transaction().await.unwrap();
        open.batch_execute("insert into paid values (7)").await.unwrap();
        let guarded = open.guard_in(by).await;
        let committed = commit(open).await;
        assert_eq!((guarded.is_ok(), committed.is_ok()), (stored == 1, stored == 1));
        if let Err(error) = committed {
            assert_eq!((error.kind(), error.code()), (Kind::Conflict, "transaction_aborted"));
        }
        let found = client.query_one("select count(*) from paid", &[]).await.unwrap().get::<_, i64>(0);
        assert_eq!(found, stored);
    }
}

/// A commit whose reply is lost is unknown, also in a caller's transaction.
#[tokio::test]
async fn a_commit_whose_reply_is_lost_is_unknown() {
    let Some(stage) = Stage::new().await else { return };
    let token = held(&stage).await;
    let proxy = FaultProxy::start(stage.database.server().address()).await.unwrap();
    let (mut client, connection) = tokio_postgres::connect(&proxy.url(&stage.database.url()), NoTls).await.unwrap();
    tokio::spawn(connection);
    let open = client.transaction().await.unwrap();
    open.guard_in(&token).await.unwrap();
    let lost = proxy.lose_reply("COMMIT");
    let error = commit(open).await.unwrap_err();
    lost.happened().await;
    assert_eq!((error.kind(), error.operation()), (Kind::UnknownOutcome, Some("commit")), "{error:?}");
}
