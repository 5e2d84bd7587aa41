//! The tree of commands and their arguments as the help shows it. Values are checked where they are used, by the same rules
//! that the library has.

mod consumer;
mod dead;
mod lease;
mod migrate;
mod queue;
mod schedule;
mod send;
mod slot;
mod tail;
mod work;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{ArgAction, Args, Parser, Subcommand};
use clap_complete::Shell;

pub use self::consumer::{ConsumerCommand, ConsumerCreateArgs, ConsumerDropArgs, ConsumerListArgs, ConsumerPathArgs};
pub use self::dead::{DeadChoiceArgs, DeadCommand, DeadListArgs, DeadShowArgs};
pub use self::lease::{LeaseCommand, LeaseNameArgs, LeaseReleaseArgs, LeaseRunArgs};
pub use self::migrate::{
    ImportChoice, LockChoice, MigrateBaselineArgs, MigrateCommand, MigrateDownArgs, MigrateImportArgs, MigrateLockArgs,
    MigrateNewArgs, MigratePlaceArgs, MigrateRepairArgs, MigrateUpArgs, MigrateWaitArgs, RepairChoice,
};
pub use self::queue::{QueueCommand, QueueCreateArgs, QueueDropArgs, QueueNameArgs, QueueRetainArgs, RetentionArgs};
pub use self::schedule::{ScheduleCommand, ScheduleNameArgs, SchedulePreviewArgs, SchedulePutArgs, ScheduleServeArgs};
pub use self::send::SendArgs;
pub use self::slot::{SlotCommand, SlotListArgs, SlotReleaseArgs};
pub use self::tail::TailArgs;
pub use self::work::WorkArgs;

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
  fencepost consumer create orders billing --slots 4
  fencepost work orders billing --exec ./bill.sh
  fencepost lease run nightly -- ./report.sh
  fencepost schedule put report '0 8 * * mon-fri' --queue reports --zone Europe/Berlin
  fencepost migrate up --dir migrations
  fencepost status

Exit status:
  0 done · 1 refused (held, empty, absent) · 2 usage · 3 fenced or lost
  4 unavailable or unknown · 5 schema · 70 bug";

const DEMO_HELP: &str = "\
The built-in input is 12,208 departures from New York in two weeks of 2013, one message a flight,
keyed by the aircraft's tail number. Worker processes keep one row an aircraft; every row must
come out exactly as a plain single pass over the file has it, whatever happens to the workers.

Examples:
  fencepost demo
  fencepost demo --workers 8 --kill 3 --pause 2
  fencepost demo orders.csv --key customer";

const STATUS_HELP: &str = "\
What is furthest behind comes first.

Examples:
  fencepost status
  fencepost status --json
  fencepost status --prometheus >fencepost.prom.new && mv fencepost.prom.new fencepost.prom";

const DOCTOR_HELP: &str = "\
A line for each finding says what is wrong, and one below it what to do. The exit status is 1 when something
has to be done, 0 when all is well, whatever notes there are.

Examples:
  fencepost doctor
  fencepost doctor --json";

const COMPLETIONS_HELP: &str = "\
Examples:
  fencepost completions bash >/etc/bash_completion.d/fencepost
  fencepost completions zsh >~/.zfunc/_fencepost
  fencepost completions fish >~/.config/fish/completions/fencepost.fish";

const MAN_HELP: &str = "\
Examples:
  fencepost man | man -l -
  fencepost man --dir /usr/local/share/man/man1";

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
    Status(StatusArgs),
    /// Find what is wrong, and say how to mend it
    #[command(after_help = DOCTOR_HELP)]
    Doctor,
    /// Make, show, pause and drop queues
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Make, show and drop consumers: named positions on a queue
    #[command(subcommand)]
    Consumer(ConsumerCommand),
    /// Send one message, or every record of a file
    Send(SendArgs),
    /// Show the messages of a queue, without taking them from anybody
    Tail(TailArgs),
    /// Handle the messages of a consumer with a command
    Work(WorkArgs),
    /// Look at the messages that a consumer gave up, and decide about them
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Show who owns which slot of a consumer, and take one by force
    #[command(subcommand)]
    Slot(SlotCommand),
    /// Run a command as the only one, show who holds what, and take a lease by force
    #[command(subcommand)]
    Lease(LeaseCommand),
    /// Send messages at set times, each once, whoever is there to send them
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Bring a database's own tables up to date, one runner at a time
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Print what makes a shell complete the commands and their options
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for every command
    #[command(after_help = MAN_HELP)]
    Man(ManArgs),
    /// A worker process of the demo
    #[command(hide = true)]
    DemoWorker(DemoWorkerArgs),
    /// What `lease run` and `work` start: ties itself to its parent and becomes the command
    #[command(hide = true)]
    Child(ChildArgs),
    /// Kills the commands that are left when the process that writes to its standard input is gone
    #[command(hide = true)]
    Guard,
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
#[command(after_help = STATUS_HELP)]
pub struct StatusArgs {
    /// Print what Prometheus scrapes: its text format
    #[arg(long, conflicts_with = "json")]
    pub prometheus: bool,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a page for every command to this folder, which is made if need be
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ChildArgs {
    /// The process that it must not outlive
    #[arg(long)]
    pub parent: u32,

    /// Where the parent speaks to the guard that kills its process group
    #[arg(long)]
    pub guard: Option<i32>,

    /// What it becomes
    #[arg(last = true, required = true, num_args = 1..)]
    pub command: Vec<OsString>,
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
