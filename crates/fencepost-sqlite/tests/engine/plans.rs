//! The plans of the statements that run while messages are set aside, and of those on schedules: each reads an index by all that it is
//! given, so that what one slot, key or schedule has costs the others nothing.

use crate::place::{Place, run};

/// A statement, and the columns that its search of the table has to use.
const PLANS: [(&str, &str); 12] = [
    (include_str!("../../sql/schedule/waiting.sql"), "fencepost_schedule USING INDEX fencepost_schedule_by_due"),
    (include_str!("../../sql/schedule/trim.sql"), "fencepost_fired USING PRIMARY KEY (schedule_id=? AND nominal_at<?)"),
    (
        include_str!("../../sql/aside/settled.sql"),
        "fencepost_aside_by_place (consumer_id=? AND partition=? AND place=?)",
    ),
    (
        include_str!("../../sql/aside/in_place.sql"),
        "fencepost_aside_by_place (consumer_id=? AND partition=? AND place=?)",
    ),
    (include_str!("../../sql/aside/any_in_partition.sql"), "fencepost_aside_by_place (consumer_id=? AND partition=?)"),
    (
        include_str!("../../sql/aside/ready.sql"),
        "fencepost_aside_by_place (consumer_id=? AND partition=? AND place=? AND due_at=?)",
    ),
    (
        include_str!("../../sql/aside/ripen.sql"),
        "fencepost_aside_by_place (consumer_id=? AND partition=? AND place=? AND due_at>? AND due_at<?)",
    ),
    (
        include_str!("../../sql/aside/next_due.sql"),
        "fencepost_aside_by_place (consumer_id=? AND partition=? AND place=?)",
    ),
    (include_str!("../../sql/aside/waits.sql"), "fencepost_aside_by_key (consumer_id=? AND key=? AND position<?)"),
    (include_str!("../../sql/aside/of_key.sql"), "fencepost_aside_by_key (consumer_id=? AND key=?)"),
    (include_str!("../../sql/aside/unpark.sql"), "fencepost_aside_by_key (consumer_id=? AND key=? AND position<?)"),
    (
        include_str!("../../sql/aside/park_behind.sql"),
        "fencepost_aside_by_key (consumer_id=? AND key=? AND position>? AND position<?)",
    ),
];

#[test]
fn statements_search_an_index() {
    run(async {
        let place = Place::new();
        drop(place.stage().await);
        let file = place.connect();
        for (sql, expected) in PLANS {
            let mut explain = file.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let mut rows = explain.raw_query();
            let mut plan = Vec::new();
            while let Some(row) = rows.next().unwrap() {
                plan.push(row.get::<_, String>(3).unwrap());
            }
            assert!(plan.iter().any(|step| step.contains(expected)), "{sql}\n{plan:#?}");
        }
    });
}
