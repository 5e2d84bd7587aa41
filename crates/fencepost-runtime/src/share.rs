//! Fair share of slots, as arithmetic: how many a worker takes, and when it gives one back.

/// The most slots that a worker takes by itself: n / live, rounded up, so that all slots are taken by somebody.
pub(crate) fn ceiling(slots: u32, workers: u32) -> u32 {
    slots.div_ceil(workers.max(1))
}

/// Whether a worker gives one slot back: it has more than n / live, rounded down, and a live worker has fewer than that.
pub(crate) fn gives_back(held: u32, fewest: u32, slots: u32, workers: u32) -> bool {
    let floor = slots / workers.max(1);
    held > floor && fewest < floor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_slots_are_taken_and_nobody_starves() {
        for slots in 1..=16 {
            for workers in 1..=20_u32 {
                assert!(ceiling(slots, workers) * workers >= slots, "{slots} slots, {workers} workers");
            }
        }
    }

    /// From any distribution, giving back one slot at a time and letting the neediest take it ends with everybody at the floor
    /// or above, and then nobody gives anything back.
    #[test]
    fn giving_back_converges() {
        for slots in 1..=16 {
            for workers in 1..=6 {
                let mut held = vec![0; workers as usize];
                held[0] = slots;
                let mut rounds = 0;
                while let Some(giver) = (0..held.len())
                    .find(|worker| gives_back(held[*worker], *held.iter().min().unwrap(), slots, workers))
                {
                    held[giver] -= 1;
                    *held.iter_mut().min().unwrap() += 1;
                    rounds += 1;
                    assert!(rounds <= slots);
                }
                assert!(held.iter().all(|count| *count >= slots / workers), "{held:?}");
            }
        }
    }
}
