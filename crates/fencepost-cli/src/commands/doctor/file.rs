//! What is wrong with what the data is kept in.

use std::path::PathBuf;

use fencepost::sqlite::{FileCheck, LOG_BYTES};
use fencepost::{Clock, HostClock, Result, Store, Timestamp};

use super::Finding;
use crate::text;

/// With less than this left, a burst of messages fills the disk.
const FREE: u64 = 256 << 20;

/// Examines the file, if the store is one.
pub async fn examine(store: &Store) -> Result<Vec<Finding>> {
    match store.as_sqlite() {
        Some(sqlite) => {
            let findings = judge(&sqlite.check().await?);
            Ok(findings.into_iter().chain(clock(store.now().await?, HostClock.wall())).collect())
        }
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

/// The engine's clock never runs backwards. When the host's was set back, it goes on from what the store recorded.
fn clock(engine: Timestamp, host: Timestamp) -> Option<Finding> {
    /// What the clocks may differ by while they are read.
    const APART: std::time::Duration = std::time::Duration::from_secs(1);
    let behind = engine.since(host);
    (behind > APART).then(|| {
        Finding::warning(
            "clock_behind",
            format!("the clock of this host is {} behind what the store has recorded", text::duration(behind)),
            "set the clock right; until it has caught up, times of the store go on from the recorded one",
        )
    })
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
    use crate::commands::doctor::Severity;

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

    #[test]
    fn a_clock_that_was_set_back_is_found() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        assert!(clock(at(100), at(100)).is_none() && clock(at(100), at(200)).is_none());
        let finding = clock(at(3_700), at(100)).unwrap();
        assert_eq!((finding.code, finding.severity), ("clock_behind", Severity::Warning));
        assert!(finding.what.contains("60 min behind"), "{}", finding.what);
    }
}
