//! The rules of `docs/adr`: decisions are numbered without gaps, and each says how it stands.

const FOLDER: &str = "docs/adr/";

/// What is wrong with the decisions among `files`.
pub fn findings(files: &[String], read: impl Fn(&str) -> String) -> Vec<String> {
    let mut found = Vec::new();
    let mut expected = 1;
    let mut names: Vec<&str> = files.iter().filter_map(|file| file.strip_prefix(FOLDER)).collect();
    names.sort_unstable();
    for name in names {
        let Some(number) = number(name) else {
            found.push(format!("{FOLDER}{name}: a decision is named `NNNN-title-in-words.md`"));
            continue;
        };
        if number != expected {
            found.push(format!(
                "{FOLDER}{name}: the next decision is number {expected:04}; none is left out or taken twice"
            ));
        }
        expected = number + 1;
        let file = format!("{FOLDER}{name}");
        if !read(&file)
            .lines()
            .any(|line| line.strip_prefix("Status: ").is_some_and(|status| !status.trim().is_empty()))
        {
            found.push(format!(
                "{file}: say how the decision stands, in a line `Status: accepted` or `Status: superseded by NNNN`"
            ));
        }
    }
    found
}

fn number(name: &str) -> Option<u32> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let is_title = !title.is_empty() && title.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if number.len() == 4 && is_title { number.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(names: &[&str], text: &str) -> Vec<String> {
        let files: Vec<String> = names.iter().map(|name| format!("{FOLDER}{name}")).collect();
        findings(&files, |_| text.to_owned())
    }

    #[test]
    fn no_decisions_and_numbered_decisions_are_fine() {
        assert_eq!(complaints(&[], ""), Vec::<String>::new());
        assert_eq!(complaints(&["0001-a.md", "0002-b-2.md"], "# A\n\nStatus: accepted\n"), Vec::<String>::new());
    }

    #[test]
    fn gaps_doubles_and_other_names_are_found() {
        for names in [&["0002-b.md"][..], &["0001-a.md", "0003-c.md"], &["0001-a.md", "0001-b.md"], &["notes.md"]] {
            assert_eq!(complaints(names, "Status: accepted").len(), 1, "{names:?}");
        }
    }

    #[test]
    fn a_decision_without_a_status_is_found() {
        assert_eq!(complaints(&["0001-a.md"], "# A\nStatus: \n").len(), 1);
    }
}
