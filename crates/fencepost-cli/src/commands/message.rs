//! How a message is shown: an object with the fields of the SQL type `message` for programs, a line for people.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fencepost::{BatchId, Headers, Message};
use serde_json::{Value, json};

use crate::text;

/// The most characters of a payload that a line shows.
const SHOWN: usize = 100;

/// A message for programs, as one of a batch if it is.
pub fn json(message: &Message, batch: Option<BatchId>) -> Value {
    let mut object = json!({
        "batch_id": batch.map(BatchId::get),
        "id": message.id.get(),
        "position": message.position.to_string(),
        "key": message.key.as_ref().map(|key| key.as_str()),
        "kind": message.kind.as_str(),
    });
    extend_with_content(&mut object, &message.payload, &message.headers);
    object["attempt"] = message.attempt.into();
    object["deliveries"] = message.deliveries.into();
    object["created_at"] = text::rfc3339(message.created_at).into();
    object
}

/// Adds payload and headers to an object.
pub fn extend_with_content(object: &mut Value, payload: &[u8], headers: &Headers) {
    extend_with_payload(object, payload);
    object["headers"] = headers.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
}

/// Adds a payload to an object: as text when it is UTF-8, else as `payload_base64`.
pub fn extend_with_payload(object: &mut Value, payload: &[u8]) {
    match std::str::from_utf8(payload) {
        Ok(text) => object["payload"] = text.into(),
        Err(_) => object["payload_base64"] = BASE64_STANDARD.encode(payload).into(),
    }
}

/// A message for people, on one line.
pub fn line(message: &Message) -> String {
    let key = message.key.as_ref().map_or("-".into(), |key| text::shown(key.as_str()));
    let (id, at, kind) = (message.id, text::rfc3339(message.created_at), text::shown(message.kind.as_str()));
    format!("{id:>6}  {at}  {key}  {kind}  {}", payload_excerpt(&message.payload))
}

/// What fits a line of a payload; of one that is no text, how large it is.
pub fn payload_excerpt(payload: &[u8]) -> String {
    match std::str::from_utf8(payload) {
        Ok(payload) => text::excerpt(payload, SHOWN),
        Err(_) => format!("({}, not text)", text::counted(payload.len() as u64, "byte")),
    }
}

#[cfg(test)]
mod tests {
    use fencepost::{Key, MessageId, MessageKind, Position, Timestamp};

    use super::*;

    fn message(payload: &[u8]) -> Message {
        Message {
            id: MessageId::new(7).unwrap(),
            position: Position::from_storage(9),
            key: Some(Key::new("customer-7").unwrap()),
            kind: MessageKind::default(),
            payload: payload.into(),
            headers: Headers::from([("source".to_owned(), "shop".to_owned())]),
            attempt: 2,
            deliveries: 3,
            created_at: Timestamp::from_micros(1_767_225_600_000_001),
        }
    }

    #[test]
    fn fields_are_those_of_the_type_message() {
        let expected = r#"{"batch_id":5,"id":7,"position":"p9","key":"customer-7","kind":"default","payload":"paid","headers":{"source":"shop"},"attempt":2,"deliveries":3,"created_at":"2026-01-01T00:00:00.000001Z"}"#;
        assert_eq!(json(&message(b"paid"), BatchId::new(5).ok()).to_string(), expected);
        let object = json(&message(b"\xff\x00"), None);
        assert_eq!((&object["batch_id"], &object["payload_base64"]), (&Value::Null, &"/wA=".into()));
        assert!(object.get("payload").is_none());
    }

    #[test]
    fn a_line_has_no_control_characters_and_one_line() {
        let shown = line(&message(b"two\nlines\x1b[2J"));
        assert_eq!(shown, "     7  2026-01-01T00:00:00.000001Z  customer-7  default  two\\nlines\\u{1b}[2J");
        assert!(line(&message(b"\xff\x00")).ends_with("(2 bytes, not text)"));
        let reversed = Message { key: Some(Key::new("a\u{202e}b").unwrap()), ..message(b"") };
        assert!(line(&reversed).contains("  a\\u{202e}b  default"), "{}", line(&reversed));
    }
}
