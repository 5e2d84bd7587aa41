//! Granting and revoking: what is answered, what is left, and what an upgrade keeps.

use fencepost_core::Kind;
use fencepost_postgres::{PostgresStore, driver_error};

use crate::ground::{Ground, REFUSED, outcome};
use crate::stage::options;

impl Ground {
    async fn answers(&self, sql: &str) -> bool {
        self.value::<bool>(sql).await.unwrap_or_else(|| panic!("{sql}"))
    }

    async fn refuses(&self, sql: &str) -> Kind {
        driver_error(self.admin.query(sql, &[]).await.expect_err(sql)).kind()
    }
}

/// A right is granted once and revoked once, and without any right nothing of the schema is left to a role.
#[tokio::test]
async fn rights_are_granted_and_revoked_once() {
    let Some(ground) = Ground::new().await else { return };
    let role = ground.role("stranger");
    let client = ground.client("stranger").await;
    let calls = [
        (format!("queue('own', '{role}', 'producer')"), "select fencepost.send('own', 'x'::text)"),
        (format!("queue('own', '{role}', 'consumer')"), "select * from fencepost.claim('own', 'c', 'w')"),
        (format!("lease('own/', '{role}')"), "select * from fencepost.lease_acquire('own/y', 'h', '1 s')"),
        (format!("lease('team ', '{role}')"), "select * from fencepost.lease_acquire('team a', 'h', '1 s')"),
    ];
    for (right, call) in &calls {
        assert_eq!(outcome(&client, call).await, REFUSED, "{call}");
        assert!(!ground.answers(&format!("select fencepost.revoke_{right}")).await);
        assert!(ground.answers(&format!("select fencepost.grant_{right}")).await);
        assert!(!ground.answers(&format!("select fencepost.grant_{right}")).await);
        assert_eq!(outcome(&client, call).await, "done", "{call}");
    }
    for (right, call) in calls.iter().rev() {
        assert!(ground.answers(&format!("select fencepost.revoke_{right}")).await);
        assert!(!ground.answers(&format!("select fencepost.revoke_{right}")).await);
        assert_eq!(outcome(&client, call).await, REFUSED, "{call}");
    }
    // So that it can be dropped.
    let left = format!("select count(*) from pg_shdepend where refobjid = '{role}'::regrole");
    assert_eq!(ground.value::<i64>(&left).await, Some(0));
    assert_eq!(
        ground.value::<i64>("select count(*) from pg_proc where proname ~ '^prefix_[0-9a-f]{32}$'").await,
        Some(1)
    );
    ground.clear().await;
}

/// What cannot be granted is refused, and grants nothing.
#[tokio::test]
async fn what_cannot_be_granted_is_refused() {
    let Some(ground) = Ground::new().await else { return };
    let role = ground.role("stranger");
    for (sql, kind) in [
        (format!("select fencepost.grant_queue('own', '{role}', 'admin')"), Kind::InvalidInput),
        (format!("select fencepost.grant_queue('own', '{role}', null)"), Kind::InvalidInput),
        (format!("select fencepost.grant_queue('none', '{role}', 'producer')"), Kind::NotFound),
        (format!("select fencepost.grant_queue(null, '{role}', 'producer')"), Kind::InvalidInput),
        ("select fencepost.grant_queue('own', 'public', 'producer')".to_owned(), Kind::NotFound),
        ("select fencepost.grant_queue('own', 'no such role', 'producer')".to_owned(), Kind::NotFound),
        ("select fencepost.grant_queue('own', null, 'producer')".to_owned(), Kind::InvalidInput),
        ("select fencepost.grant_queue('own', ' ', 'producer')".to_owned(), Kind::InvalidInput),
        (format!("select fencepost.grant_lease('', '{role}')"), Kind::InvalidInput),
        (format!("select fencepost.grant_lease(null, '{role}')"), Kind::InvalidInput),
        ("select fencepost.grant_lease('x', 'public')".to_owned(), Kind::NotFound),
        (format!("select fencepost.revoke_queue('none', '{role}', 'producer')"), Kind::NotFound),
    ] {
        assert_eq!(ground.refuses(&sql).await, kind, "{sql}");
    }
    let client = ground.client("stranger").await;
    assert_eq!(outcome(&client, "select * from fencepost.installed").await, REFUSED);
    ground.clear().await;
}

/// What a queue's and a prefix's functions are made anew by keeps who may call them, and gives the functions that are new to the same.
#[tokio::test]
async fn an_upgrade_keeps_who_has_which_right() {
    let Some(ground) = Ground::new().await else { return };
    let rights = "select string_agg(concat_ws(' ', p.oid::regprocedure, r.rolname), ', ' order by p.oid::regprocedure::text, r.rolname) from pg_proc p
        cross join lateral aclexplode(p.proacl) a join pg_roles r on r.oid = a.grantee where p.pronamespace = 'fencepost'::regnamespace and r.rolname <> 'fencepost_admin'";
    let before: String = ground.value(rights).await.unwrap();
    // As an older version may have been: functions that are not there yet, and others that are not any more.
    ground
        .run(
            "drop function fencepost.q1_send_once, fencepost.q1_send_many, fencepost.q1_consume, fencepost._by_topic, fencepost._sleep;
            create function fencepost.q1_gone() returns int language sql as 'select 1';
            update fencepost.installed set name = '0.0.0', checksum = 'older' where version = 0",
        )
        .await;
    let store = PostgresStore::open(&ground.database.url(), options().create(true)).await.unwrap();
    assert_eq!(ground.value::<String>(rights).await.unwrap(), before);
    store.close().await;
    let (producer, consumer, holder) =
        (ground.client("producer").await, ground.client("consumer").await, ground.client("holder").await);
    assert_eq!(outcome(&producer, "select * from fencepost.send_once('own', 'x', 'k')").await, "done");
    assert_eq!(outcome(&consumer, "select * from fencepost.claim('own', 'c', 'w')").await, "done");
    assert_eq!(outcome(&holder, "select * from fencepost.lease_acquire('own/y', 'h', '1 s')").await, "done");
    for client in [&producer, &consumer, &holder] {
        assert_eq!(outcome(client, "select fencepost._sleep('{messages/own}')").await, "done");
        assert_eq!(outcome(client, "select * from fencepost.claim('other', 'c', 'w')").await, REFUSED);
    }
    ground.clear().await;
}

/// Members of the cluster's roles use every queue, also one that is made later, and its administrators do everything.
#[tokio::test]
async fn members_of_the_clusters_roles_use_every_queue() {
    let Some(ground) = Ground::new().await else { return };
    for (role, of) in [("producer", "producer"), ("consumer", "consumer"), ("stranger", "admin")] {
        ground.run(&format!("grant fencepost_{of} to {}", ground.role(role))).await;
    }
    let (producer, consumer, admin) =
        (ground.client("producer").await, ground.client("consumer").await, ground.client("stranger").await);
    let done = async |client, sql: &str| assert_eq!(outcome(client, sql).await, "done", "{sql}");
    done(&admin, "select fencepost.create_queue('later'), fencepost.create_consumer('later', 'c')").await;
    for queue in ["other", "later"] {
        done(
            &producer,
            &format!("select fencepost.send('{queue}', 'x'::text), fencepost.send_batch('{queue}', '{{x}}')"),
        )
        .await;
        done(&producer, &format!("select * from fencepost.send_once('{queue}', 'x', 'k')")).await;
        done(&consumer, &format!("select * from fencepost.claim('{queue}', 'c', 'w')")).await;
        done(&consumer, &format!("select fencepost.maintain('{queue}')")).await;
        done(&consumer, &format!("select * from fencepost._read('{queue}', 'earliest', 9)")).await;
    }
    done(&consumer, "select * from fencepost.lease_acquire('other/y', 'h', '1 s')").await;
    for (client, sql) in [
        (&producer, "select * from fencepost.claim('later', 'c', 'w')"),
        (&producer, "select * from fencepost.lease_acquire('other/y', 'h', '1 s')"),
        (&consumer, "select fencepost.send('later', 'x'::text)"),
        (&consumer, "select fencepost.force_release_slot('later', 'c', 0, 'why')"),
        (&producer, "select fencepost.create_queue('mine')"),
    ] {
        assert_eq!(outcome(client, sql).await, REFUSED, "{sql}");
    }
    let role = ground.role("holder");
    for sql in [
        "select fencepost.send('later', 'x'::text); select * from fencepost.slot_status",
        "select fencepost.force_release_slot('later', 'c', 0, 'why')",
        "select fencepost.lease_force_release('other/x', 'why')",
        "select fencepost.dead_replay('other', 'c'), fencepost.dead_purge('other', 'c')",
        "select fencepost.pause_queue('later'), fencepost.resume_queue('later'), fencepost.set_retention('later')",
        &format!(
            "select fencepost.grant_queue('later', '{role}', 'consumer'), fencepost.revoke_queue('later', '{role}', 'consumer')"
        ),
        &format!("select fencepost.grant_lease('later', '{role}'), fencepost.revoke_lease('later', '{role}')"),
        "select fencepost.drop_consumer('later', 'c', true), fencepost.drop_queue('later', true)",
    ] {
        done(&admin, sql).await;
    }
    ground.clear().await;
}

/// Many who grant and revoke at once do not get into each other's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rights_are_changed_by_many_at_once() {
    let Some(ground) = Ground::new().await else { return };
    let mut tasks = Vec::new();
    for n in 0..8 {
        let (client, role) = (ground.database.connect().await.unwrap(), ground.role(["producer", "stranger"][n % 2]));
        tasks.push(tokio::spawn(async move {
            for verb in ["grant", "revoke", "grant", "revoke"] {
                for what in [format!("queue('other', '{role}', 'producer')"), format!("lease('many', '{role}')")] {
                    let sql = format!("select fencepost.{verb}_{what}");
                    assert_eq!(outcome(&client, &sql).await, "done", "{sql}");
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    ground.clear().await;
}

/// Who had a right on nothing but a queue that was dropped keeps nothing, so the role can be dropped too.
#[tokio::test]
async fn a_dropped_queue_leaves_nothing_with_who_was_granted_it() {
    let Some(ground) = Ground::new().await else { return };
    let guest = ground.role("guest");
    ground.run(&format!("create role {guest}; select fencepost.create_queue('brief')")).await;
    for right in ["consumer", "producer"] {
        ground.run(&format!("select fencepost.grant_queue('brief', '{guest}', '{right}')")).await;
    }
    ground.run("select fencepost.drop_queue('brief', true)").await;
    ground.run(&format!("drop role {guest}")).await;
    ground.clear().await;
}
