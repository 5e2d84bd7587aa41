//! Calls that wait for a takeover in flight: judged by what is true after it, not by what they saw before they waited.

use fencepost_core::{AcquireLease, Acquired, HolderName, Kind, LeaseName, LeaseToken, Leases, Release, Renewal};
use fencepost_postgres::TransactionCalls;
use tokio_postgres::{Client, Transaction};

use crate::stage::{Stage, ttl, until_waiting};

/// An expired grant, and a takeover of it that has not been committed.
async fn taken_over<'c>(stage: &Stage, client: &'c mut Client) -> (LeaseToken, Transaction<'c>) {
    let request = AcquireLease::new(LeaseName::new("nightly").unwrap(), HolderName::new("a").unwrap()).ttl(ttl(10));
    let Acquired::Granted { token, .. } = stage.store.acquire_lease(&request).await.unwrap() else {
        panic!("not granted")
    };
    stage.pass(10);
    let open = client.transaction().await.unwrap();
    let row = open.query_one("select granted from fencepost.lease_acquire('nightly', 'b', '10 s')", &[]).await.unwrap();
    assert!(row.get::<_, bool>(0));
    (token, open)
}

/// Waits until somebody waits for a lock in the stage's database.
pub async fn somebody_waits(stage: &Stage) {
    until_waiting(&stage.client().await, 1).await;
}

async fn holder(stage: &Stage) -> String {
    let status = stage.store.lease(&LeaseName::new("nightly").unwrap()).await.unwrap().unwrap();
    status.state.holding.expect("it is held").holder.as_str().to_owned()
}

/// Runs what the old holder calls while the takeover is in flight, and commits that once the call waits for it.
async fn while_it_waits<T: Send + 'static>(
    stage: &Stage,
    takeover: Transaction<'_>,
    call: impl Future<Output = T> + Send + 'static,
) -> T {
    let call = tokio::spawn(call);
    somebody_waits(stage).await;
    takeover.commit().await.unwrap();
    call.await.unwrap()
}

#[tokio::test]
async fn a_renewal_that_waited_for_a_takeover_is_lost() {
    let Some(stage) = Stage::new().await else { return };
    let mut client = stage.client().await;
    let (token, takeover) = taken_over(&stage, &mut client).await;
    let store = stage.store.clone();
    let renewed = while_it_waits(&stage, takeover, async move { store.renew_lease(&token, None).await }).await;
    assert_eq!(renewed.unwrap(), Renewal::Lost);
    let until = stage.store.lease_status().await.unwrap()[0].state.holding.clone().unwrap();
    assert_eq!(until.expires_at, until.since + until.ttl.get(), "the heir's grant is as it was");
}

#[tokio::test]
async fn a_release_that_waited_for_a_takeover_frees_nobody_elses_lease() {
    let Some(stage) = Stage::new().await else { return };
    let mut client = stage.client().await;
    let (token, takeover) = taken_over(&stage, &mut client).await;
    let store = stage.store.clone();
    let released = while_it_waits(&stage, takeover, async move { store.release_lease(&token).await }).await;
    assert_eq!(released.unwrap(), Release::NotHeld);
    assert_eq!(holder(&stage).await, "b");
}

#[tokio::test]
async fn a_guard_that_waited_for_a_takeover_is_fenced() {
    let Some(stage) = Stage::new().await else { return };
    let mut client = stage.client().await;
    let (token, takeover) = taken_over(&stage, &mut client).await;
    let mut late = stage.client().await;
    let guard = async move { late.transaction().await.unwrap().guard_in(&token).await };
    let guarded = while_it_waits(&stage, takeover, guard).await;
    assert_eq!(guarded.unwrap_err().kind(), Kind::Fenced);
}

/// A takeover that is rolled back was none: the old holder goes on, and no epoch repeats.
#[tokio::test]
async fn a_takeover_that_is_rolled_back_leaves_the_old_holder() {
    let Some(stage) = Stage::new().await else { return };
    let mut client = stage.client().await;
    let (token, takeover) = taken_over(&stage, &mut client).await;
    let rolled_back: i64 =
        takeover.query_one("select max(epoch) from fencepost.lease_grant", &[]).await.unwrap().get(0);
    takeover.rollback().await.unwrap();
    assert_eq!(stage.store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
    assert_eq!(stage.store.release_lease(&token).await.unwrap(), Release::Released);
    let heir: i64 = client
        .query_one("select epoch from fencepost.lease_acquire('nightly', 'c', '10 s')", &[])
        .await
        .unwrap()
        .get(0);
    assert!(heir > rolled_back && rolled_back > token.epoch.get());
}
