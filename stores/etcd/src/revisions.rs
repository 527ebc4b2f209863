//! Whole revisions from the responses of a watch.

use etcd_client::{EventType, WatchResponse};

use crate::error::FollowError;

/// A revision, and the keys that it put.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Revision {
    pub(crate) number: u64,
    pub(crate) keys: Vec<Vec<u8>>,
}

impl Revision {
    /// The revision that it comes after. In the whole key space each revision has an event.
    pub(crate) fn after(&self) -> u64 {
        self.number - 1
    }
}

/// Turns the responses of one watch of the whole key space into whole revisions.
#[derive(Debug)]
pub(crate) struct Revisions {
    cluster: u64,
    /// The last revision of a fragment, which the next fragment may continue.
    open: Option<Revision>,
}

impl Revisions {
    pub(crate) fn new(cluster: u64) -> Self {
        Self {
            cluster,
            open: None,
        }
    }

    /// The revisions that are whole with this response. Those that came before may come again: a
    /// member that was restored by the leader sends them a second time.
    pub(crate) fn push(&mut self, response: WatchResponse) -> Result<Vec<Revision>, FollowError> {
        let response = response.0;
        let header = response.header.ok_or(FollowError::Malformed("no header"))?;
        check_cluster(header.cluster_id, self.cluster)?;
        if response.compact_revision != 0 {
            return Err(FollowError::Compacted(number(response.compact_revision)?));
        }
        if response.canceled {
            return Err(FollowError::Ended(response.cancel_reason));
        }
        let may_continue = response.fragment || response.events.is_empty();
        let mut whole = Vec::new();
        let mut open = self.open.take();
        for event in response.events {
            let kv = event.kv.ok_or(FollowError::Malformed("no key"))?;
            let next = number(kv.mod_revision)?;
            // A deleted key was put before.
            let key = (event.r#type != EventType::Delete as i32).then_some(kv.key);
            match &mut open {
                Some(open) if open.number == next => open.keys.extend(key),
                Some(open) if open.number > next => {
                    return Err(FollowError::Malformed("events are not in order"));
                }
                _ => whole.extend(open.replace(Revision {
                    number: next,
                    keys: key.into_iter().collect(),
                })),
            }
        }
        if may_continue {
            self.open = open;
        } else {
            whole.extend(open);
        }
        Ok(whole)
    }
}

/// The number of a revision. The first is 1.
pub(crate) fn number(revision: i64) -> Result<u64, FollowError> {
    match u64::try_from(revision) {
        Ok(number @ 1..) => Ok(number),
        _ => Err(FollowError::Malformed("a revision that is not positive")),
    }
}

pub(crate) fn check_cluster(found: u64, expected: u64) -> Result<(), FollowError> {
    match found == expected {
        true => Ok(()),
        false => Err(FollowError::OtherCluster { found, expected }),
    }
}

#[cfg(test)]
mod tests {
    use etcd_client::proto::{PbEvent, PbKeyValue, PbResponseHeader, PbWatchResponse};

    use super::*;

    /// A response with events: a revision and a key each; a key that begins with `-` is deleted.
    fn response(events: &[(i64, &str)]) -> WatchResponse {
        let event = |&(mod_revision, key): &(i64, &str)| PbEvent {
            r#type: i32::from(key.starts_with('-')),
            kv: Some(PbKeyValue {
                key: key.into(),
                mod_revision,
                ..PbKeyValue::default()
            }),
            prev_kv: None,
        };
        WatchResponse(PbWatchResponse {
            header: Some(PbResponseHeader {
                cluster_id: 7,
                ..PbResponseHeader::default()
            }),
            events: events.iter().map(event).collect(),
            ..PbWatchResponse::default()
        })
    }

    fn fragment(events: &[(i64, &str)]) -> WatchResponse {
        let mut response = response(events);
        response.0.fragment = true;
        response
    }

    fn whole(revisions: &mut Revisions, response: WatchResponse) -> Vec<(u64, Vec<String>)> {
        let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
        let whole = revisions.push(response).unwrap().into_iter();
        whole
            .map(|revision| {
                (
                    revision.number,
                    revision.keys.into_iter().map(text).collect(),
                )
            })
            .collect()
    }

    fn keys(keys: &[&str]) -> Vec<String> {
        keys.iter().map(|&key| key.to_owned()).collect()
    }

    #[test]
    fn a_response_has_whole_revisions() {
        let mut revisions = Revisions::new(7);
        assert_eq!(whole(&mut revisions, response(&[])), []);
        let events = response(&[(4, "a"), (4, "-b"), (4, "c"), (5, "-a"), (6, "d")]);
        let expected = [(4, keys(&["a", "c"])), (5, keys(&[])), (6, keys(&["d"]))];
        assert_eq!(whole(&mut revisions, events), expected);
    }

    #[test]
    fn a_revision_waits_for_its_last_fragment() {
        let mut revisions = Revisions::new(7);
        let first = fragment(&[(4, "a"), (5, "b")]);
        assert_eq!(whole(&mut revisions, first), [(4, keys(&["a"]))]);
        assert_eq!(whole(&mut revisions, fragment(&[(5, "c")])), []);
        // Not an end of fragments.
        assert_eq!(whole(&mut revisions, response(&[])), []);
        let last = response(&[(5, "d"), (6, "e")]);
        let expected = [(5, keys(&["b", "c", "d"])), (6, keys(&["e"]))];
        assert_eq!(whole(&mut revisions, last), expected);
        assert_eq!(whole(&mut revisions, fragment(&[(7, "f")])), []);
        let expected = [(7, keys(&["f"])), (8, keys(&["g"]))];
        assert_eq!(whole(&mut revisions, response(&[(8, "g")])), expected);
    }

    #[test]
    fn revisions_may_come_again_and_be_left_out() {
        let mut revisions = Revisions::new(7);
        let events = response(&[(4, "a"), (6, "b")]);
        assert_eq!(whole(&mut revisions, events).len(), 2);
        let again = response(&[(4, "a"), (6, "b"), (7, "c")]);
        let numbers = whole(&mut revisions, again)
            .into_iter()
            .map(|(number, _)| number);
        assert_eq!(numbers.collect::<Vec<_>>(), [4, 6, 7]);
    }

    #[test]
    fn what_ends_a_watch_is_an_error() {
        let error = |response| Revisions::new(7).push(response).unwrap_err();
        let mut compacted = response(&[]);
        (compacted.0.canceled, compacted.0.compact_revision) = (true, 9);
        assert!(matches!(error(compacted), FollowError::Compacted(9)));
        let mut ended = response(&[]);
        ended.0.canceled = true;
        let ended = error(ended);
        assert!(matches!(ended, FollowError::Ended(_)) && !ended.is_loss());
        let mut other = response(&[(4, "a")]);
        other.0.header.as_mut().unwrap().cluster_id = 8;
        let other = error(other);
        assert!(matches!(other, FollowError::OtherCluster { found: 8, .. }) && !other.is_loss());
        let disorder = error(response(&[(5, "a"), (4, "b")]));
        assert!(matches!(disorder, FollowError::Malformed(_)) && disorder.is_loss());
    }
}
