//! The guards of notices, as data: in Rust, and in the SQL of the PostgreSQL engine.

use super::guards::Guard;
use super::sql_guards::SqlGuard;

const MEM: &str = "fencepost-mem";
const SQLITE: &str = "fencepost-sqlite";

const CORE: &str = "crates/fencepost-core/src/notice.rs";
const SQLITE_NOTICE: &str = "crates/fencepost-sqlite/src/notice.rs";

const NOTICE: &str = "functions/notice/notice.sql";

pub const GUARDS: &[Guard] = &[
    Guard {
        name: "notice-lagged",
        without: "a full receiver leaves notices out and says nothing",
        file: CORE,
        text: "_ => waiting.left_out += 1,",
        instead: "_ => {}",
        engines: &[MEM, SQLITE],
        red: &["notices::a_full_receiver_hears_how_many_it_missed"],
    },
    Guard {
        name: "notice-limit",
        without: "a payload above the limit is taken",
        file: CORE,
        text: "if text.len() > MAX_NOTICE {",
        instead: "if text.len() > 2 * MAX_NOTICE {",
        engines: &[MEM, SQLITE],
        red: &["notices::b30_a_payload_at_the_limit_is_delivered_and_a_larger_one_refused"],
    },
    Guard {
        name: "sqlite-notice-once",
        without: "a notice that was delivered is delivered again by whoever looks next",
        file: SQLITE_NOTICE,
        text: "            *last = id;\n",
        instead: "",
        engines: &[SQLITE],
        red: &["notices::b30_a_notice_from_elsewhere_is_delivered_once_and_in_order"],
    },
    Guard {
        name: "sqlite-notice-first",
        without: "who is the first to listen gets what was there before",
        file: SQLITE_NOTICE,
        text: "*last = value(snapshot, include_str!(\"../sql/notice/last.sql\"), [])?;",
        instead: "",
        engines: &[SQLITE],
        red: &["notices::a_listener_gets_nothing_of_what_was_before"],
    },
    Guard {
        name: "sqlite-notice-later",
        without: "who begins to listen beside others gets what these were still owed",
        file: SQLITE_NOTICE,
        text: "            deliver(snapshot, hub, &mut last)?;\n",
        instead: "",
        engines: &[SQLITE],
        red: &["notices::a_listener_gets_nothing_of_what_was_before"],
    },
];

pub const SQL: &[SqlGuard] = &[
    SqlGuard {
        name: "pg-notice-late",
        without: "a notice whose transaction was under way during a look is lost",
        file: NOTICE,
        text: "where n.xid = x and",
        instead: "where false and",
        program: "engine",
        red: "notices::b30_what_commits_late_is_delivered_when_it_does",
    },
    SqlGuard {
        name: "pg-notice-once",
        without: "a look delivers what the last one has delivered",
        file: NOTICE,
        text: "(n.xid, n.id) > (fresh_xid, fresh_id) and",
        instead: "n.xid <> all(late) and",
        program: "conformance",
        red: "notices::b30_a_notice_from_elsewhere_is_delivered_once_and_in_order",
    },
    SqlGuard {
        name: "pg-notice-pass",
        without: "a page of a pass shows what is newer than its pages before",
        file: NOTICE,
        text: "        select coalesce(_any_notices.upto::pg_snapshot, pg_current_snapshot()) as upto",
        instead: "        select pg_current_snapshot() as upto",
        program: "engine",
        red: "notices::pages_of_one_pass_are_of_one_snapshot",
    },
    SqlGuard {
        name: "pg-notice-removed",
        without: "nobody is told that notices are gone that were not delivered",
        file: NOTICE,
        text: "r.last_value >= fresh::text::bigint or exists (",
        instead: "exists (",
        program: "engine",
        red: "notices::b30_a_listener_that_was_away_for_too_long_hears_a_resync",
    },
    SqlGuard {
        name: "pg-notice-removed-late",
        without: "nobody is told of a notice that committed so late that it was removed at once",
        file: NOTICE,
        text: "where x::text::bigint <= r.last_value and",
        instead: "where false and",
        program: "engine",
        red: "notices::what_commits_too_late_to_be_kept_is_told_of",
    },
    SqlGuard {
        name: "pg-notice-moved",
        without: "listeners go on by the snapshot of another store",
        file: NOTICE,
        text: "since is null or known is distinct from here",
        instead: "since is null",
        program: "engine",
        red: "notices::a_store_that_moved_has_its_listeners_told",
    },
    SqlGuard {
        name: "pg-notice-copied",
        without: "a copy keeps notices by the numbers of another server's transactions",
        file: "functions/base/moved.sql",
        text: "    delete from fencepost.notice;\n",
        instead: "",
        program: "engine",
        red: "restores::a_restored_store_gives_what_the_dumped_one_would_have_given",
    },
    SqlGuard {
        name: "pg-notice-one-remover",
        without: "who notifies waits for whoever removes old notices in an open transaction",
        file: NOTICE,
        text: "    if not pg_try_advisory_xact_lock(fencepost._topic_hash('notices')) then",
        instead: "    if false then",
        program: "engine",
        red: "notices::who_removes_old_notices_stands_in_nobodys_way",
    },
    SqlGuard {
        name: "pg-notice-isolation",
        without: "a notice above READ COMMITTED fails for what others have removed",
        file: NOTICE,
        text: " and current_setting('transaction_isolation') = 'read committed'",
        instead: "",
        program: "engine",
        red: "notices::who_removes_old_notices_stands_in_nobodys_way",
    },
    SqlGuard {
        name: "pg-notice-limit",
        without: "a payload above the limit is taken by SQL",
        file: NOTICE,
        text: "    if octet_length(payload) > 8000 then",
        instead: "    if false then",
        program: "engine",
        red: "notices::b30_bad_notices_are_refused_by_sql",
    },
];
