//! The arguments of `fencepost tail`.

use clap::Args;

const HELP: &str = "\
Messages are shown whoever has handled them, without taking them from anybody. Delayed ones come once
they are due, expired ones are left out. A line has id, time, key, kind and payload; what does not fit
a line is cut there, and is whole with --json.

POSITION is `earliest`, `latest`, a time such as 2026-01-31T08:00:00Z, `id:N` for what comes after
message N, or a `position` that --json told. With --follow, messages that were removed before
they could be shown are passed over, and a line on standard error says so.

Examples:
  fencepost tail orders
  fencepost tail orders --from latest --follow
  fencepost tail orders --from 2026-01-31T08:00:00Z --json | jq -r .payload";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct TailArgs {
    /// The queue to read
    pub queue: String,

    /// Where to begin
    #[arg(long, value_name = "POSITION", default_value = "earliest", allow_hyphen_values = true)]
    pub from: String,

    /// Go on with what is sent from now on, until it is stopped
    #[arg(short, long)]
    pub follow: bool,
}
