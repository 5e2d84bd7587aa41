//! What a test does when what it needs is not installed: it fails where that is required, and is left out and counted elsewhere.

use std::fs::OpenOptions;
use std::io::Write;
use std::{env, thread};

use crate::Unavailable;

/// Set to `1` where everything must be there.
const REQUIRE: &str = "FENCEPOST_REQUIRE_POSTGRES";

/// Names the file that gets a line for each test that was left out; who runs the tests reads it.
const LEFT_OUT: &str = "FENCEPOST_LEFT_OUT";

/// What was asked for, or `None` for a test to return at once because it is not installed.
///
/// ```
/// use fencepost_test_support::{PgServer, skip_or_fail};
///
/// # async fn a_test() {
/// let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
/// # drop(server);
/// # }
/// ```
///
/// # Panics
/// When it failed, and, if `FENCEPOST_REQUIRE_POSTGRES` is `1`, when it is not installed and not optional.
#[track_caller]
pub fn skip_or_fail<T>(asked: Result<T, Unavailable>) -> Option<T> {
    match asked {
        Ok(there) => Some(there),
        Err(error) => match may_be_left_out(&error, env::var_os(REQUIRE).is_some_and(|value| value == "1")) {
            Some(what) => {
                leave_out(what);
                None
            }
            None => panic!("{error}"),
        },
    }
}

/// What is not there, where a test may be left out for it.
fn may_be_left_out(error: &Unavailable, is_required: bool) -> Option<&str> {
    match error {
        Unavailable::Missing(what) if !is_required => Some(what),
        Unavailable::Optional(what) => Some(what),
        Unavailable::Missing(_) | Unavailable::Failed(_) => None,
    }
}

#[allow(clippy::print_stderr, reason = "a test that is left out says so where it runs")]
fn leave_out(what: &str) {
    let test = thread::current();
    let test = test.name().unwrap_or("a test");
    eprintln!("LEFT OUT: {test}: {what} is not installed");
    if let Some(file) = env::var_os(LEFT_OUT) {
        let file = OpenOptions::new().create(true).append(true).open(file);
        // One write, so that lines of processes that write at once stay whole.
        let written = file.and_then(|mut file| file.write_all(format!("{what}\t{test}\n").as_bytes()));
        written.expect("the file that counts what is left out can be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_optional_is_left_out_where_everything_is_required() {
        let error = |make: fn(String) -> Unavailable| make("it".into());
        for (asked, elsewhere, where_required) in [
            (error(Unavailable::Missing), Some("it"), None),
            (error(Unavailable::Optional), Some("it"), Some("it")),
            (error(Unavailable::Failed), None, None),
        ] {
            assert_eq!(may_be_left_out(&asked, false), elsewhere, "{asked}");
            assert_eq!(may_be_left_out(&asked, true), where_required, "{asked}");
        }
    }
}
