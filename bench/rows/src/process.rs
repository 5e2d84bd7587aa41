//! What this process has used so far, as the system counts it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Outcome;

/// Processor time of all threads.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Bytes that went to files; those to pipes and other wake-ups do not count.
pub(crate) fn written() -> Outcome<u64> {
    field("/proc/self/io", "write_bytes:")
}

/// The most memory that was resident at once, in MiB.
pub(crate) fn peak_memory() -> Outcome<f64> {
    Ok(field("/proc/self/status", "VmHWM:")? as f64 / 1024.0)
}

fn field(file: &str, name: &str) -> Outcome<u64> {
    let text = fs::read_to_string(file)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)).ok_or_else(|| format!("`{file}`: no {name}"))?;
    Ok(value.split_whitespace().next().unwrap_or_default().parse()?)
}

/// The size of all files in `folder`, in MiB.
pub(crate) fn size(folder: &Path) -> Outcome<f64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes as f64 / f64::from(1 << 20))
}
