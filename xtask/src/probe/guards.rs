//! The guards that are proved, as data: each is one textual change that takes a guard away, and the tests that must then go red.

/// A guard, how it is taken away, and who must notice.
pub struct Guard {
    pub name: &'static str,
    /// What the workspace is without it.
    pub without: &'static str,
    pub file: &'static str,
    /// What stands in the file, exactly once ...
    pub text: &'static str,
    /// ... and what stands there instead.
    pub instead: &'static str,
    /// The engines, or the loops over them, by crate, in each of which every test of `red` must go red.
    pub engines: &'static [&'static str],
    pub red: &'static [&'static str],
}

const MEM: &str = "fencepost-mem";
const SQLITE: &str = "fencepost-sqlite";
const RUNTIME: &str = "fencepost-runtime";

const SLOT_STEP: &str = "crates/fencepost-core/src/slot/step.rs";
const SLOT_TABLE: &str = "crates/fencepost-core/src/slot/table.rs";
const LEASE_STEP: &str = "crates/fencepost-core/src/lease/step.rs";
const LEASE_TABLE: &str = "crates/fencepost-core/src/lease/table.rs";

pub const GUARDS: &[Guard] = &[
    Guard {
        name: "ack-epoch",
        without: "an ack with any epoch counts as the owner's",
        file: SLOT_STEP,
        text: "Call::Ack { epoch, .. } if !self.is_own(epoch) => Event::AckNotOwn,",
        instead: "Call::Ack { .. } if self.owner.is_none() => Event::AckNotOwn,",
        engines: &[MEM, SQLITE],
        red: &["fences::a11_a_late_owner_is_fenced"],
    },
    Guard {
        name: "release-open-batch",
        without: "a release with an open batch frees the slot",
        file: SLOT_TABLE,
        text: "(Event::ReleaseOwn,      [Impossible,     Free,             Free,             RefuseOpenBatch,  RefuseOpenBatch,",
        instead: "(Event::ReleaseOwn,      [Impossible,     Free,             Free,             Free,             Free,",
        engines: &[MEM, SQLITE],
        red: &[
            "releases::a01_release_with_an_open_batch_is_refused",
            "releases::a19_release_after_expiry_with_an_open_batch_is_refused",
        ],
    },
    Guard {
        name: "claim-epoch",
        without: "a new owner gets the epoch of the last one",
        file: SLOT_STEP,
        text: "epoch: Some(claimant.epoch),",
        instead: "epoch: self.epoch.or(Some(claimant.epoch)),",
        engines: &[MEM, SQLITE],
        red: &["fences::a09_a_claim_after_expiry_is_granted_with_a_higher_epoch", "fences::a11_a_late_owner_is_fenced"],
    },
    Guard {
        name: "claim-live",
        without: "a live slot without a batch is granted to the next who claims it",
        file: SLOT_TABLE,
        text: "(Event::Claim,           [Grant,          NotGranted, ",
        instead: "(Event::Claim,           [Grant,          Grant,      ",
        engines: &[MEM, SQLITE],
        red: &["claims::a25_a_live_slot_is_not_granted_to_the_same_worker_name"],
    },
    Guard {
        name: "crash-count",
        without: "a batch that its owner lost by expiry counts no crash",
        file: SLOT_STEP,
        text: "batch.crashes += 1;",
        instead: "",
        engines: &[MEM, SQLITE],
        red: &["fences::deliveries_and_crashes_are_counted_per_takeover"],
    },
    Guard {
        name: "lease-live",
        without: "a live lease is granted to the next who asks",
        file: LEASE_TABLE,
        text: "(Event::Acquire,          [Grant,        Held, ",
        instead: "(Event::Acquire,          [Grant,        Grant,",
        engines: &[MEM, SQLITE],
        red: &["leases::a_live_lease_is_held_and_says_by_whom", "leases::b33_forty_acquires_at_once_grant_exactly_one"],
    },
    Guard {
        name: "lease-expiry",
        without: "a lease is live for one instant longer than its TTL",
        file: LEASE_STEP,
        text: "now < holding.expires_at",
        instead: "now <= holding.expires_at",
        engines: &[MEM, SQLITE],
        red: &["leases::b17_a_ttl_of_one_second_excludes_for_exactly_one_second"],
    },
    Guard {
        name: "lease-guard",
        without: "a transaction guarded by a lease commits under any epoch",
        file: LEASE_TABLE,
        text: "(Event::GuardNotOwn,      [RefuseFenced, RefuseFenced, RefuseFenced]),",
        instead: "(Event::GuardNotOwn,      [Guarded,      Guarded,      Guarded]),",
        engines: &[MEM, SQLITE],
        red: &["operators::a_guarded_transaction_commits_only_under_the_holder"],
    },
    Guard {
        name: "mem-lease-wake",
        without: "a lease that becomes free wakes nobody",
        file: "crates/fencepost-mem/src/lease.rs",
        text: "self.wake(Topic::Lease(name.clone()));",
        instead: "",
        engines: &[MEM],
        red: &["wakes::a_release_wakes_who_waits_for_the_lease"],
    },
    Guard {
        name: "sqlite-lease-wake",
        without: "a lease that becomes free in one process wakes nobody in another",
        file: "crates/fencepost-sqlite/src/watch.rs",
        text: "before != now && !acquired",
        instead: "before != now && !acquired && !matches!(topic, Topic::Lease(_))",
        engines: &[SQLITE],
        red: &["wakes::a_release_elsewhere_wakes_who_waits_for_the_lease"],
    },
    Guard {
        name: "lease-waiter-asks",
        without: "a waiter that has slept believes what it was told before",
        file: "crates/fencepost-runtime/src/waiting.rs",
        text: "() = sleep(pause.min(left)) => {}",
        instead: "() = sleep(pause.min(left)) => return answer,",
        engines: &[RUNTIME],
        red: &[
            "waiting::a_waiter_gets_the_lease_when_it_expires",
            "waiting::a_lease_that_expires_with_the_wait_is_granted",
        ],
    },
    Guard {
        name: "lease-loss-reason",
        without: "a renewal that answers lost is not told as the reason",
        file: "crates/fencepost-runtime/src/loss.rs",
        text: "let _ = self.told.set(reason);",
        instead: "let _ = reason;",
        engines: &[RUNTIME],
        red: &["campaigns::a_term_that_was_taken_says_so", "campaigns::a_term_that_is_resigned_or_dropped_says_so"],
    },
    Guard {
        name: "force-epoch",
        without: "a slot taken by force keeps its epoch",
        file: SLOT_STEP,
        text: "SlotState { epoch: Some(epoch), ..state.without_owner() }",
        instead: "SlotState { epoch: state.epoch.or(Some(epoch)), ..state.without_owner() }",
        engines: &[MEM, SQLITE],
        red: &["operators::a23_force_raises_the_epoch_whoever_owns_the_slot"],
    },
    Guard {
        name: "sqlite-savepoint",
        without: "a call that fails in a shared transaction leaves what it wrote",
        file: "crates/fencepost-sqlite/src/state.rs",
        text: "self.run(\"ROLLBACK TO fencepost_call\")?;",
        instead: "",
        engines: &[SQLITE],
        red: &["transactions::a11_a_fenced_ack_undoes_its_transaction"],
    },
    Guard {
        name: "sqlite-epoch-counter",
        without: "the store forgets the highest epoch it granted",
        file: "crates/fencepost-sqlite/sql/store/set_counters.sql",
        text: "epoch = max(epoch, ?1)",
        instead: "epoch = epoch + 0 * ?1",
        engines: &[SQLITE],
        red: &["leases::a36_epochs_of_leases_rise_and_never_repeat_in_a_store"],
    },
];
