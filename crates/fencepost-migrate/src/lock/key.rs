//! The number that stands for a lock's name on a server.

use std::fmt;

use fencepost_core::LockName;
use sha2::{Digest, Sha256};

/// Begins what is hashed, so that nobody else's names meet ours.
const NAMESPACE: &str = "fencepost migration lock: ";

/// The key of an advisory lock: the first 64 bits of SHA-256 over `fencepost migration lock: ` and the name, as a signed number. Any
/// program can make it; on PostgreSQL:
///
/// ```sql
/// select ('x' || left(encode(sha256(convert_to('fencepost migration lock: ' || $1, 'utf8')), 'hex'), 16))::bit(64)::bigint
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockKey(i64);

impl LockKey {
    /// The key of a name.
    pub fn of(name: &LockName) -> Self {
        Self::of_text(NAMESPACE, name.as_str())
    }

    /// The number under which the table of leases is made.
    #[cfg(feature = "postgres")]
    pub(super) fn of_table() -> Self {
        Self::of_text("fencepost migration leases", "")
    }

    fn of_text(namespace: &str, text: &str) -> Self {
        let hash = Sha256::new().chain_update(namespace).chain_update(text).finalize();
        let first = hash.iter().take(8).fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        Self(first.cast_signed())
    }

    /// The number.
    pub fn as_i64(self) -> i64 {
        self.0
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
