//! Every way in which files and ledger can stand to each other.

use fencepost_core::{Kind, Timestamp};

use super::*;
use crate::ledger::{FailedAt, Record};
use crate::sql::Dialect;

/// Three files; the second is run statement by statement.
fn files(of: &[(&str, &str)]) -> Migrations {
    Migrations::of(of.iter().copied(), Dialect::Postgres).unwrap()
}

const A: (&str, &str) = ("1_a.sql", "select 1;");
const B: (&str, &str) = ("2_b.sql", "-- fencepost: no-transaction\nselect 1;\nselect 2;\nselect 3;");
const C: (&str, &str) = ("3_c.sql", "select 3;");

/// A row for the file of that number, as it was written when `done` of its statements were done.
fn row(migrations: &Migrations, number: u64, state: State, done: usize) -> Entry {
    let migration = migrations.up_of(number).unwrap();
    let record = Record::new(migration, state);
    let done = if state.is_done() { record.done } else { done };
    let failed =
        (state == State::Failed).then(|| FailedAt { statement: done + 1, sqlstate: None, message: String::new() });
    Entry {
        number,
        name: migration.name.clone(),
        state,
        hashes: migration.hashes.clone(),
        statements: migration.statements.len(),
        done,
        done_hash: migration.done_hash(done),
        failed,
        role: String::new(),
        runner: String::new(),
        started_at: Timestamp::from_micros(0),
        finished_at: None,
        milliseconds: None,
        tool: String::new(),
    }
}

/// What is run: number, statements done, why.
fn steps(plan: &Plan<'_>) -> Vec<(u64, usize, Because)> {
    plan.steps.iter().map(|step| (step.migration.number, step.done, step.because)).collect()
}

/// What was found: code, number, whether it forbids to run.
fn findings(plan: &Plan<'_>) -> Vec<(&'static str, u64, bool)> {
    plan.findings.iter().map(|finding| (finding.diagnostic().code, finding.number(), finding.is_refusal())).collect()
}

#[test]
fn what_is_missing_is_run_in_order_and_what_is_begun_is_gone_on_with() {
    use Because::{Failed, Interrupted, Pending};
    use State::{Applied, Baselined, Imported, Running};
    let all = files(&[A, B, C]);
    let row = |number, state, done| row(&all, number, state, done);
    for (entries, wanted) in [
        (vec![], vec![(1, 0, Pending), (2, 0, Pending), (3, 0, Pending)]),
        (vec![row(1, Applied, 0)], vec![(2, 0, Pending), (3, 0, Pending)]),
        (vec![row(1, Baselined, 0), row(2, Imported, 0)], vec![(3, 0, Pending)]),
        (vec![row(1, State::Failed, 0)], vec![(1, 0, Failed), (2, 0, Pending), (3, 0, Pending)]),
        (vec![row(1, Applied, 0), row(2, State::Failed, 2)], vec![(2, 2, Failed), (3, 0, Pending)]),
        (vec![row(1, Applied, 0), row(2, Running, 1)], vec![(2, 1, Interrupted), (3, 0, Pending)]),
        (vec![row(1, Applied, 0), row(2, Applied, 0), row(3, Applied, 0)], vec![]),
    ] {
        let plan = Plan::of(&all, &entries);
        assert_eq!((steps(&plan), findings(&plan)), (wanted, vec![]), "{entries:?}");
        plan.judge().unwrap();
    }
}

#[test]
fn an_edit_is_noted_or_refused_by_what_it_changes() {
    let before = files(&[A, B]);
    let entries = [row(&before, 1, State::Applied, 0), row(&before, 2, State::Applied, 0)];
    for (text, is_refusal) in [("select  1;", false), ("select 1; -- one", false), ("select 11;", true)] {
        let after = files(&[("1_a.sql", text), B]);
        let plan = Plan::of(&after, &entries);
        assert_eq!((steps(&plan), findings(&plan)), (vec![], vec![("migration_edited", 1, is_refusal)]), "{text}");
        assert_eq!(plan.judge().is_err(), is_refusal);
    }
}

#[test]
fn what_failed_may_be_edited_where_nothing_is_done() {
    let before = files(&[A, B]);
    let entries = [row(&before, 1, State::Failed, 0), row(&before, 2, State::Failed, 2)];
    let text = |second: &str, third: &str| format!("-- fencepost: no-transaction\n\nselect 1;\n{second};\n{third};");
    for (a, b, wanted) in [
        ("select 7;", text("select 2", "select 9"), vec![]),
        ("select 1;", text("select 8", "select 3"), vec![("migration_edited", 2, true)]),
        // Fewer statements than are done.
        ("select 1;", "select 1;".into(), vec![("migration_edited", 2, true)]),
    ] {
        let after = files(&[("1_a.sql", a), ("2_b.sql", &b)]);
        assert_eq!(findings(&Plan::of(&after, &entries)), wanted, "{a} {b}");
    }
}

#[test]
fn files_that_are_missing_late_or_outrun_are_told_apart() {
    let all = files(&[A, B, C]);
    let applied = [row(&all, 1, State::Applied, 0), row(&all, 2, State::Applied, 0), row(&all, 3, State::Applied, 0)];
    let late = ("2_b.sql", "-- fencepost: out-of-order\nselect 2;");
    let dated = |name: &'static str| (name, "select 1;");
    let (first, second, third) = (dated("20260101_a.sql"), dated("20260102_b.sql"), dated("20260103_c.sql"));
    let dates = files(&[first, second, third]);
    let row_of = |number| row(&dates, number, State::Applied, 0);

    let plan_files = files(&[A, B]);
    assert_eq!(findings(&Plan::of(&plan_files, &applied)), [("ahead", 3, true)]);
    let gone = files(&[first, third]);
    let entries = [row_of(20_260_101), row_of(20_260_102), row_of(20_260_103)];
    assert_eq!(findings(&Plan::of(&gone, &entries)), [("file_missing", 20_260_102, true)]);
    let baselined = [row_of(20_260_101), Entry { state: State::Baselined, ..row_of(20_260_102) }, row_of(20_260_103)];
    assert_eq!(findings(&Plan::of(&gone, &baselined)), []);
    let without = [row_of(20_260_101), row_of(20_260_103)];
    assert_eq!(findings(&Plan::of(&dates, &without)), [("out_of_order", 20_260_102, true)]);
    let may = files(&[A, late, C]);
    let plan = Plan::of(&may, &[applied[0].clone(), applied[2].clone()]);
    assert_eq!((steps(&plan), findings(&plan)), (vec![(2, 0, Because::Pending)], vec![]));
}

#[test]
fn every_refusal_is_told_at_once_with_the_code_of_the_first() {
    let before = files(&[A, B, C]);
    let entries = [row(&before, 1, State::Applied, 0), row(&before, 3, State::Applied, 0)];
    let after = files(&[("1_a.sql", "select 2;"), B]);
    let error = Plan::of(&after, &entries).judge().unwrap_err();
    assert_eq!((error.kind(), error.code(), error.fact("problems")), (Kind::Schema, "migration_edited", Some("3")));
    assert!(error.hint().is_some());
}

#[test]
fn a_plan_ends_at_the_number_of_a_file() {
    let all = files(&[A, B, C]);
    assert_eq!(Plan::of(&all, &[]).up_to(&all, 2).unwrap().steps.len(), 2);
    assert_eq!(Plan::of(&all, &[]).up_to(&all, 4).unwrap_err().kind(), Kind::InvalidInput);
}
