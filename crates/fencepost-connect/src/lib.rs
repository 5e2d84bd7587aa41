//! How the engine and the migrations connect to PostgreSQL: what a URL means, TLS, one host after the other, asking for a cancel, and what
//! the server or the driver report as errors of the contract. It knows no statement of fencepost's.

mod cancel;
mod connect;
mod error;
mod process;
mod tls;
mod url;

pub use cancel::Cancel;
pub use connect::{Connector, Notice, Open};
pub use error::{State, caused, connect_error, driver_error, is_lost, lost, misread, of_state};
pub use process::told_process;
