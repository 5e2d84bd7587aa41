//! What is kept of one key, and the fold that workers and the plain single pass share. The checksum depends on the order.

use fencepost::{Error, Kind, Result};

/// The columns of the built-in input that count.
const DEST: usize = 7;
const DEP_TIME: usize = 9;
const DEP_DELAY: usize = 10;

/// What a record is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// A row of the built-in flights.
    Flight,
    /// Any record: counted and summed up.
    Record,
}

/// What is kept of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Records.
    pub legs: u64,
    /// Flights that did not depart: a leg, no delay, no move.
    pub cancelled: u64,
    /// Minutes of departure delay, early departures negative.
    pub delay_total: i64,
    /// The worst of them.
    pub delay_worst: Option<i64>,
    /// Where the last flight that departed went.
    pub last_dest: Option<String>,
    /// FNV-1a over the checksum before and the record, so that every record and their order count.
    pub checksum: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { legs: 0, cancelled: 0, delay_total: 0, delay_worst: None, last_dest: None, checksum: FNV_OFFSET }
    }
}

impl Tally {
    /// Adds the next record of the key.
    ///
    /// # Errors
    /// `corrupt` when a flight is not what the input holds.
    pub fn add(&mut self, record: &str, keyed: bool, reading: Reading) -> Result<()> {
        self.legs += 1;
        self.checksum = if keyed {
            fnv(fnv(FNV_OFFSET, &self.checksum.to_be_bytes()), record.as_bytes())
        } else {
            // Records without a key have no order: a sum does not depend on any.
            self.checksum.wrapping_add(fnv(FNV_OFFSET, record.as_bytes()))
        };
        if reading == Reading::Flight {
            self.fly(record)?;
        }
        Ok(())
    }

    fn fly(&mut self, record: &str) -> Result<()> {
        // The built-in input has no quotes, so a comma always ends a field.
        let fields: Vec<&str> = record.split(',').collect();
        let field = |at: usize| {
            fields
                .get(at)
                .copied()
                .ok_or_else(|| Error::new(Kind::Corrupt, format!("cannot read the flight `{record}`")))
        };
        if field(DEP_TIME)? == "NA" {
            self.cancelled += 1;
            return Ok(());
        }
        let delay: i64 = field(DEP_DELAY)?.parse().map_err(|cause| {
            Error::new(Kind::Corrupt, format!("cannot read the flight `{record}`")).caused_by(cause)
        })?;
        self.delay_total += delay;
        self.delay_worst = Some(self.delay_worst.map_or(delay, |worst| worst.max(delay)));
        self.last_dest = Some(field(DEST)?.to_owned());
        Ok(())
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): the offset basis and the prime of its definition.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(dep_time: &str, dep_delay: &str, dest: &str) -> String {
        format!("2013-01-01T10:00:00Z,1,1,UA,1545,N14228,EWR,{dest},515,{dep_time},{dep_delay},830,11,227,1400")
    }

    #[test]
    fn fnv_matches_its_published_values() {
        assert_eq!(fnv(FNV_OFFSET, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(FNV_OFFSET, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv(FNV_OFFSET, b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_cancelled_flight_is_a_leg_without_delay_or_move() {
        let mut tally = Tally::default();
        tally.add(&flight("517", "-2", "IAH"), true, Reading::Flight).unwrap();
        tally.add(&flight("NA", "NA", "MIA"), true, Reading::Flight).unwrap();
        let Tally { legs, cancelled, delay_total, delay_worst, last_dest, .. } = tally;
        assert_eq!(
            (legs, cancelled, delay_total, delay_worst, last_dest.as_deref()),
            (2, 1, -2, Some(-2), Some("IAH"))
        );
    }

    #[test]
    fn checksum_tells_the_order_of_a_key_and_not_of_records_without_one() {
        let sum = |records: [&str; 2], keyed| {
            let mut tally = Tally::default();
            records.iter().for_each(|record| tally.add(record, keyed, Reading::Record).unwrap());
            tally.checksum
        };
        assert_ne!(sum(["a", "b"], true), sum(["b", "a"], true));
        assert_eq!(sum(["a", "b"], false), sum(["b", "a"], false));
        assert_ne!(sum(["a", "b"], false), sum(["a", "a"], false));
    }
}
