//! Answers that must not be lost: a grant whose caller went away before it heard of it is given back.

use std::pin::Pin;

use fencepost_core::{Error, Kind, Result};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Gives a grant back; nothing happens until it is polled.
pub(crate) type GiveBack = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An answer on its way. Whoever drops it instead of opening it gives back what was granted.
struct Parcel<T> {
    answer: T,
    duty: Duty,
}

struct Duty {
    give_back: Option<GiveBack>,
    runtime: Handle,
}

impl Drop for Duty {
    fn drop(&mut self) {
        if let Some(give_back) = self.give_back.take() {
            self.runtime.spawn(give_back);
        }
    }
}

/// Makes a call on a task of its own, so that it is made to its end even if the caller goes away, and hands its answer over.
pub(crate) async fn deliver<T: Send + 'static>(
    runtime: &Handle,
    call: impl Future<Output = Result<(T, Option<GiveBack>)>> + Send + 'static,
) -> Result<T> {
    let (reply, answer) = oneshot::channel();
    let handle = runtime.clone();
    runtime.spawn(async move {
        let parcel = |(answer, give_back)| Parcel { answer, duty: Duty { give_back, runtime: handle } };
        // Not received, or received and not read, it is dropped.
        let _ = reply.send(call.await.map(parcel));
    });
    let Ok(parcel) = answer.await else {
        return Err(Error::new(Kind::Internal, "cannot answer: the call panicked, or the runtime is being shut down"));
    };
    let Parcel { answer, mut duty } = parcel?;
    duty.give_back = None;
    Ok(answer)
}
