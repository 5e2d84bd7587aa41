//! What a command says of single messages of its batch: lines of JSON on its standard output, among whatever else it prints.

use std::collections::{HashMap, HashSet};

use fencepost::{Batch, MessageId};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::text;

/// The longest line that is held; of a longer one the rest is a line of its own.
const LINE: usize = 64 << 10;

/// How much of a line that cannot be read is shown.
const SHOWN: usize = 120;

/// What it says of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is done.
    Ok,
    /// It failed, and comes again.
    Retry(Option<String>),
    /// It can never succeed.
    Dead(Option<String>),
}

/// What came of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// It told of a message.
    Told,
    /// It is the command's own output.
    Output,
    /// It was to tell of a message, and cannot be read: why.
    Broken(String),
}

/// The lines, as they come.
#[derive(Debug)]
pub struct Results {
    ids: HashSet<i64>,
    verdicts: HashMap<i64, Verdict>,
    rest: Vec<u8>,
}

impl Results {
    /// For the messages of a batch.
    pub fn new(batch: &Batch) -> Self {
        let ids = batch.messages.iter().map(|message| message.id.get()).collect();
        Self { ids, verdicts: HashMap::new(), rest: Vec::new() }
    }

    /// What was said last of a message, if anything was.
    pub fn of(&self, message: MessageId) -> Option<&Verdict> {
        self.verdicts.get(&message.get())
    }

    /// Takes a piece of output, and hands every complete line with what came of it to `told`.
    pub fn take(&mut self, bytes: &[u8], mut told: impl FnMut(&[u8], Line)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.rest.len() >= LINE {
                self.end_line(&mut told);
            }
        }
    }

    /// Takes what is left when the output has ended.
    pub fn finish(&mut self, mut told: impl FnMut(&[u8], Line)) {
        if !self.rest.is_empty() {
            self.end_line(&mut told);
        }
    }

    fn end_line(&mut self, told: &mut impl FnMut(&[u8], Line)) {
        let line = std::mem::take(&mut self.rest);
        let outcome = self.read(&line);
        told(&line, outcome);
    }

    fn read(&mut self, line: &[u8]) -> Line {
        let line = line.trim_ascii();
        if !line.starts_with(b"{") {
            return Line::Output;
        }
        let broken =
            |why: &str| Line::Broken(format!("{why}: `{}`", text::excerpt(&String::from_utf8_lossy(line), SHOWN)));
        let Ok(object) = serde_json::from_slice::<Map<String, Value>>(line) else {
            return broken("a line of output is no JSON");
        };
        if !object.contains_key("result") {
            return Line::Output;
        }
        let Ok(Told { id, result, reason }) = Told::deserialize(Value::Object(object)) else {
            return broken("a result is not `{\"id\":NUMBER,\"result\":\"ok|retry|dead\"}`, with or without a reason");
        };
        if !self.ids.contains(&id) {
            return broken("a result is for a message that is not of the batch");
        }
        let verdict = match result {
            Word::Ok => Verdict::Ok,
            Word::Retry => Verdict::Retry(reason),
            Word::Dead => Verdict::Dead(reason),
        };
        self.verdicts.insert(id, verdict);
        Line::Told
    }
}

#[derive(Deserialize)]
struct Told {
    id: i64,
    result: Word,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Ok,
    Retry,
    Dead,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        Results { ids: HashSet::from([1, 2]), verdicts: HashMap::new(), rest: Vec::new() }
    }

    #[test]
    fn lines_that_tell_of_a_message_are_taken_and_the_last_counts() {
        let mut results = results();
        let mut lines = Vec::new();
        results.take(b"{\"id\":1,\"result\":\"ok\"}\nhello\n{\"id\":1,\"res", |_, line| lines.push(line));
        results.take(b"ult\":\"dead\",\"reason\":\"why\"}\n{\"level\":\"info\"}", |_, line| lines.push(line));
        results.finish(|_, line| lines.push(line));
        assert_eq!(lines, [Line::Told, Line::Output, Line::Told, Line::Output]);
        assert_eq!(results.of(MessageId::new(1).unwrap()), Some(&Verdict::Dead(Some("why".into()))));
        assert_eq!(results.of(MessageId::new(2).unwrap()), None);
    }

    #[test]
    fn what_cannot_be_read_or_is_of_no_message_is_told() {
        let mut results = results();
        for line in [
            &b"{\"id\":1,\"resu"[..],
            b"{\"id\":1,\"result\":\"done\"}",
            b"{\"id\":\"1\",\"result\":\"ok\"}",
            b"{\"result\":\"ok\"}",
            b"{\"id\":3,\"result\":\"ok\"}",
        ] {
            assert!(matches!(results.read(line), Line::Broken(_)), "{}", line.escape_ascii());
        }
        assert!(results.verdicts.is_empty());
    }
}
