//! What a file's name says: `NNNN_name.sql`, `NNNN_name.down.sql`.

use super::Direction;
use crate::diagnostic::Diagnostic;

/// A name that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileName {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) direction: Direction,
}

/// The most digits that a number has: those of a time to the second, and some to spare.
const DIGITS: usize = 18;

impl FileName {
    /// Whether a file is meant to be a migration at all. Others may lie beside them.
    pub(crate) fn is_sql(file: &str) -> bool {
        file.len() > 4 && file.to_ascii_lowercase().ends_with(".sql")
    }

    /// Reads the last part of a path.
    pub(crate) fn read(file: &str, base: &str) -> Result<Self, Box<Diagnostic>> {
        let refused = |message: &str| {
            let hint = "a migration is named by a number, an underscore and a name: `0001_customer.sql`, its way back \
                `0001_customer.down.sql`";
            Box::new(Diagnostic::of_file("file_name", format!("{message}: `{}`", base.escape_debug()), file, hint))
        };
        let Some(stem) = base.strip_suffix(".sql") else { return Err(refused("the name does not end with `.sql`")) };
        let (stem, direction) = match stem.strip_suffix(".down") {
            Some(stem) => (stem, Direction::Down),
            None => (stem.strip_suffix(".up").unwrap_or(stem), Direction::Up),
        };
        let digits = stem.len() - stem.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = stem.split_at(digits);
        let Some(name) = rest.strip_prefix('_').filter(|name| !name.trim().is_empty() && digits > 0) else {
            return Err(refused("the name has no number and underscore before it"));
        };
        match number.parse() {
            Ok(number @ 1..) if digits <= DIGITS => Ok(Self { number, name: name.into(), direction }),
            _ => Err(refused(&format!("a number has 1 to {DIGITS} digits and is not 0"))),
        }
    }
}
