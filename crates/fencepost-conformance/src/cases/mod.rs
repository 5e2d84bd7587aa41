//! The cases: one file a primitive, one function a rule. A function's first doc line says what is required; one that proves a
//! scenario begins with its id.

macro_rules! modules {
    ($($(#[$doc:meta])* $module:ident;)*) => {
        $($(#[$doc])* pub mod $module;)*

        /// Every module of cases with its source, from which the suite's list is read.
        pub(crate) const SOURCES: &[(&str, &str)] =
            &[$((stringify!($module), include_str!(concat!(stringify!($module), ".rs")))),*];
    };
}

modules! {
    batches;
    claims;
    clocks;
    consumers;
    dead_letters;
    delays;
    dispositions;
    dropped;
    fences;
    fires;
    idle;
    isolation;
    leases;
    lifecycle;
    members;
    messages;
    names;
    notices;
    once;
    operators;
    parts;
    paused_queues;
    pauses;
    queues;
    readers;
    releases;
    retention;
    retries;
    schedule_calls;
    schedules;
    starts;
    transactions;
    wakes;
}
