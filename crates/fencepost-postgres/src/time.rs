//! Instants as PostgreSQL stores them: microseconds since 2000, of which the contract's count from 1970.

use std::error::Error;

use fencepost_core::Timestamp;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// 2000-01-01 in microseconds since 1970.
const EPOCH: i64 = 946_684_800_000_000;

/// A `timestamptz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At(pub(crate) Timestamp);

impl<'a> FromSql<'a> for At {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(At(Timestamp::from_micros(micros.saturating_add(EPOCH))))
    }

    accepts!(TIMESTAMPTZ);
}

impl ToSql for At {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0.as_micros().saturating_sub(EPOCH).to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_stored_as_the_server_counts_them() {
        let mut out = BytesMut::new();
        let at = At("2000-01-01T00:00:01Z".parse().unwrap());
        assert!(matches!(at.to_sql(&Type::TIMESTAMPTZ, &mut out), Ok(IsNull::No)));
        assert_eq!(&out[..], &1_000_000_i64.to_be_bytes());
        assert_eq!(At::from_sql(&Type::TIMESTAMPTZ, &out).unwrap(), at);
    }
}
