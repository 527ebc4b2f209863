//! Closing while hooks still notify: maintenance serves every request and stops once, and no thread
//! waits forever.

use std::sync::Arc;
use std::time::Duration;

use crate::interleavings::{at_once, explore, part};
use crate::wakeup::Wakeup;

/// Longer than any run: a checker has no clock.
const LONG: Duration = Duration::from_secs(3600);

/// The loop of `Maintenance::run`; returns how often it listed the SSTs.
fn attend(wakeup: &Wakeup) -> u32 {
    let mut listings = 0;
    loop {
        let (requests, ticket) = wakeup.wait_for_requests(LONG);
        listings += u32::from(requests.list);
        if requests.stop {
            wakeup.end();
            return listings;
        }
        wakeup.answer(ticket, None);
    }
}

#[test]
fn close_beside_notifications_serves_them_and_stops_once() {
    explore("bell_ring_close_attend", |turn| {
        let wakeup = Arc::new(Wakeup::default());
        let [hook, closer, maintenance] = [0; 3].map(|_| Arc::clone(&wakeup));
        let rings = move || (0..2).for_each(|_| hook.notify());
        let closes = move || {
            let ticket = closer.request(|requests| requests.list = true);
            assert_eq!(closer.wait_for(ticket, LONG), Ok(()));
            closer.request(|requests| requests.stop = true);
        };
        let attends = move || assert!(attend(&maintenance) >= 1, "a request was lost");
        at_once(turn, [part(rings), part(closes), part(attends)]);
        assert!(wakeup.stopping());
    });
}
