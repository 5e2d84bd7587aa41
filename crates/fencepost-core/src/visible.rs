//! Text of others as it may be shown: nothing in it controls a terminal.

/// A character, or how it is written when it controls a terminal or the direction of its text, breaks lines, or cannot be seen.
pub fn visible(c: char) -> impl Iterator<Item = char> {
    let directs = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = matches!(c, '\u{2028}' | '\u{2029}');
    let hides = matches!(c, '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    let is_escaped = c.is_control() || directs || breaks || hides;
    let (plain, escaped) = if is_escaped { (None, Some(c.escape_default())) } else { (Some(c), None) };
    plain.into_iter().chain(escaped.into_iter().flatten())
}

/// A text with line breaks kept and other such characters shown.
///
/// ```
/// assert_eq!(fencepost_core::harmless("one\ntwo\u{1b}[2J"), "one\ntwo\\u{1b}[2J");
/// ```
pub fn harmless(text: &str) -> String {
    let keep = |c: char| if c == '\n' { vec![c] } else { visible(c).collect() };
    text.chars().flat_map(keep).collect()
}
