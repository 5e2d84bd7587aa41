//! The one gate to the terminal: answers go to standard output, all else to standard error; with `--json` answers and errors
//! are JSON objects on standard output. Colors are dropped where nobody sees them or NO_COLOR asks for it.

use std::borrow::Cow;
use std::error::Error as _;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use clap::error::ErrorKind;
use fencepost::{Error, Kind, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::outlet::{self, To};
use crate::text::shown;

/// How what is wrong is marked, and what to do about it.
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
const CAUSE: Style = Style::new().bold();
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub const NOTE: Style = AnsiColor::Green.on_default().bold();
pub const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// The code of the error that says that nobody reads our output any more, as in `fencepost status | head -1`.
const OUTPUT_CLOSED: &str = "output_closed";

/// What fails when the command line is wrong, and where to look.
const PARSE: &str = "parse_arguments";
const SEE_HELP: &str = "`--help` shows what is allowed";

/// Prints for people or for programs.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    json: bool,
}

impl Printer {
    /// A printer for programs (`json`) or for people.
    pub const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints what the command was asked for.
    pub fn answer(&self, human: impl FnOnce() -> String, json: impl FnOnce() -> Value) -> Result<()> {
        let mut text = if self.json { json().to_string() } else { human() };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        write_out(&text)
    }

    /// Prints a document that is neither for people nor in JSON, such as a script for a shell.
    pub fn document(&self, document: &[u8]) -> Result<()> {
        write_out(&String::from_utf8_lossy(document))
    }

    /// Prints a part of a stream: a line for each item, for people or for programs.
    pub fn lines<T>(&self, items: &[T], human: impl Fn(&T) -> String, json: impl Fn(&T) -> Value) -> Result<()> {
        let line = |item| if self.json { json(item).to_string() } else { human(item) };
        let text: String = items.iter().map(|item| line(item) + "\n").collect();
        if text.is_empty() { Ok(()) } else { write_out(&text) }
    }

    /// Tells what happens while a command runs, beside its answer: a line on standard error, for people or for programs.
    pub fn event(&self, human: impl FnOnce() -> String, json: impl FnOnce() -> Value) {
        let line = format!("{}\n", if self.json { json().to_string() } else { human() });
        outlet::send(To::People, line.into(), self.json);
    }

    /// The same for people, and only for them.
    pub fn aside(&self, text: &str) {
        if !self.json {
            outlet::send(To::People, format!("{text}\n").into(), false);
        }
    }

    /// Passes on what a command of somebody else's printed: it is the answer for people, and beside it for programs.
    pub fn pass_on(&self, output: &[u8]) {
        outlet::send(if self.json { To::Error } else { To::Output }, output.into(), self.json);
    }

    /// Passes on what a command of somebody else's said beside its output.
    pub fn pass_on_error(&self, said: &[u8]) {
        outlet::send(To::Error, said.into(), self.json);
    }

    /// Whether answers are for programs.
    pub const fn is_json(&self) -> bool {
        self.json
    }

    /// Prints for programs, and only for them, what became of a command that has an output of its own.
    pub fn record(&self, json: impl FnOnce() -> Value) -> Result<()> {
        if self.json { write_out(&format!("{}\n", json())) } else { Ok(()) }
    }

    /// Tells people, and only them, something beside the answer.
    pub fn note(&self, text: &str) {
        if !self.json {
            write_err(&format!("{text}\n"));
        }
    }

    /// A bar that people see while `size` bytes (or unknown many) are read, when a terminal is there to show it.
    pub fn progress(&self, verb: &'static str, size: Option<u64>) -> ProgressBar {
        if self.json || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr()).with_style(bar_style(size)).with_message(verb)
    }

    /// A bar that people see while steps are taken, when a terminal is there to show it.
    pub fn steps(&self, count: u64) -> ProgressBar {
        if self.json || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        ProgressBar::with_draw_target(Some(count), ProgressDrawTarget::stderr()).with_style(steps_style())
    }

    /// Prints a failure and says how to exit.
    pub fn error(&self, error: &Error) -> Exit {
        self.error_of(error, Exit::of)
    }

    /// The same for a command that has a table of exit statuses of its own.
    pub fn error_of(&self, error: &Error, exit: impl FnOnce(Kind) -> Exit) -> Exit {
        if error.code() == OUTPUT_CLOSED {
            return Exit::Done;
        }
        if self.json {
            // When nobody reads standard output the exit status is all that is left to say it with.
            let _ = write_out(&format!("{}\n", error_as_json(error)));
        } else {
            write_err(&error_for_people(error));
        }
        exit(error.kind())
    }

    /// Prints a failure that was shown to people already, with its place and all there is to say.
    pub fn shown_error(&self, shown: &str, error: &Error) -> Exit {
        if self.json {
            return self.error(error);
        }
        write_err(&format!("{shown}\n"));
        Exit::of(error.kind())
    }

    /// Prints what the parser of the command line answers: help, the version, or what is wrong with the arguments.
    pub fn parser_answer(&self, answer: &clap::Error) -> Exit {
        let rendered = answer.render();
        if !answer.use_stderr() {
            return write_out(&rendered.ansi().to_string()).map_or_else(|error| self.error(&error), |()| Exit::Done);
        }
        if self.json {
            return self.error(&usage_error(answer.kind(), &rendered.to_string()));
        }
        write_err(&rendered.ansi().to_string());
        Exit::Usage
    }

    /// From now on a panic is reported as the bug that it is, and ends the program.
    pub fn report_panics(self) {
        std::panic::set_hook(Box::new(move |panic| {
            let error =
                Error::new(Kind::Internal, format!("this is a bug in fencepost: {}", one_line(&panic.to_string())))
                    .hinted("please report it, with the command that was run");
            std::process::exit(self.error(&error) as i32);
        }));
    }
}

/// Whether whoever read our standard output went away, as in `fencepost tail orders --follow | head -1`.
pub fn reader_is_gone() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let out = io::stdout();
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    let gone = PollFlags::ERR | PollFlags::HUP;
    poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().intersects(gone)
}

fn bar_style(size: Option<u64>) -> ProgressStyle {
    let template = match size {
        Some(_) => "{msg} {bar:32} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        None => "{msg} {spinner} {bytes} {bytes_per_sec}",
    };
    ProgressStyle::with_template(template).expect("a test builds both templates")
}

fn steps_style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {msg}").expect("a test builds it")
}

fn write_out(text: &str) -> Result<()> {
    outlet::flush();
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|cause| {
        let error = Error::new(Kind::Unavailable, "cannot write to standard output");
        let closed = cause.kind() == io::ErrorKind::BrokenPipe;
        if closed { error.coded(OUTPUT_CLOSED) } else { error }.caused_by(cause)
    })
}

/// Nothing is left to tell anybody when this fails.
fn write_err(text: &str) {
    outlet::flush();
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

fn causes(error: &Error) -> Vec<String> {
    let mut causes = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    causes
}

fn error_for_people(error: &Error) -> String {
    let mut text = format!("{ERROR}error:{ERROR:#} {}\n", shown(&error.to_string()));
    for cause in causes(error) {
        let _ = writeln!(text, "  {CAUSE}caused by:{CAUSE:#} {}", shown(&cause));
    }
    if let Some(hint) = error.hint() {
        let _ = writeln!(text, "{HINT}hint:{HINT:#} {}", shown(hint));
    }
    text
}

fn error_as_json(error: &Error) -> Value {
    let context = error.context().map(|(name, value)| (name.to_owned(), value.into())).collect();
    json!({"error": {
        "code": error.code(),
        "kind": error.kind().code(),
        "retry": error.retry().as_str(),
        "operation": error.operation(),
        "message": error.to_string(),
        "hint": error.hint(),
        "context": Value::Object(context),
        "causes": causes(error),
    }})
}

/// The parser's complaint as an error of ours: its first paragraph, and its tip if it has one.
fn usage_error(kind: ErrorKind, rendered: &str) -> Error {
    if kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Error::invalid("a command is missing", SEE_HELP).during(PARSE);
    }
    let mut paragraphs = rendered.split("\n\n").map(one_line);
    let message = paragraphs.next().unwrap_or_default();
    let tip = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(str::to_owned));
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    Error::invalid(message, tip.map_or(SEE_HELP.into(), Cow::from)).during(PARSE)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Error {
        Error::new(Kind::Unavailable, "cannot write `a\u{1b}[2Jb`")
            .coded("storage_full")
            .during("send")
            .with("limit", 7)
            .hinted("make room")
            .caused_by(Error::new(Kind::Internal, "outer").caused_by(io::Error::other("disk\nfull")))
    }

    #[test]
    fn error_for_people_names_causes_and_hint_without_control_characters() {
        let text = anstream::adapter::strip_str(&error_for_people(&failure())).to_string();
        let expected =
            "error: cannot write `a\\u{1b}[2Jb`\n  caused by: outer\n  caused by: disk\\nfull\nhint: make room\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn error_as_json_has_every_field() {
        let expected = json!({"error": {
            "code": "storage_full", "kind": "unavailable", "retry": "backoff", "operation": "send",
            "message": "cannot write `a\u{1b}[2Jb`", "hint": "make room", "context": {"limit": "7"},
            "causes": ["outer", "disk\nfull"],
        }});
        assert_eq!(error_as_json(&failure()), expected);
    }

    #[test]
    fn templates_of_the_progress_bar_are_sound() {
        for size in [Some(1), None] {
            bar_style(size);
        }
        steps_style();
    }

    #[test]
    fn usage_error_keeps_the_complaint_and_the_tip() {
        let rendered =
            "error: unexpected argument '--jsn' found\n\n  tip: a similar argument exists: '--json'\n\nUsage: x";
        let error = usage_error(ErrorKind::UnknownArgument, rendered);
        assert_eq!(error.to_string(), "unexpected argument '--jsn' found");
        assert_eq!(error.hint(), Some("a similar argument exists: '--json'"));
    }

    /// The test runs itself in a process of its own, which is to die.
    #[test]
    fn panic_is_reported_as_a_bug() {
        const DIE: &str = "FENCEPOST_TEST_DIE";
        if std::env::var_os(DIE).is_some() {
            Printer::new(true).report_panics();
            panic!("two\nlines");
        }
        let name = "printer::tests::panic_is_reported_as_a_bug";
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", name, "--nocapture"]).env(DIE, "").output().unwrap();
        assert_eq!(output.status.code(), Some(70));
        let stdout = String::from_utf8(output.stdout).unwrap();
        let line = stdout.lines().find(|line| line.starts_with('{')).expect("an error in JSON");
        let error: Value = serde_json::from_str(line).unwrap();
        assert_eq!(error["error"]["code"], "internal");
        assert!(error["error"]["message"].as_str().unwrap().ends_with(": two lines"), "{error}");
    }
}
