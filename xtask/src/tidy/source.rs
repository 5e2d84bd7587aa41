//! The rules for single files: how they begin, how long they are, and what must not stand in them.

/// A file longer than this is split.
const LONGEST: usize = 600;

/// Where links may lead. A host that only some people can reach does not belong into the project.
const HOSTS: [&str; 6] =
    ["github.com", "doc.rust-lang.org", "nexte.st", "sqlite.org", "www.postgresql.org", "www.w3.org"];

// Written in halves, so that this file passes its own rules.
const UNFINISHED: [&str; 4] =
    [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("db", "g!("), concat!("#[ig", "nore")];
const SLEEPS: [&str; 2] = [concat!("thread::", "sleep"), concat!("time::", "sleep")];
const TEXT_MATCH: &str = concat!("to_string()", ".contains(");

/// Whether the rules are for this file.
pub fn is_checked(file: &str) -> bool {
    let is_text = [".rs", ".sql", ".md", ".toml", ".sh", "Cargo.lock"].iter().any(|end| file.ends_with(end));
    is_text || file.starts_with(".ci/")
}

/// What is wrong in one file.
pub fn findings(file: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let is_rust = file.ends_with(".rs");
    if is_rust && !text.starts_with("//!") {
        found.push(format!("{file}:1: begin with a `//!` line: what the file owns, what it must not do"));
    }
    if file.ends_with(".sql") && !text.starts_with("--") {
        found.push(format!(
            "{file}:1: begin with a `--` line: purpose, rows returned, locks taken, invariant protected"
        ));
    }
    let lines = text.lines().count();
    if lines > LONGEST && !file.ends_with(".lock") {
        found.push(format!("{file}:{lines}: a file has at most {LONGEST} lines; split it"));
    }

    let tests_from = if is_rust { first_test_line(file, text) } else { usize::MAX };
    for (index, line) in text.lines().enumerate() {
        let mut complain = |what: &str| found.push(format!("{file}:{}: {what}", index + 1));
        if is_rust {
            let in_test = index >= tests_from;
            if let Some(word) = UNFINISHED.iter().find(|word| line.contains(*word)) {
                complain(&format!("`{word}` does not get in: finish it, or leave it out"));
            }
            if in_test && SLEEPS.iter().any(|sleep| line.contains(sleep)) && !has_reason(line) {
                complain(
                    "a test waits for a signal, not for time; if it must, end the line with `// TIME:` and the reason",
                );
            }
            if !in_test && line.contains(TEXT_MATCH) {
                complain("match errors by kind and code, never by text");
            }
        }
        if names_an_issue(line, is_rust) {
            complain("say why instead of naming an issue by its number");
        }
        if let Some(host) = hosts(line).find(|host| !is_known(host)) {
            complain(&format!(
                "`{host}` is no host that the project links to; leave it out, or add it to the list of hosts"
            ));
        }
    }
    found
}

/// The first line of test code, counted from 0: the whole file, a test module at its end, or nothing.
fn first_test_line(file: &str, text: &str) -> usize {
    if file.contains("/tests/") || file.ends_with("/tests.rs") || file.starts_with("crates/fencepost-conformance/") {
        return 0;
    }
    let lines: Vec<&str> = text.lines().collect();
    let module = lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1].ends_with('{'));
    module.unwrap_or(usize::MAX)
}

fn has_reason(line: &str) -> bool {
    line.split_once("// TIME:").is_some_and(|(_, reason)| !reason.trim().is_empty())
}

/// `#123` in prose: anywhere in a document, and in the comments of sources.
fn names_an_issue(line: &str, is_rust: bool) -> bool {
    let prose = if is_rust { line.split_once("//").map_or("", |(_, comment)| comment) } else { line };
    followed_by_digit(prose, " #") || followed_by_digit(prose, "(#")
}

fn followed_by_digit(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| line[at + word.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

/// The hosts of the links in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    let links =
        line.match_indices("://").filter(|(at, _)| line[..*at].ends_with("http") || line[..*at].ends_with("https"));
    links.map(|(at, mark)| {
        let rest = &line[at + mark.len()..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-')).unwrap_or(rest.len());
        &rest[..end]
    })
}

/// Listed, or a name that leads nowhere, as examples have it.
fn is_known(host: &str) -> bool {
    let is_example = !host.contains('.') || host.starts_with("127.") || host.ends_with("example.com");
    is_example || HOSTS.contains(&host)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "crates/a/tests/b.rs";
    const SOURCE: &str = "crates/a/src/b.rs";

    fn count(file: &str, line: &str) -> usize {
        findings(file, &format!("//! A file.\n{line}\n")).len()
    }

    #[test]
    fn sources_and_statements_begin_with_a_header() {
        assert_eq!(findings(TEST, "use std::fmt;\n").len(), 1);
        assert_eq!(findings("crates/a/sql/b.sql", "SELECT 1;\n").len(), 1);
        assert_eq!(findings("crates/a/sql/b.sql", "-- One.\nSELECT 1;\n").len(), 0);
    }

    #[test]
    fn a_file_ends_at_600_lines() {
        assert_eq!(findings(SOURCE, &"//! A line.\n".repeat(600)).len(), 0);
        assert_eq!(findings(SOURCE, &"//! A line.\n".repeat(601)).len(), 1);
    }

    #[test]
    fn what_is_not_finished_is_found() {
        for word in UNFINISHED {
            assert_eq!(count(SOURCE, word), 1, "{word}");
        }
    }

    #[test]
    fn tests_do_not_sleep_without_a_reason() {
        for sleep in SLEEPS {
            assert_eq!(count(TEST, sleep), 1);
            assert_eq!(count("crates/fencepost-conformance/src/b.rs", sleep), 1);
            assert_eq!(count(SOURCE, sleep), 0);
            assert_eq!(count(SOURCE, &format!("#[cfg(test)]\nmod tests {{\n{sleep}")), 1);
            assert_eq!(count(TEST, &format!("{sleep} // TIME:")), 1);
            assert_eq!(count(TEST, &format!("{sleep} // TIME: the process is a real one")), 0);
        }
    }

    #[test]
    fn errors_are_not_matched_by_text_outside_tests() {
        assert_eq!(count(SOURCE, TEXT_MATCH), 1);
        assert_eq!(count(TEST, TEXT_MATCH), 0);
    }

    #[test]
    fn what_is_outside_the_project_is_found() {
        assert_eq!(count(SOURCE, concat!("// see #", "12")), 1);
        assert_eq!(count("docs/a.md", concat!("https://", "mirror.internal/x")), 1);
        for line in
            ["https://github.com/rust-lang", "http://localhost:80", "postgres://a.b/c", "#[derive(Debug)] // # 1"]
        {
            assert_eq!(count(SOURCE, line), 0, "{line}");
        }
    }
}
