//! From `--store` to a store: who may make one, and who only says that there is none.

use fencepost::{Kind, Result, Store};

/// What opening did to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// There was none.
    Created,
    /// Its schema was older.
    Upgraded,
    /// It was there and up to date.
    Current,
}

impl Opened {
    /// The name that programs read.
    pub const fn as_str(self) -> &'static str {
        match self {
            Opened::Created => "created",
            Opened::Upgraded => "upgraded",
            Opened::Current => "current",
        }
    }
}

/// Opens a store that is there, works with it and closes it.
///
/// # Errors
/// `not_found` when there is none.
pub async fn existing<T>(url: &str, work: impl AsyncFnOnce(&Store) -> Result<T>) -> Result<T> {
    let store = fencepost::open(url).await?;
    let answer = work(&store).await;
    store.close().await;
    answer
}

/// Opens a store, which is made or upgraded first when need be, works with it and closes it.
pub async fn creating<T>(url: &str, work: impl AsyncFnOnce(&Store, Opened) -> Result<T>) -> Result<T> {
    let (store, opened) = match fencepost::open(url).await {
        Ok(store) => (store, Opened::Current),
        Err(error) => {
            let opened = match error.kind() {
                Kind::NotFound => Opened::Created,
                Kind::Schema => Opened::Upgraded,
                _ => return Err(error),
            };
            (fencepost::open(url).create(true).await?, opened)
        }
    };
    let answer = work(&store, opened).await;
    store.close().await;
    answer
}
