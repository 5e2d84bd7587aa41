//! How an engine runs the suite: its committed list becomes one test a case, and one that compares the lists.

use std::time::Duration;

/// How long a case may take before it counts as hanging. No case waits for time to pass.
const BOUND: Duration = Duration::from_secs(120);

/// Runs one case on several threads.
///
/// # Panics
/// When the case fails or hangs.
pub fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime for the case");
    let ended = runtime.block_on(async { tokio::time::timeout(BOUND, case).await });
    assert!(ended.is_ok(), "the case hangs: it did not end within {BOUND:?}");
}

/// An engine's committed list of cases.
///
/// `harness` is an async function without arguments that returns a fresh [`Harness`](crate::Harness), or `None` where a server that it
/// needs is not installed, which it has counted. Every case of the suite is
/// listed under its module, as `run`, `not_applicable "why"` or `later "why"`; a test compares the list with the suite's.
///
/// ```text
/// fencepost_conformance::suite! {
///     harness: open;
///     leases {
///         a_free_lease_is_granted: run,
///         b14_a_late_renewal_is_held_until_somebody_takes_over: later "the engine has no leases yet",
///     }
/// }
/// ```
#[macro_export]
macro_rules! suite {
    (harness: $harness:ident; $($module:ident { $($case:ident: $verdict:ident $($reason:literal)?,)* })*) => {
        $(
            mod $module {
                $($crate::suite!(@$verdict $harness $module $case $($reason)?);)*
            }
        )*

        #[test]
        fn the_list_has_every_case_of_the_suite() {
            $crate::compare(&[$($((stringify!($module), stringify!($case)),)*)*]);
        }
    };
    (@run $harness:ident $module:ident $case:ident) => {
        #[test]
        fn $case() {
            $crate::run(async {
                let Some(harness) = super::$harness().await else { return };
                $crate::cases::$module::$case(&harness).await;
            });
        }
    };
    // The function is named although it is not run, so that a list cannot skip what does not exist.
    (@not_applicable $harness:ident $module:ident $case:ident $reason:literal) => {
        const _: (&str, &str) = { let _ = $crate::cases::$module::$case; ("n/a", $reason) };
    };
    (@later $harness:ident $module:ident $case:ident $reason:literal) => {
        const _: (&str, &str) = { let _ = $crate::cases::$module::$case; ("later", $reason) };
    };
}
