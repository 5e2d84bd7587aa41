//! What `lease run` was asked for, checked before anything is opened.

use std::ffi::OsString;
use std::time::Duration;

use fencepost::{AcquireLease, Error, HolderName, LeaseName, Result, Ttl};

use crate::cli::LeaseRunArgs;
use crate::text;

/// How a grant's last part is used: the command is told to stop when a tenth is left, by the keeper's margin, and killed when
/// half of that is over, so that it has ended before the grant expires.
const GRACE: u32 = 20;

/// The longest wait.
const WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// A command to run under a lease.
#[derive(Debug)]
pub struct Plan {
    /// The lease.
    pub request: AcquireLease,
    /// How long to wait for it.
    pub wait: Duration,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

impl Plan {
    /// # Errors
    /// `invalid_input` for a name, a duration or a holder that is none.
    pub fn new(args: LeaseRunArgs) -> Result<Self> {
        let name = LeaseName::new(args.name)?;
        let ttl = ttl(&args.ttl)?;
        let wait = args.wait.as_deref().map(wait).transpose()?.unwrap_or_default();
        let holder = args.holder.map_or_else(|| text::this_process(HolderName::new), HolderName::new)?;
        Ok(Self { request: AcquireLease::new(name, holder).ttl(ttl), wait, command: args.command })
    }

    /// How long the command may take to stop once it is told to.
    pub fn grace(&self) -> Duration {
        self.request.ttl.get() / GRACE
    }
}

fn ttl(text: &str) -> Result<Ttl> {
    const ALLOWED: &str = "allowed are 100 ms to 24 h, a number and a unit each: `500ms`, `30s`, `2m`, `1h 30m`";
    text::parse_within(text, "ttl", "a ttl", ALLOWED, Ttl::new)
}

fn wait(text: &str) -> Result<Duration> {
    const ALLOWED: &str =
        "allowed are 0s, which does not wait, to 24 h, a number and a unit each: `500ms`, `30s`, `2m`";
    text::parse_within(text, "wait", "a time to wait", ALLOWED, |wait| {
        if wait <= WAIT { Ok(wait) } else { Err(Error::invalid("out of range", ALLOWED)) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(ttl: &str, wait: Option<&str>, holder: Option<&str>) -> Result<Plan> {
        Plan::new(LeaseRunArgs {
            name: "x".into(),
            ttl: ttl.into(),
            wait: wait.map(Into::into),
            holder: holder.map(Into::into),
            command: vec!["true".into()],
        })
    }

    #[test]
    fn durations_outside_their_ranges_are_refused() {
        for (ttl, wait) in [("0s", None), ("99ms", None), ("1year", None), ("-1s", None), ("30s", Some("1year"))] {
            let error = plan(ttl, wait, None).unwrap_err();
            assert_eq!(error.fact("argument"), Some(if wait.is_some() { "wait" } else { "ttl" }), "{ttl} {wait:?}");
            assert!(error.hint().unwrap().contains("24 h"));
        }
        assert_eq!(plan("100ms", Some("0s"), None).unwrap().wait, Duration::ZERO);
        assert_eq!(plan("24h", Some("24h"), None).unwrap().wait, WAIT);
    }

    #[test]
    fn the_command_is_killed_within_the_margin_of_the_deadline() {
        let plan = plan("30s", None, None).unwrap();
        assert_eq!(plan.grace(), Duration::from_millis(1_500));
        assert!(plan.grace() < plan.request.ttl.get() / 10);
    }

    #[test]
    fn a_holder_is_named_by_host_and_process_unless_told() {
        let named = plan("1s", None, None).unwrap().request.holder;
        assert!(named.as_str().ends_with(&format!("process {}", std::process::id())), "{named}");
        assert_eq!(plan("1s", None, Some("me")).unwrap().request.holder.as_str(), "me");
        assert!(plan("1s", None, Some(" ")).is_err());
    }
}
