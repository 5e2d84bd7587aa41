//! What a role can call and read at all, over everything that the schema has by the server's own lists: what is new there is refused until it
//! stands here.

use std::collections::BTreeSet;

use tokio_postgres::Client;

use crate::ground::{Ground, REFUSED, ROLES, outcome, run};

/// What whoever has any right may call. It does by itself only what its caller may do; see scope.rs for each of them.
const COMMON: &str = "send send_batch send_once _send_many _send_one_once _send_granted _check_columns
    claim claim_slot receive ack_receive ack ack_through nack snooze dead_letter slot_guard renew_slots renew_slot release_slot abandon_slot
    maintain _claim _receive _messages_of _dispose _heartbeat _leave _members _next_due _read
    _slot_report _consumer_report _blocked_slots _queue_status _dead_counts _dead_letters _slot_history
    lease_acquire lease_renew lease_release lease_guard _lease_states _lease_history _prefixes _listed
    _sleep _marks _by_topic _topic_hash notify _notices _schedules _schedule _schedule_history
    _may _may_consume _may_hold _consumable _by_number _by_queue _by_each _by_prefix _prefix_function _receiver _consumer_calls _lease_calls
    _queue_number _found_number _received_from _arrive _clock _uncommitted _refuse _name _within _time payload_text payload_json";

/// What else a role may call by its one right.
fn granted(role: &str, own: i32, prefix: &str) -> Vec<String> {
    match role {
        "producer" => ["send", "send_batch", "send_many", "send_once"].map(|name| format!("q{own}_{name}")).to_vec(),
        "consumer" => ["receive", "consume"].map(|name| format!("q{own}_{name}")).to_vec(),
        "holder" => vec![prefix.to_owned()],
        _ => vec![],
    }
}

/// What the roles that the whole cluster has may call beside that.
fn of_cluster(role: &str, name: &str) -> bool {
    let is_of_queue = |ends: &[&str]| {
        name.strip_prefix('q')
            .and_then(|rest| rest.split_once('_'))
            .is_some_and(|(number, rest)| number.parse::<u32>().is_ok() && ends.contains(&rest))
    };
    match role {
        "fencepost_producer" => {
            name.starts_with("_any_send") || is_of_queue(&["send", "send_batch", "send_many", "send_once"])
        }
        "fencepost_consumer" => {
            name.starts_with("_any_") && !name.starts_with("_any_send") || is_of_queue(&["receive", "consume"])
        }
        _ => false,
    }
}

const FUNCTIONS: &str =
    "select p.proname::text, p.oid::regprocedure::text, has_function_privilege($1::text, p.oid, 'execute'),
    format('select fencepost.%I(%s)', p.proname, (select string_agg('null::' || format_type(t, null), ', ' order by n)
        from unnest(p.proargtypes::oid[]) with ordinality u (t, n)))
    from pg_proc p where p.pronamespace = 'fencepost'::regnamespace order by 2";

/// Of all functions exactly these can be called, and the others answer so when they are.
#[tokio::test]
async fn every_function_is_of_a_right_or_refused() {
    let Some(ground) = Ground::new().await else { return };
    let own: i32 = ground.value("select id from fencepost.queue where name = 'own'").await.unwrap();
    let prefix: String = ground.value("select fencepost._prefix_named('own/')").await.unwrap();
    for role in ROLES {
        let mut allowed: BTreeSet<String> = granted(role, own, &prefix).into_iter().collect();
        if role != "stranger" {
            allowed.extend(COMMON.split_whitespace().map(str::to_owned));
        }
        let client = ground.client(role).await;
        let mut seen = BTreeSet::new();
        for row in ground.admin.query(FUNCTIONS, &[&ground.role(role)]).await.unwrap() {
            let (name, signature, may, call): (String, String, bool, String) =
                (row.get(0), row.get(1), row.get(2), row.get(3));
            assert_eq!(may, allowed.contains(&name), "{role} may call {signature}: {may}");
            if may {
                seen.insert(name);
            } else {
                assert_eq!(outcome(&client, &call).await, REFUSED, "{role}: {call}");
            }
        }
        assert_eq!(seen, allowed, "{role}");
    }
    ground.clear().await;
}

/// The roles of the cluster have what every queue and lease has, and the administrators everything.
#[tokio::test]
async fn the_roles_of_the_cluster_have_what_they_are_for() {
    let Some(ground) = Ground::new().await else { return };
    ground.run("select fencepost.create_queue('later')").await;
    let common: BTreeSet<&str> = COMMON.split_whitespace().collect();
    for role in ["fencepost_producer", "fencepost_consumer", "fencepost_admin"] {
        for row in ground.admin.query(FUNCTIONS, &[&role]).await.unwrap() {
            let (name, signature, may): (String, String, bool) = (row.get(0), row.get(1), row.get(2));
            if role == "fencepost_admin" {
                // What stands within a queue made since is called by its entries, with the owner's rights.
                let entry = !name.starts_with('q')
                    || of_cluster("fencepost_producer", &name)
                    || of_cluster("fencepost_consumer", &name);
                assert!(may || !entry, "{signature}");
            } else {
                assert_eq!(
                    may,
                    common.contains(&*name) || of_cluster(role, &name),
                    "{role} may call {signature}: {may}"
                );
            }
        }
    }
    ground.clear().await;
}

/// Nothing is anybody's because it is PUBLIC.
#[tokio::test]
async fn nothing_is_granted_to_public() {
    let Some(ground) = Ground::new().await else { return };
    let public = "select o.name from (
            select oid::regprocedure::text, coalesce(proacl, acldefault('f', proowner)) from pg_proc where pronamespace = 'fencepost'::regnamespace
            union all select oid::regclass::text, relacl from pg_class where relnamespace = 'fencepost'::regnamespace
            union all select nspname, nspacl from pg_namespace where nspname = 'fencepost') o (name, acl)
        cross join lateral aclexplode(o.acl) a where a.grantee = 0";
    let open: Vec<String> = ground.admin.query(public, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(open.is_empty(), "{open:?}");
    ground.clear().await;
}

/// What a role that has a right calls with its own rights looks names up nowhere but in the server's own schema.
#[tokio::test]
async fn what_callers_run_with_their_own_rights_pins_where_names_are_looked_up() {
    let Some(ground) = Ground::new().await else { return };
    let open = "select p.oid::regprocedure::text from pg_proc p join pg_language l on l.oid = p.prolang
        where p.pronamespace = 'fencepost'::regnamespace and has_function_privilege($1::text, p.oid, 'execute')
            and (p.prosrc ~ 'has_function_privilege|execute|pg_proc|from fencepost')
            and not coalesce('search_path=pg_catalog, pg_temp' = any(p.proconfig), false)
            and p.proname not in ('_consumer_calls', '_lease_calls') and p.proname <> all($2::text[])";
    for role in ["producer", "consumer", "holder"] {
        let rows = ground.admin.query(open, &[&ground.role(role), &&WHOLE_NAMES[..]]).await.unwrap();
        let open: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert!(open.is_empty(), "{open:?}");
    }
    // Nothing in these is looked up by its name alone: no function, no operator, no type.
    let bare = "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'fencepost'::regnamespace
        and p.proname = any($1::text[]) and p.proconfig is null
        and (replace(p.prosrc, '=>', '') ~ '[=<>~|+*/!@#%^&?-]' or replace(p.prosrc, 'coalesce(', '') ~ '(^|[^.\\w])\\w+\\s?\\(' or p.prosrc ~ '::(?!pg_catalog)')";
    let bare = ground.admin.query(bare, &[&&WHOLE_NAMES[..]]).await.unwrap();
    assert!(bare.is_empty(), "{:?}", bare[0].get::<_, String>(0));
    ground.clear().await;
}

/// What is called most and pins nothing.
const WHOLE_NAMES: [&str; 9] = [
    "send",
    "ack",
    "slot_guard",
    "renew_slot",
    "lease_acquire",
    "lease_renew",
    "lease_release",
    "lease_guard",
    "_receiver",
];

const RELATIONS: &str = "select c.relname::text, c.relkind::text,
    (select a.attname::text from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 order by a.attnum desc limit 1)
    from pg_class c where c.relnamespace = 'fencepost'::regnamespace and c.relkind in ('r', 'v', 'S', 'p', 'm', 'f') order by 1";

/// No table, view or sequence is read, written, locked or altered, by whatever statement, but for the views to look at.
#[tokio::test]
async fn no_table_and_no_sequence_is_touched() {
    let Some(ground) = Ground::new().await else { return };
    let before = (ground.stored("own").await, ground.stored("other").await);
    for role in ROLES {
        let client = ground.client(role).await;
        let mut readable = BTreeSet::new();
        for row in ground.admin.query(RELATIONS, &[]).await.unwrap() {
            let (name, kind, column): (String, String, String) = (row.get(0), row.get(1), row.get(2));
            if kind != "S" {
                let select = format!("select * from fencepost.{name}");
                for sql in [&select, &format!("explain analyze {select}"), &format!("table fencepost.{name}")] {
                    match &*outcome(&client, sql).await {
                        "done" => drop(readable.insert(name.clone())),
                        answer => assert_eq!(answer, REFUSED, "{role}: {sql}"),
                    }
                }
            }
            let statements: &[&str] = match &*kind {
                "S" => &[
                    "select nextval('{t}')",
                    "select setval('{t}', 1)",
                    "select setval('{t}', 9, true)",
                    "select currval('{t}')",
                    "select last_value from {t}",
                    "alter sequence {t} restart",
                    "drop sequence {t}",
                ],
                _ => &[
                    "insert into {t} default values",
                    "insert into {t} ({c}) select {c} from {t}",
                    "update {t} set {c} = {c}",
                    "delete from {t}",
                    "truncate {t}",
                    "lock table {t} in access exclusive mode",
                    "lock table {t} in row exclusive mode",
                    "copy {t} from stdin",
                    "copy {t} from '/dev/null'",
                    "copy (delete from {t} returning *) to stdout",
                    "select * from {t} for update",
                    "create trigger stolen before insert on {t} for each row execute function suppress_redundant_updates_trigger()",
                    "create rule stolen as on insert to {t} do also notify fencepost",
                    "alter {k} {t} owner to current_user",
                    "drop {k} {t}",
                    "grant all on {t} to current_user",
                ],
            };
            for statement in statements {
                let object = if kind == "v" { "view" } else { "table" };
                let sql = statement
                    .replace("{t}", &format!("fencepost.{name}"))
                    .replace("{c}", &column)
                    .replace("{k}", object);
                let answer = outcome(&client, &format!("begin; {sql}")).await;
                run(&client, "rollback").await;
                // A view is refused for what it is, wherever that is looked at first.
                let is_refused = answer == REFUSED || kind == "v" && answer != "done";
                // To grant what one does not have is answered by a warning, and grants nothing.
                let grants_nothing = statement.starts_with("grant") && answer == "done" && readable.contains(&name);
                assert!(is_refused || grants_nothing, "{role}: {sql}: {answer}");
            }
        }
        let looked_at: &[&str] = match role {
            "stranger" => &[],
            _ => &[
                "_fired_state",
                "_schedule_state",
                "dead_letters",
                "installation",
                "installation_history",
                "installed",
                "lease_status",
                "queue_status",
                "schedule_status",
                "slot_status",
            ],
        };
        assert_eq!(readable, looked_at.iter().map(|&name| name.to_owned()).collect(), "{role}");
        assert_eq!(privileges(&ground, role).await, looked_at.len() as i64, "{role}");
    }
    assert_eq!((ground.stored("own").await, ground.stored("other").await), before);
    ground.clear().await;
}

/// How many privileges a role has on tables, views and sequences.
async fn privileges(ground: &Ground, role: &str) -> i64 {
    let sql = format!(
        "select count(*) from pg_class c cross join lateral aclexplode(c.relacl) a
        where c.relnamespace = 'fencepost'::regnamespace and a.grantee = '{}'::regrole",
        ground.role(role)
    );
    ground.value(&sql).await.unwrap()
}

/// Nothing is made in the schema, and nothing of it changed, by who may use it.
#[tokio::test]
async fn nothing_is_made_or_replaced_in_the_schema() {
    let Some(ground) = Ground::new().await else { return };
    let statements = [
        "create table fencepost.mine (a int)",
        "create function fencepost.mine() returns int language sql as 'select 1'",
        "create or replace function fencepost._clock() returns timestamptz language sql as $$ select timestamptz 'infinity' $$",
        "create or replace view fencepost.queue_status as select 1 as queue",
        "create type fencepost.mine as (a int)",
        "alter function fencepost._clock() owner to current_user",
        "alter function fencepost.ack set search_path = public",
        "drop schema fencepost cascade",
        "alter schema fencepost rename to mine",
        "comment on schema fencepost is 'mine'",
        "create or replace function fencepost.send(text, text, text, text, jsonb, interval, int, interval) returns bigint language sql as 'select 1'",
    ];
    for role in ROLES {
        let client: Client = ground.client(role).await;
        for sql in statements {
            assert_eq!(outcome(&client, sql).await, REFUSED, "{role}: {sql}");
        }
    }
    ground.clear().await;
}
