//! Who runs migrations, for people who read the ledger. A label, not an identity.

/// `user@host:process` of this process.
pub(crate) fn this_process() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = variable("USER").or_else(|| variable("LOGNAME")).unwrap_or_else(|| "unknown".into());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = kernel.or_else(|| variable("HOSTNAME")).unwrap_or_else(|| "unknown".into());
    format!("{user}@{}:{}", host.trim(), std::process::id())
}
