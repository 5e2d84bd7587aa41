//! The rules of every format, on inputs small enough to read.

use super::*;

fn read(
    format: Format,
    key_field: Option<&str>,
    input: impl AsRef<[u8]>,
) -> Result<Vec<(u64, String, Option<String>)>> {
    // A buffer of three bytes puts every boundary somewhere inside a record.
    let input = BufReader::with_capacity(3, input.as_ref());
    Records::new(input, "f", format, key_field)?
        .map(|record| record.map(|record| (record.line, record.text, record.key.map(|key| key.to_string()))))
        .collect()
}

fn record(line: u64, text: &str, key: &str) -> (u64, String, Option<String>) {
    (line, text.into(), (!key.is_empty()).then(|| key.into()))
}

/// The error's kind, message without its beginning, and the line it names.
fn refusal(format: Format, key_field: Option<&str>, input: impl AsRef<[u8]>) -> (Kind, String, Option<String>) {
    let error = read(format, key_field, input).unwrap_err();
    assert!(error.hint().is_some(), "{error} says what is allowed");
    let message = error.to_string();
    let message = message.split_once("`: ").or(message.split_once(": ")).unwrap().1.to_owned();
    (error.kind(), message, error.fact("line").map(str::to_owned))
}

#[test]
fn lines_end_with_lf_or_crlf_or_the_input() {
    for input in ["a\nb c\n", "a\r\nb c\r\n", "a\nb c", "\u{feff}a\r\nb c"] {
        assert_eq!(read(Format::Lines, None, input).unwrap(), [record(1, "a", ""), record(2, "b c", "")], "{input:?}");
    }
}

#[test]
fn empty_lines_are_skipped_and_counted() {
    for (format, input) in
        [(Format::Lines, "\na\n\r\n\nb\n"), (Format::Csv, "\nx\n\r\n\nb\n"), (Format::Json, "\n{}\n \n\n{}")]
    {
        let mut records = Records::new(input.as_bytes(), "f", format, None).unwrap();
        let last = records.by_ref().last().unwrap().unwrap();
        assert_eq!((last.line, records.empty()), (5, 3), "{format:?}");
    }
}

#[test]
fn csv_records_are_kept_as_they_stand_and_may_hold_line_breaks() {
    let input = "id,note\r\n1,plain\r\n\"2\",\"a \"\"b\"\", c\r\n\r\nd\"\r\n3,\"last\"";
    let expected =
        [record(2, "1,plain", "1"), record(3, "\"2\",\"a \"\"b\"\", c\r\n\r\nd\"", "2"), record(6, "3,\"last\"", "3")];
    assert_eq!(read(Format::Csv, Some("id"), input).unwrap(), expected);
    let key_in_quotes = "note,k\nx,\"a\"\"b\"\n";
    assert_eq!(read(Format::Csv, Some("k"), key_in_quotes).unwrap()[0].2.as_deref(), Some("a\"b"));
}

#[test]
fn csv_keys_that_are_empty_or_not_available_are_none() {
    let input = "k,v\n,1\nNA,2\n\"\",3\nna,4\n";
    let keys: Vec<_> = read(Format::Csv, Some("k"), input).unwrap().into_iter().map(|record| record.2).collect();
    assert_eq!(keys, [None, None, None, Some("na".into())]);
}

#[test]
fn csv_takes_wide_records_and_long_fields() {
    let header: Vec<_> = (0..300).map(|at| format!("c{at}")).collect();
    let row = vec!["x".repeat(50); 300].join(",");
    let read = read(Format::Csv, Some("c299"), format!("{}\n{row}\n", header.join(","))).unwrap();
    assert_eq!(read, [record(2, &row, &"x".repeat(50))]);
}

#[test]
fn json_keys_are_strings_or_numbers_as_written() {
    let table = [
        (r#"{"k":"a\u00e9"}"#, "aé"),
        (r#"{"k":7}"#, "7"),
        (r#"{"k":12345678901234567890123.50}"#, "12345678901234567890123.50"),
        (r#"{"k":null}"#, ""),
        (r#"{"other":{"k":1}}"#, ""),
    ];
    for (line, key) in table {
        assert_eq!(read(Format::Json, Some("k"), line).unwrap(), [record(1, line, key)]);
    }
}

/// Format, key field, input; what is wrong, and the line that is named.
type Refused = (Format, Option<&'static str>, &'static [u8], &'static str, Option<&'static str>);

#[test]
fn bad_input_is_refused_with_its_line_and_what_is_wrong() {
    use Format::{Csv, Json, Lines};
    let long_key = format!("k,v\n{},1\n", "x".repeat(256));
    let large = format!("k\n{}\n", "x".repeat(MAX_PAYLOAD + 1));
    let large_quoted = format!("k\n1\n\"{}", "x\n".repeat(MAX_PAYLOAD));
    let table: [Refused; 24] = [
        (Lines, None, b"", "it has no records", None),
        (Lines, None, b"\n\r\n", "it has no records", None),
        (Lines, None, b"a\nb\xe9c\n", "byte 0xE9 at offset 3 is not UTF-8", Some("2")),
        (Lines, None, b"\xef\xbb\xbfa\n\xff", "byte 0xFF at offset 5 is not UTF-8", Some("2")),
        (Lines, None, b"\xff\xfea\0", "byte 0xFF at offset 0 is not UTF-8", Some("1")),
        (Lines, None, b"a\ncut \xc3", "byte 0xC3 at offset 6 is not UTF-8", Some("2")),
        (Lines, Some("k"), b"a", "records of the format `lines` have no fields", None),
        (Csv, None, b"", "it is empty", None),
        (Csv, None, b"\xef\xbb\xbf\n\n", "it is empty", None),
        (Csv, None, b"a,b\n", "it has a header row and no rows", None),
        (Csv, None, b"a,b\n1,2\n1,2,3\n", "found 3 fields, the header has 2 fields", Some("3")),
        (Csv, None, b"a,b\n\"x\ny\",2\n1\n", "found 1 field, the header has 2 fields", Some("4")),
        (Csv, Some("c"), b"a,b\n1,2\n", "the header has no column `c`", Some("1")),
        (Csv, Some("a"), b"a,b,a\n1,2,3\n", "the header has more than one column `a`", Some("1")),
        (Csv, None, b"a,b\n1,\"x\ny\",\"z\n\n", "a quote opens on this line and never closes", Some("3")),
        (Csv, None, b"a,b\n1,\"x\n", "a quote opens on this line and never closes", Some("2")),
        (Csv, None, b"a,b\n1,\"x", "a quote opens on this line and never closes", Some("2")),
        (Csv, None, b"a,b\r1,2\r", "a carriage return stands in the line", Some("1")),
        (
            Csv,
            Some("k"),
            b"k,v\n\"a\nb\",1\n",
            "cannot use `a\\nb` as a key: it holds the control character U+000A",
            Some("2"),
        ),
        (Csv, Some("k"), b"k,v\n\t,1\n", "cannot use `\\t` as a key: it holds the control character U+0009", Some("2")),
        (Json, None, b"{}\n[1]\n", "not a JSON object: invalid type: sequence, expected a map", Some("2")),
        (Json, None, b"{\"a\":1", "not a JSON object: EOF while parsing an object at column 6", Some("1")),
        (Json, Some("k"), b"{\"k\":[1]}", "the key field `k` holds an array", Some("1")),
        (Json, Some("k"), b"{\"k\":\"\"}", "cannot use `` as a key: it is empty", Some("1")),
    ];
    for (format, key_field, input, why, line) in table {
        let (kind, message, at) = refusal(format, key_field, input);
        assert_eq!(
            (kind, message.as_str(), at.as_deref()),
            (Kind::InvalidInput, why, line),
            "{:?}",
            input.escape_ascii()
        );
    }
    let (kind, message, at) = refusal(Csv, Some("k"), long_key);
    assert_eq!((kind, at.as_deref()), (Kind::InvalidInput, Some("2")));
    assert!(message.ends_with("it has 256 bytes"), "{message}");
    for (input, line) in [(large, "2"), (large_quoted, "3")] {
        let (kind, message, at) = refusal(Csv, None, input);
        assert_eq!((kind, at.as_deref()), (Kind::LimitExceeded, Some(line)));
        assert!(message.starts_with("the record has more than 1048576 bytes"), "{message}");
    }
}

#[test]
fn record_at_the_payload_limit_is_taken() {
    let line = "é".repeat(MAX_PAYLOAD / 2);
    for input in [format!("{line}\r\n"), format!("\u{feff}{line}\r\n")] {
        assert_eq!(read(Format::Lines, None, input).unwrap(), [record(1, &line, "")]);
    }
}

#[test]
fn columns_that_exist_are_listed_when_the_key_column_does_not() {
    let error = read(Format::Csv, Some("tail"), "carrier,tailnum\nUA,N1\n").unwrap_err();
    assert_eq!(error.hint(), Some("its columns are `carrier`, `tailnum`"));
}
