//! The options of a file: comments of the form `-- fencepost: NAME [VALUE]` before its first statement.

use std::ops::Range;
use std::time::Duration;

use super::MigrationOptions;
use crate::diagnostic::Diagnostic;
use crate::sql::{Token, TokenKind};

const KNOWN: &str = "known are `no-transaction`, `out-of-order` and `lock-timeout` with a time from 1ms to 1h";

/// How long a statement may be told to wait for a lock.
const LOCK_TIMEOUT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(3_600));

/// Reads all options, and what is wrong with them.
pub(super) fn read(file: &str, text: &str, tokens: &[Token]) -> (MigrationOptions, Vec<Diagnostic>) {
    let (mut options, mut problems) = (MigrationOptions::default(), Vec::new());
    let mut before_statements = true;
    for token in tokens {
        match token.kind {
            TokenKind::Space | TokenKind::Semicolon => {}
            TokenKind::Comment => {
                let Some(option) = wanted(text, &token.span) else { continue };
                let place = (file, text, token.span.clone());
                if !before_statements {
                    let message = "an option stands before the first statement";
                    problems.push(Diagnostic::at(
                        "option_misplaced",
                        message,
                        place,
                        "move it to the beginning of the file",
                    ));
                } else if let Err(message) = set(&mut options, option) {
                    problems.push(Diagnostic::at("option_unknown", message, place, KNOWN));
                }
            }
            _ => before_statements = false,
        }
    }
    (options, problems)
}

/// What a comment asks for, when it is addressed to us.
fn wanted<'t>(text: &'t str, span: &Range<usize>) -> Option<&'t str> {
    text[span.clone()].strip_prefix("--")?.trim().strip_prefix("fencepost:").map(str::trim)
}

fn set(options: &mut MigrationOptions, option: &str) -> Result<(), String> {
    let (name, value) =
        option.split_once(char::is_whitespace).map_or((option, ""), |(name, value)| (name, value.trim()));
    match (name, value) {
        ("no-transaction", "") => options.no_transaction = true,
        ("out-of-order", "") => options.out_of_order = true,
        ("no-transaction" | "out-of-order", value) => {
            return Err(format!("the option `{name}` takes no value: `{value}`"));
        }
        ("lock-timeout", value) => {
            let (least, most) = LOCK_TIMEOUT;
            let time = humantime::parse_duration(value).ok().filter(|time| (least..=most).contains(time));
            options.lock_timeout = Some(time.ok_or_else(|| format!("this is no time to wait for a lock: `{value}`"))?);
        }
        _ => return Err(format!("there is no option `{}`", name.escape_debug())),
    }
    Ok(())
}
