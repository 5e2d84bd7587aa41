//! What becomes of output that nobody reads or nothing can hold, and of colors.

use crate::place::{Answer, Place};

#[test]
fn reader_that_went_away_ends_the_program_silently() {
    let place = Place::with_queue("q");
    for args in [&["queue", "list"] as &[_], &["status", "--json"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let answer = Answer::from(place.command(args).stdout(writer).output().unwrap());
        assert_eq!((answer.status, answer.stderr.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error() {
    let place = Place::with_queue("q");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let answer = Answer::from(place.command(&["queue", "list"]).stdout(full).output().unwrap());
    assert_eq!(answer.status, 4);
    assert!(answer.stderr.starts_with("error: cannot write to standard output\n  caused by: "), "{answer}");
}

#[test]
fn colors_appear_only_when_forced() {
    let place = Place::new();
    let run = |name, value| Answer::from(place.command(&["status"]).env(name, value).output().unwrap()).stderr;
    assert!(run("CLICOLOR_FORCE", "1").starts_with("\u{1b}["));
    assert!(run("NO_COLOR", "1").starts_with("error: "));
    assert!(run("TERM", "xterm").starts_with("error: "));
}
