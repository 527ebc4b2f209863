//! Closing while hooks still ring: upkeep hears every call, ends once, and nobody waits for ever.

use std::sync::Arc;
use std::time::Duration;

use super::super::bell::Bell;
use crate::interleavings::{at_once, explore, part};

/// Longer than any run: a checker has no clock.
const LONG: Duration = Duration::from_secs(3600);

/// As `Upkeep::run` does it; returns how often it looked at the tables.
fn attend(bell: &Bell) -> u32 {
    let mut looks = 0;
    loop {
        let (calls, ticket) = bell.listen(LONG);
        looks += u32::from(calls.look);
        bell.answer(ticket, None);
        if calls.stop {
            return looks;
        }
    }
}

#[test]
fn closing_waits_for_upkeep_and_upkeep_for_nobody() {
    explore("bell_ring_close_attend", |turn| {
        let bell = Arc::new(Bell::default());
        let [hook, closer, upkeep] = [0; 3].map(|_| Arc::clone(&bell));
        let rings = move || (0..2).for_each(|_| hook.ring());
        let closes = move || {
            let ticket = closer.call(|calls| calls.look = true);
            assert_eq!(closer.wait_for(ticket, LONG), None);
            closer.call(|calls| calls.stop = true);
        };
        let attends = move || assert!(attend(&upkeep) >= 1, "a call was not heard");
        at_once(turn, [part(rings), part(closes), part(attends)]);
        assert!(bell.stopping());
    });
}
