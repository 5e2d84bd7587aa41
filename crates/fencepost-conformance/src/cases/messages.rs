//! Messages: what is sent is what is received, byte for byte.

use fencepost_core::{Headers, Kind, MAX_HEADERS, MAX_PAYLOAD, Message, MessageKind, NewMessage};

use crate::Harness;
use crate::stage::{Stage, refused, text};

/// Sends a message and returns it as it is received by a worker on another handle.
async fn there_and_back(h: &dyn Harness, stage: &Stage, message: NewMessage) -> Message {
    let id = stage.store.send(stage.queue(), message).await.unwrap();
    let other = stage.through(h.another().await);
    let received = other.drain(0, 1).await.remove(0).messages.remove(0);
    assert_eq!(received.id, id);
    received
}

/// Payloads come back byte for byte: empty, every byte value, not UTF-8.
pub async fn payloads_come_back_byte_for_byte(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    for payload in [vec![], every_byte, vec![0], vec![0xff, 0xfe, 0x80], "注文 🦀".into()] {
        let received = there_and_back(h, &stage, NewMessage::new(payload.clone()).unwrap()).await;
        assert_eq!(received.payload, payload);
        assert_eq!((received.key, received.kind.as_str(), received.headers), (None, "default", Headers::new()));
        assert_eq!((received.attempt, received.deliveries), (1, 1));
    }
}

/// The largest payload comes back whole, and a larger one is refused before it reaches storage.
pub async fn the_largest_payload_comes_back_whole(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let payload: Vec<u8> = (0..MAX_PAYLOAD).map(|n| (n % 251) as u8).collect();
    assert_eq!(payload.len(), 1 << 20);
    let received = there_and_back(h, &stage, NewMessage::new(payload.clone()).unwrap()).await;
    assert!(received.payload == payload);
    let error = refused(NewMessage::new(vec![0; MAX_PAYLOAD + 1]), Kind::LimitExceeded);
    assert_eq!(error.fact("limit"), Some("1048576"));
}

/// Key, kind, headers and the instant of sending come back as they were.
pub async fn key_kind_and_headers_come_back(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let key = stage.keys(0, 1).remove(0);
    let kind = MessageKind::new("order.paid").unwrap();
    let message = text("x")
        .key(key.clone())
        .kind(kind.clone())
        .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .and_then(|message| message.header("名", "値 \"quoted\" \\ \n \u{1} '"))
        .and_then(|message| message.header("empty", ""))
        .unwrap();
    let headers = message.headers().clone();
    let sent_at = stage.store.now().await.unwrap();
    let received = there_and_back(h, &stage, message).await;
    assert_eq!((received.key, received.kind, received.headers), (Some(key), kind, headers));
    assert_eq!(received.created_at, sent_at);
}

/// Headers of the largest size come back whole.
pub async fn the_largest_headers_come_back_whole(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let message = text("x").header("h", "v".repeat(MAX_HEADERS - 1)).unwrap();
    let headers = message.headers().clone();
    assert_eq!(there_and_back(h, &stage, message).await.headers, headers);
}
