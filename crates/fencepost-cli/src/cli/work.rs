//! The arguments of `fencepost work`.

use clap::Args;

const HELP: &str = "\
CMD is run by `sh -c`, once for each message, with the payload on its standard input. How it exits says
what becomes of the message:

  0    It is done: acked.
  75   Not yet: it comes again after the consumer's backoff, and no attempt is spent.
  else It failed: it comes again after a growing pause, until it is out of attempts and becomes a dead
       letter. The end of what CMD wrote to standard error is kept as the reason.

It finds in its environment FENCEPOST_QUEUE, _CONSUMER, _SLOT, _EPOCH and _BATCH, of its message
FENCEPOST_MESSAGE_ID, _KEY (empty without one), _KIND and _ATTEMPT (1 at first), and
FENCEPOST_DEADLINE: until when the slot surely is this worker's, CLOCK_BOOTTIME in ms. When something
is written elsewhere, let the epoch go with it, and let a lower one than was seen be refused. For a
message that a schedule sent there are FENCEPOST_SCHEDULE and FENCEPOST_NOMINAL_TIME, the time that
it is for.

With --batch, CMD gets up to N messages at once, one JSON object a line, as `fencepost tail --json`
has them; FENCEPOST_MESSAGE_ID, _KEY, _KIND, _ATTEMPT, _SCHEDULE and _NOMINAL_TIME are not
set. Its exit status is that of every message for which it prints no line of its own on standard output:

  {\"id\":7,\"result\":\"ok\"}
  {\"id\":8,\"result\":\"retry\",\"reason\":\"the bank is closed\"}
  {\"id\":9,\"result\":\"dead\",\"reason\":\"no such account\"}

The last line for a message counts; what is no JSON object is passed on as output. A result that cannot
be read, or is for a message that is not of the batch, is shown, and the messages without a result have
failed then. When a consumer pauses keys, the later messages of a failed one's key come again after it,
whatever is said of them.

Messages of one key are run one at a time, in order. A message is run again when a worker dies before
it is acked: without --batch those that a slot was handed together, at most as many as --workers.

SIGTERM and SIGINT end the worker: it takes nothing new, and what it was handed gets three quarters of
the grace to end. What still runs then gets SIGTERM and, soon after, SIGKILL, and what was not finished
is handed back. A command that a signal ends then has not failed: service managers signal all processes
of a service. When a slot is lost, its commands are ended before somebody else can own it, unless
fencepost itself is stopped (SIGSTOP) meanwhile. A second signal, a second or more later, ends the
worker at once. Then, and when fencepost itself is killed, the process groups of its commands are
killed, and its slots are free after the TTL.

Standard error of CMD is shown; its standard output is ours, or our standard error with --json.

Examples:
  fencepost work orders billing --exec './bill.sh \"$FENCEPOST_KEY\"'
  fencepost work orders billing --exec 'psql -f -' --workers 8
  fencepost work orders search --exec ./index.py --batch 500 --until-empty";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct WorkArgs {
    /// The queue
    pub queue: String,

    /// The consumer whose messages are worked on
    pub consumer: String,

    /// What handles a message, or a batch: a command for `sh -c`
    #[arg(long, value_name = "CMD")]
    pub exec: String,

    /// How many commands run at once: 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub workers: i64,

    /// Give a command up to so many messages at once: 1 to 10000
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub batch: Option<i64>,

    /// End when every message is done or a dead letter; one that was sent for later does not count
    #[arg(long)]
    pub until_empty: bool,

    /// How long slots stay with a worker that says nothing: 1s to 24h
    #[arg(long, value_name = "T", default_value = "30s", allow_hyphen_values = true)]
    pub ttl: String,

    /// How long commands may go on when the worker is told to end: 0s to 24h
    #[arg(long, value_name = "T", default_value = "10s", allow_hyphen_values = true)]
    pub grace: String,

    /// What others see as the owner of its slots [default: host and process]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}
