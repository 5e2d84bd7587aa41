//! Records of JSON: one object on a line, whose key is a field with a string or a number.

use std::collections::HashMap;
use std::io::BufRead;

use fencepost::{Key, Kind, Result};
use serde_json::value::RawValue;

use super::lines::{Lines, Place};

const ALLOWED: &str = "each line holds one JSON object, such as {\"id\": 7}";

/// Checks that the last line is an object, and returns the key that stands in its field `key_field`.
///
/// A number is taken as it is written, so `7` and `7.0` are two keys and long ones lose no digit. A field that is absent or null
/// is no key.
pub fn key<R: BufRead>(lines: &Lines<R>, place: &Place, key_field: Option<&str>) -> Result<Option<Key>> {
    let refuse = |why: String, allowed| lines.refuse(place, Kind::InvalidInput, &why, allowed);
    let fields: HashMap<String, &RawValue> = serde_json::from_str(lines.text()).map_err(|error| {
        let said = error.to_string();
        // Its line is always 1: what it reads is one line of ours.
        let what = said.split(" at line ").next().unwrap_or(&said);
        let at = if error.column() > 0 { format!(" at column {}", error.column()) } else { String::new() };
        refuse(format!("not a JSON object: {what}{at}"), ALLOWED)
    })?;
    let Some(field) = key_field else { return Ok(None) };
    let Some(value) = fields.get(field).map(|value| value.get()) else { return Ok(None) };
    match value.as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'-' | b'0'..=b'9') => lines.key(place, value).map(Some),
        Some(b'"') => {
            let text: String = serde_json::from_str(value)
                .map_err(|error| refuse(format!("the field `{field}` is no text: {error}"), "a key is UTF-8 text"))?;
            lines.key(place, &text).map(Some)
        }
        _ => {
            let found = match value.as_bytes().first() {
                Some(b'{') => "an object",
                Some(b'[') => "an array",
                _ => "a boolean",
            };
            Err(refuse(
                format!("the key field `{field}` holds {found}"),
                "a key is a string or a number; null is no key",
            ))
        }
    }
}
