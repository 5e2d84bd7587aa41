//! `cargo xtask deps`: which crate of the workspace may depend on which. The table is the rule; a new crate gets a row.

use serde_json::Value;

use crate::{Result, workspace};

/// What one crate may depend on within the workspace.
struct Rule {
    package: &'static str,
    /// Everywhere.
    uses: &'static [&'static str],
    /// In its tests, beside `uses`.
    tests_with: &'static [&'static str],
    why: &'static str,
}

const RULES: [Rule; 15] = [
    Rule {
        package: "fencepost-core",
        uses: &[],
        tests_with: &[],
        why: "the contract depends on no other crate of the workspace",
    },
    Rule {
        package: "fencepost-conformance",
        uses: &["fencepost-core"],
        tests_with: &[],
        why: "the suite knows the contract and no engine",
    },
    Rule {
        package: "fencepost-test-support",
        uses: &[],
        tests_with: &[],
        why: "what tests need from outside knows nothing of the project",
    },
    Rule {
        package: "fencepost-connect",
        uses: &["fencepost-core"],
        tests_with: &[],
        why: "how connections are made is the same for the engine and the migrations, and knows neither",
    },
    Rule {
        package: "fencepost-migrate",
        uses: &["fencepost-core", "fencepost-connect"],
        tests_with: &["fencepost-test-support"],
        why: "migrations are for databases with and without a store; only their tests know servers",
    },
    Rule {
        package: "fencepost-mem",
        uses: &["fencepost-core"],
        tests_with: &["fencepost-conformance"],
        why: "an engine knows the contract and no other engine; only its tests know the suite",
    },
    Rule {
        package: "fencepost-sqlite",
        uses: &["fencepost-core", "fencepost-migrate"],
        tests_with: &["fencepost-conformance", "fencepost-mem"],
        why: "an engine knows the contract and no other engine; only its tests know the suite and the model",
    },
    Rule {
        package: "fencepost-postgres",
        uses: &["fencepost-core", "fencepost-connect", "fencepost-migrate"],
        tests_with: &["fencepost-conformance", "fencepost-mem", "fencepost-test-support"],
        why: "an engine knows the contract and no other engine; only its tests know the suite, the model and servers",
    },
    Rule {
        package: "fencepost-schedule",
        uses: &["fencepost-core"],
        tests_with: &["fencepost-test-support"],
        why: "what a spec means is the same for every engine; its tests draw from a seed",
    },
    Rule {
        package: "fencepost-runtime",
        uses: &["fencepost-core", "fencepost-schedule"],
        tests_with: &["fencepost-mem", "fencepost-conformance"],
        why: "the loops know the contract, what specs mean, and no engine; their tests run over the model",
    },
    Rule {
        package: "fencepost",
        uses: &[
            "fencepost-core",
            "fencepost-mem",
            "fencepost-migrate",
            "fencepost-postgres",
            "fencepost-runtime",
            "fencepost-schedule",
            "fencepost-sqlite",
        ],
        tests_with: &["fencepost-conformance", "fencepost-test-support"],
        why: "the facade is the one place that knows every engine, and ships no suite",
    },
    Rule {
        package: "fencepost-cli",
        uses: &["fencepost"],
        tests_with: &["fencepost-test-support"],
        why: "the program is a user of the facade like any other; its tests start servers",
    },
    Rule {
        package: "fencepost-bench-rows",
        uses: &[],
        tests_with: &[],
        why: "what is measured knows no store, so that the programs of peers can have it",
    },
    Rule {
        package: "fencepost-bench",
        uses: &["fencepost", "fencepost-bench-rows", "fencepost-test-support"],
        tests_with: &[],
        why: "what is measured is what users get, the facade, on a server started for it",
    },
    Rule { package: "xtask", uses: &[], tests_with: &[], why: "the tasks build fast and before everything else" },
];

pub fn run() -> Result {
    workspace::report("dependencies between crates", &violations(&workspace::metadata()?))
}

fn violations(metadata: &Value) -> Vec<String> {
    let packages: Vec<&Value> = metadata["packages"].as_array().into_iter().flatten().collect();
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();

    let mut found: Vec<String> = RULES
        .iter()
        .filter(|rule| !names.contains(&rule.package))
        .map(|rule| format!("{} has a row in the table of dependencies but is no crate of the workspace", rule.package))
        .collect();
    for (package, name) in packages.iter().zip(&names) {
        let Some(rule) = RULES.iter().find(|rule| rule.package == *name) else {
            found.push(format!("{name} has no row in the table of dependencies"));
            continue;
        };
        let edges = package["dependencies"].as_array().into_iter().flatten();
        found.extend(edges.filter_map(|edge| rule.violation(edge, &names)));
    }
    found
}

impl Rule {
    fn violation(&self, edge: &Value, members: &[&str]) -> Option<String> {
        let to = edge["name"].as_str()?;
        let is_dev = edge["kind"] == "dev";
        let allowed = !members.contains(&to) || self.uses.contains(&to) || (is_dev && self.tests_with.contains(&to));
        let kind = if is_dev { "dev-dependency" } else { "dependency" };
        (!allowed).then(|| format!("{} → {to} ({kind}): {}", self.package, self.why))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The workspace with nothing but the given edges.
    fn workspace_with(edges: &[(&str, &str, Option<&str>)]) -> Value {
        let package = |rule: &Rule| {
            let from_here = edges.iter().filter(|(from, ..)| *from == rule.package);
            let dependencies: Vec<Value> = from_here.map(|(_, to, kind)| json!({ "name": to, "kind": kind })).collect();
            json!({ "name": rule.package, "dependencies": dependencies })
        };
        json!({ "packages": RULES.iter().map(package).collect::<Vec<_>>() })
    }

    #[test]
    fn allowed_edges_and_crates_from_outside_pass() {
        let fine = workspace_with(&[
            ("fencepost-mem", "fencepost-core", None),
            ("fencepost-mem", "fencepost-conformance", Some("dev")),
            ("fencepost-runtime", "fencepost-mem", Some("dev")),
            ("fencepost-core", "tokio", None),
        ]);
        assert_eq!(violations(&fine), Vec::<String>::new());
    }

    #[test]
    fn a_violation_names_the_edge_and_the_rule() {
        for (from, to, kind, rule) in [
            ("fencepost-core", "fencepost-mem", Some("dev"), "no other crate"),
            ("fencepost-sqlite", "fencepost-mem", None, "no other engine"),
            ("fencepost-mem", "fencepost-sqlite", Some("dev"), "no other engine"),
            ("fencepost-sqlite", "fencepost-conformance", None, "only its tests know the suite"),
            ("fencepost-mem", "fencepost-conformance", Some("build"), "only its tests know the suite"),
            ("fencepost-runtime", "fencepost-mem", None, "no engine"),
            ("fencepost-cli", "fencepost-core", None, "user of the facade"),
        ] {
            let found = violations(&workspace_with(&[(from, to, kind)]));
            let [violation] = found.as_slice() else { panic!("{from} → {to}: {found:?}") };
            assert!(violation.starts_with(&format!("{from} → {to} (")), "{violation}");
            assert!(violation.contains(rule), "{violation}");
        }
    }

    #[test]
    fn every_crate_has_a_row_and_every_row_a_crate() {
        let mut metadata = workspace_with(&[]);
        metadata["packages"][0]["name"] = "fencepost-new".into();
        assert_eq!(
            violations(&metadata),
            [
                "fencepost-core has a row in the table of dependencies but is no crate of the workspace",
                "fencepost-new has no row in the table of dependencies",
            ]
        );
    }
}
