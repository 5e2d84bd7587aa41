//! The tree of commands and their arguments as the help shows it. Values are checked where they are used, by the same rules
//! that the library has.

mod consumer;
mod lease;
mod queue;
mod slot;

use std::ffi::OsString;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{ArgAction, ArgGroup, Args, Parser, Subcommand};

use crate::records::Format;

pub use self::consumer::{ConsumerCommand, ConsumerCreateArgs, ConsumerDropArgs, ConsumerListArgs, ConsumerPathArgs};
pub use self::lease::{LeaseChildArgs, LeaseCommand, LeaseNameArgs, LeaseReleaseArgs, LeaseRunArgs};
pub use self::queue::{QueueCommand, QueueCreateArgs, QueueDropArgs, QueueNameArgs};
pub use self::slot::{SlotCommand, SlotListArgs, SlotReleaseArgs};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const GLOBAL: &str = "Global options";

const EXAMPLES: &str = "\
Examples:
  fencepost demo
  fencepost queue create orders
  fencepost send orders 'paid' --key customer-7
  fencepost send orders --file orders.csv --key-field customer
  fencepost lease run nightly -- ./report.sh
  fencepost status

Exit status:
  0 done · 1 refused (held, empty, absent) · 2 usage · 3 fenced or lost
  4 unavailable or unknown · 5 schema · 70 bug";

const SEND_USAGE: &str = "\
fencepost send [OPTIONS] <QUEUE> <PAYLOAD>
       fencepost send [OPTIONS] <QUEUE> --file <FILE>";

const SEND_EXAMPLES: &str = "\
A file is streamed, whatever its size, in batches that are stored all or none. A regular file is
checked to its end before anything is sent; standard input is checked as it flows.

  lines  The payload is the line.
  csv    A header row, then the payload is the record as it stands in the file. An empty key
         field or `NA` is no key.
  json   One object a line; the payload is the line. The key is a string or a number; null or
         absent is no key.

Empty lines are skipped and counted.

Examples:
  fencepost send orders 'paid' --key customer-7
  fencepost send orders - <invoice.pdf
  fencepost send flights --file flights.csv --key-field tailnum
  tail -f app.log | fencepost send logs --file -";

const DEMO_HELP: &str = "\
The built-in input is 12,208 departures from New York in two weeks of 2013, one message a flight,
keyed by the aircraft's tail number. Worker processes keep one row an aircraft; every row must
come out exactly as a plain single pass over the file has it, whatever happens to the workers.

Examples:
  fencepost demo
  fencepost demo --workers 8 --kill 3 --pause 2
  fencepost demo orders.csv --key customer";

/// Exactly one owner, in order, fenced: leases and ordered queues on the database you already have
#[derive(Debug, Parser)]
#[command(name = "fencepost", version, styles = STYLES, after_help = EXAMPLES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(disable_help_flag = true, disable_help_subcommand = true)]
pub struct Cli {
    // The value is not shown in the help: it may hold a password.
    /// Where the data is
    #[arg(long, global = true, value_name = "URL", help_heading = GLOBAL)]
    #[arg(env = "FENCEPOST_STORE", hide_env_values = true, default_value = fencepost::DEFAULT_URL)]
    pub store: String,

    /// Answer in JSON, errors too
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,

    // One page of help, whichever way it is asked for.
    /// Print help
    #[arg(short, long, global = true, help_heading = GLOBAL, action = ArgAction::HelpShort)]
    help: Option<bool>,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// See fencing at work: real events, one worker killed, one paused, and an exact result
    Demo(DemoArgs),
    /// Make the store, or bring its schema up to date
    Init,
    /// Show the whole store on one screen
    Status,
    /// Make, show and drop queues
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Make, show and drop consumers: named positions on a queue
    #[command(subcommand)]
    Consumer(ConsumerCommand),
    /// Send one message, or every record of a file
    Send(SendArgs),
    /// Show who owns which slot of a consumer, and take one by force
    #[command(subcommand)]
    Slot(SlotCommand),
    /// Run a command as the only one, show who holds what, and take a lease by force
    #[command(subcommand)]
    Lease(LeaseCommand),
    /// A worker process of the demo
    #[command(hide = true)]
    DemoWorker(DemoWorkerArgs),
    /// What `lease run` starts: ties itself to its parent and becomes the command
    #[command(hide = true)]
    LeaseChild(LeaseChildArgs),
}

#[derive(Debug, Args)]
#[command(after_help = DEMO_HELP)]
pub struct DemoArgs {
    /// Somebody's own csv file instead of the built-in flights
    #[arg(requires = "key")]
    pub file: Option<OsString>,

    /// The column of the file that holds the key; empty or `NA` is no key
    #[arg(long, value_name = "COLUMN", requires = "file")]
    pub key: Option<String>,

    /// How many worker processes: 1 to 64
    #[arg(long, value_name = "N", default_value_t = 4, allow_negative_numbers = true)]
    pub workers: i64,

    /// How many of them are killed in the middle of a batch [default: 1 if there are two workers]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub kill: Option<i64>,

    /// How many of them stop themselves and wake up late [default: 1 if there are three workers]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub pause: Option<i64>,
}

#[derive(Debug, Args)]
pub struct DemoWorkerArgs {
    /// Its label
    #[arg(long)]
    pub name: String,

    /// How many messages a batch has at most
    #[arg(long)]
    pub max: i64,

    /// How long a slot stays with it without renewal
    #[arg(long)]
    pub ttl_ms: i64,

    /// Read the records as the built-in flights
    #[arg(long)]
    pub flights: bool,
}

#[derive(Debug, Args)]
#[command(override_usage = SEND_USAGE, after_help = SEND_EXAMPLES, group = ArgGroup::new("content").required(true))]
pub struct SendArgs {
    /// The queue to send to
    pub queue: String,

    /// The message's content; `-` reads all of standard input as one message
    #[arg(group = "content", conflicts_with_all = ["format", "key_field"], allow_negative_numbers = true)]
    pub payload: Option<String>,

    /// Messages of one key are handled in order
    #[arg(long, value_name = "KEY", conflicts_with = "key_field")]
    pub key: Option<String>,

    /// What sort of message it is
    #[arg(long, value_name = "KIND", default_value = "default")]
    pub kind: String,

    /// Send every record of this file; `-` is standard input
    #[arg(long, value_name = "FILE", group = "content")]
    pub file: Option<OsString>,

    /// What a record is; unless given, by the file's extension, else lines
    #[arg(long, value_name = "lines|csv|json", value_enum, hide_possible_values = true)]
    pub format: Option<Format>,

    /// The csv column or json field that holds the key
    #[arg(long, value_name = "FIELD")]
    pub key_field: Option<String>,
}

/// Whether the arguments hold `--json`. Asked before they are parsed, because an error in them is answered in JSON too.
pub fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn tree_of_commands_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_is_seen_before_the_arguments_are_parsed() {
        let asks = |line: &str| asks_for_json(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(asks("fencepost --json status") && asks("fencepost nonsense --json"));
        assert!(!asks("fencepost send q -- --json"));
    }
}
