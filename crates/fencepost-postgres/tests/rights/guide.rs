//! The statements of the guide to security run as they stand there, and grant what it says.

use fencepost_test_support::{DEFAULT_MAJOR, PgServer, skip_or_fail};

use crate::ground::{outcome, run};
use crate::stage::installed_on;

const GUIDE: &str = include_str!("../../../../docs/guide/security.md");

/// The blocks of SQL, in order.
fn blocks() -> impl Iterator<Item = &'static str> {
    GUIDE.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next())
}

/// On a server of its own, as it makes roles.
#[tokio::test]
async fn the_guide_to_security_runs_as_it_stands() {
    let Some(server) = skip_or_fail(PgServer::private_with(DEFAULT_MAJOR, &[("fsync", "off")]).await) else { return };
    let database = installed_on(&server, false).await;
    let admin = database.connect().await.unwrap();
    for block in blocks() {
        run(&admin, block).await;
    }
    assert_eq!(blocks().count(), 4);
    for (role, call, answer) in [
        ("billing", "select * from fencepost.claim('orders', 'billing', 'w')", "done"),
        ("billing", "select fencepost.send('orders', 'x'::text)", "42501"),
        ("billing", "select * from fencepost.lease_acquire('shop/x', 'h', '1 s')", "42501"),
        ("operator", "select fencepost.pause_queue('orders')", "done"),
    ] {
        let sql = format!("set role {role}; {call}");
        assert_eq!(outcome(&admin, &sql).await, answer, "{sql}");
    }
}
