//! What is wrong with what the data is kept in.

use std::path::PathBuf;

use fencepost::sqlite::{FileCheck, LOG_BYTES};
use fencepost::{Result, Store};

use super::Finding;
use crate::text;

/// With less than this left, a burst of messages fills the disk.
const FREE: u64 = 256 << 20;

/// Examines the file, if the store is one.
pub async fn examine(store: &Store) -> Result<Vec<Finding>> {
    match store.as_sqlite() {
        Some(sqlite) => Ok(judge(&sqlite.check().await?)),
        None => Ok(Vec::new()),
    }
}

fn judge(FileCheck { problems, log_bytes, free_bytes, leftovers: others, .. }: &FileCheck) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let [first, others @ ..] = &**problems {
        let more =
            if others.is_empty() { String::new() } else { format!(", and {} more", text::count(others.len() as u64)) };
        findings.push(Finding::error(
            "damaged",
            format!("the store is damaged: {first}{more}"),
            "stop its workers, keep a copy of the file as it is, and restore a backup",
        ));
    }
    if *log_bytes > LOG_BYTES {
        findings.push(Finding::warning(
            "log_large",
            format!("the write-ahead log has {} MiB", log_bytes >> 20),
            "a long read, or a process that is stopped, keeps it from being cut back: end it",
        ));
    }
    if let Some(free) = free_bytes.filter(|free| *free < FREE) {
        findings.push(Finding::warning(
            "disk_low",
            format!("the file system of the store has {} MiB left", free >> 20),
            "make room: when it is full, nothing can be sent, claimed or acked",
        ));
    }
    findings.extend(leftovers(others));
    findings
}

/// Files that belong to no store that is there.
pub fn leftovers(files: &[PathBuf]) -> Vec<Finding> {
    let found = |file: &PathBuf| {
        Finding::error(
            "leftover",
            format!("`{}` lies beside the place of the store and is not of it", file.display()),
            "move it away, with the file that it belongs to, before a store is made or opened there",
        )
    };
    files.iter().map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_of_the_file_is_a_finding() {
        let fine = FileCheck { problems: vec![], bytes: 4_096, log_bytes: 0, free_bytes: None, leftovers: vec![] };
        assert!(judge(&fine).is_empty());
        let bad = FileCheck {
            problems: vec!["row 1 missing from index".into(), "and so on".into()],
            log_bytes: LOG_BYTES + 1,
            free_bytes: Some(FREE - 1),
            leftovers: vec!["x.db-journal".into()],
            ..fine
        };
        let codes: Vec<_> = judge(&bad).iter().map(|finding| finding.code).collect();
        assert_eq!(codes, ["damaged", "log_large", "disk_low", "leftover"]);
    }
}
