//! The suite's own list of cases. The sources are the list: a case cannot be written and forgotten.

use std::collections::BTreeSet;

/// One case of the suite.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Its module in [`crate::cases`].
    pub module: &'static str,
    /// Its function.
    pub name: &'static str,
    /// What it says of itself; one from the scenarios begins with its id.
    pub summary: &'static str,
}

/// Every case, in the order of the sources.
pub fn catalog() -> Vec<Case> {
    crate::cases::SOURCES.iter().flat_map(|(module, source)| cases_of(module, source)).collect()
}

fn cases_of(module: &'static str, source: &'static str) -> Vec<Case> {
    let mut summary = "";
    let mut cases = Vec::new();
    for line in source.lines() {
        if let Some(doc) = line.strip_prefix("/// ") {
            summary = if summary.is_empty() { doc } else { summary };
        } else {
            if let Some(name) = line.strip_prefix("pub async fn ").and_then(|rest| rest.split('(').next()) {
                cases.push(Case { module, name, summary });
            }
            summary = "";
        }
    }
    cases
}

/// Checks an engine's committed list against the suite's: every case once, and no other.
///
/// # Panics
/// When they differ, with what is missing and what is unknown or there twice.
pub fn compare(listed: &[(&'static str, &'static str)]) {
    let suite: BTreeSet<_> = catalog().into_iter().map(|case| (case.module, case.name)).collect();
    let list: BTreeSet<_> = listed.iter().copied().collect();
    let missing: Vec<_> = suite.difference(&list).collect();
    let unknown: Vec<_> = list.difference(&suite).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "the list lacks {missing:?} and has the unknown {unknown:?}");
    assert_eq!(list.len(), listed.len(), "the list has a case twice");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_says_what_it_requires_and_scenarios_are_named_by_their_id() {
        let cases = catalog();
        assert!(cases.len() > 80, "only {} cases were found in the sources", cases.len());
        for case in &cases {
            assert!(!case.summary.is_empty(), "{case:?} has no summary");
            let id = case.summary.split_once(": ").map_or("", |(id, _)| id);
            let is_scenario = id.len() == 3 && id[1..].chars().all(|digit| digit.is_ascii_digit());
            if is_scenario {
                assert!(
                    case.name.starts_with(&format!("{}_", id.to_lowercase())),
                    "{case:?} is named for another scenario"
                );
            }
        }
    }

    #[test]
    fn names_are_unique_and_every_module_has_cases() {
        let cases = catalog();
        let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        let modules: BTreeSet<_> = cases.iter().map(|case| case.module).collect();
        assert_eq!(modules.len(), crate::cases::SOURCES.len());
    }

    #[test]
    #[should_panic(expected = "the list lacks")]
    fn a_list_that_lacks_a_case_is_red() {
        let mut listed: Vec<_> = catalog().into_iter().map(|case| (case.module, case.name)).collect();
        listed.pop();
        compare(&listed);
    }

    #[test]
    #[should_panic(expected = "unknown")]
    fn a_list_with_an_unknown_case_is_red() {
        let mut listed: Vec<_> = catalog().into_iter().map(|case| (case.module, case.name)).collect();
        listed.push(("slots", "gone"));
        compare(&listed);
    }
}
