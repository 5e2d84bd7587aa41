//! The arguments of `fencepost schedule …`.

use clap::{Args, Subcommand};

const PUT_HELP: &str = "\
Specs:
  @every 30s            Each 30 s of real time: 1s to 366d.
  30 2 * * *            Cron: minute, hour, day of the month, month, day of the week.
  0 30 2 * * *          With seconds before them.
  @hourly               And @daily, @midnight, @weekly, @monthly, @yearly, @annually.
  2026-12-24T18:00:00Z  Once. Without an offset it is a time of the zone.

Where the clocks skip a time it fires at the first instant after the gap; one that they show twice
fires the first time. The same schedule put again changes nothing.

Nothing fires unless somebody runs `fencepost schedule serve`.

Examples:
  fencepost schedule put report '0 8 * * mon-fri' --queue reports --zone Europe/Berlin
  fencepost schedule put heartbeat '@every 30s' --queue checks --misfire skip
  fencepost schedule put invoices '@monthly' --queue billing --kind invoice --misfire all --jitter 10m";

const LIST_HELP: &str = "\
Examples:
  fencepost schedule list
  fencepost schedule list --json";

const SHOW_HELP: &str = "\
Of what it has fired the last 100 are there, each with its nominal time and how much later it was sent.

Examples:
  fencepost schedule show report";

const PREVIEW_HELP: &str = "\
Examples:
  fencepost schedule preview report
  fencepost schedule preview '30 2 * * *' --zone Europe/Berlin --from 2026-03-27T00:00:00Z --count 4";

const RUN_HELP: &str = "\
Its nominal time is now, whether it is paused or not; when it fires next stays as it is.

Examples:
  fencepost schedule run report";

const PAUSE_HELP: &str = "\
Examples:
  fencepost schedule pause report
  fencepost schedule resume report";

const RESUME_HELP: &str = "\
It goes on from now: what it would have fired meanwhile is not made up for.

Examples:
  fencepost schedule resume report";

const REMOVE_HELP: &str = "\
Examples:
  fencepost schedule remove report";

const SERVE_HELP: &str = "\
Start as many as you like: one leads, the others wait, and one of them takes over when it ends or has been
gone for the TTL. Each nominal time is sent once, also when two believe that they lead.

On PostgreSQL its user is a member of fencepost_admin, or owns the schema.

Examples:
  fencepost schedule serve
  fencepost schedule serve --ttl 5s --json";

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub enum ScheduleCommand {
    /// Make a schedule, or change it
    Put(SchedulePutArgs),
    /// List the schedules: when each fires next, and who leads
    #[command(after_help = LIST_HELP)]
    List,
    /// Show a schedule, and what it has fired
    #[command(after_help = SHOW_HELP)]
    Show(ScheduleNameArgs),
    /// Remove a schedule
    #[command(after_help = REMOVE_HELP)]
    Remove(ScheduleNameArgs),
    /// Let a schedule fire nothing until it is resumed
    #[command(after_help = PAUSE_HELP)]
    Pause(ScheduleNameArgs),
    /// Let a schedule go on
    #[command(after_help = RESUME_HELP)]
    Resume(ScheduleNameArgs),
    /// Send one message of a schedule now
    #[command(after_help = RUN_HELP)]
    Run(ScheduleNameArgs),
    /// Show when a schedule fires next, and what the clocks of its zone do
    Preview(SchedulePreviewArgs),
    /// Fire what is due, as the only one
    Serve(ScheduleServeArgs),
}

#[derive(Debug, Args)]
#[command(after_help = PUT_HELP)]
pub struct SchedulePutArgs {
    /// The schedule: 1 to 255 bytes, not blank, without control characters
    pub name: String,

    /// When it fires
    pub spec: String,

    /// The queue that its messages go to
    #[arg(long, value_name = "Q")]
    pub queue: String,

    /// What sort of message it sends
    #[arg(long, value_name = "KIND", default_value = "default")]
    pub kind: String,

    /// What it sends
    #[arg(long, value_name = "P", default_value = "", allow_hyphen_values = true)]
    pub payload: String,

    /// Messages of one key are handled in order
    #[arg(long, value_name = "K")]
    pub key: Option<String>,

    /// The time zone whose clocks count, such as Europe/Berlin
    #[arg(long, value_name = "Z", default_value = "UTC")]
    pub zone: String,

    /// What happens to times that nobody fired: all of them are left out, the latest fires, or the latest CAP
    #[arg(long, value_name = "skip|one|all[:CAP]", default_value = "one")]
    pub misfire: String,

    /// Send each message at some time within so long after its nominal time: at most 1d
    #[arg(long, value_name = "D", default_value = "0s", allow_hyphen_values = true)]
    pub jitter: String,

    /// Fire nothing before: a time such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "T")]
    pub from: Option<String>,

    /// Fire nothing from then on
    #[arg(long, value_name = "T")]
    pub until: Option<String>,
}

#[derive(Debug, Args)]
pub struct ScheduleNameArgs {
    /// The schedule
    pub name: String,
}

#[derive(Debug, Args)]
#[command(after_help = PREVIEW_HELP)]
pub struct SchedulePreviewArgs {
    /// The schedule, or a spec that is not stored
    #[arg(value_name = "NAME|SPEC")]
    pub what: String,

    /// The time zone of a spec [default: UTC]
    #[arg(long, value_name = "Z")]
    pub zone: Option<String>,

    /// Show what fires after this [default: now]
    #[arg(long, value_name = "T")]
    pub from: Option<String>,

    /// How many times: 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true)]
    pub count: i64,
}

#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub struct ScheduleServeArgs {
    /// How long nobody else leads after this one has vanished: 1s to 24h
    #[arg(long, value_name = "T", default_value = "10s", allow_hyphen_values = true)]
    pub ttl: String,

    /// What others see as the leader [default: host and process]
    #[arg(long, value_name = "HOLDER")]
    pub holder: Option<String>,
}
