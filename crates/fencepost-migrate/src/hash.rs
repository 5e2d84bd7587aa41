//! What a file is known by once it was applied, and how much of it an edit has changed.

use std::borrow::Cow;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::sql::{Token, TokenKind};

/// Three hashes of one text, each blind to more than the one before. All are SHA-256 in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashes {
    /// Of the text with line feeds for all line ends, so that any program can make it: `sed 's|\r$||' FILE | sha256sum`.
    pub text: String,
    /// Of its tokens and comments, whatever blanks are between them.
    pub layout: String,
    /// Of its tokens alone.
    pub tokens: String,
}

/// What was changed in a file since it was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Changed {
    /// Nothing, or line ends alone.
    Nothing,
    /// Blanks.
    Blanks,
    /// Comments, and maybe blanks.
    Comments,
    /// What is executed.
    Statements,
}

impl Hashes {
    pub(crate) fn of(text: &str, tokens: &[Token]) -> Self {
        let (mut layout, mut bare) = (Sha256::new(), Sha256::new());
        for token in tokens.iter().filter(|token| token.kind != TokenKind::Space) {
            let piece = &text[token.span.clone()];
            for hash in
                [Some(&mut layout), (token.kind != TokenKind::Comment).then_some(&mut bare)].into_iter().flatten()
            {
                add(hash, piece);
            }
        }
        let text = Sha256::digest(with_line_feeds(text).as_bytes());
        Self { text: hex(&text), layout: hex(&layout.finalize()), tokens: hex(&bare.finalize()) }
    }

    /// Of statements alone, whatever is between them.
    pub(crate) fn of_pieces<'t>(pieces: impl Iterator<Item = &'t str>) -> String {
        let mut hash = Sha256::new();
        pieces.for_each(|piece| add(&mut hash, piece));
        hex(&hash.finalize())
    }

    /// What has changed from `earlier` to this.
    pub fn since(&self, earlier: &Self) -> Changed {
        if self.text == earlier.text {
            Changed::Nothing
        } else if self.layout == earlier.layout {
            Changed::Blanks
        } else if self.tokens == earlier.tokens {
            Changed::Comments
        } else {
            Changed::Statements
        }
    }
}

fn add(hash: &mut Sha256, piece: &str) {
    let piece = with_line_feeds(piece);
    // Its length first: `ab` is not `a b`.
    hash.update((piece.len() as u64).to_be_bytes());
    hash.update(piece.as_bytes());
}

/// Line ends are line feeds, whatever system the file was checked out on.
fn with_line_feeds(text: &str) -> Cow<'_, str> {
    if text.contains('\r') { text.replace("\r\n", "\n").into() } else { text.into() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
