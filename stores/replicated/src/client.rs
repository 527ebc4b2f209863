//! A client, which sends writes to the leader.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::{Network, Request};

/// What a client knows of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A majority has it, and the leader has applied it.
    Acknowledged {
        /// The index of its entry.
        index: u64,
        /// Whether it changed anything.
        changed: bool,
    },
    /// It was done, or will be, or will never be.
    Unknown,
}

/// Sends writes to the leader.
#[derive(Clone)]
pub struct Client {
    network: Network,
}

impl Client {
    pub(crate) fn new(network: Network) -> Self {
        Self { network }
    }

    /// Sends a write once, as soon as there is a leader.
    pub async fn write(&self, request: Request) -> Outcome {
        let leader = async {
            loop {
                match self.network.leader() {
                    Some((_, leader)) => return leader,
                    None => sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let Ok(leader) = timeout(Duration::from_secs(30), leader).await else {
            return Outcome::Unknown;
        };
        let write = leader.raft.client_write(request);
        let answer = timeout(Duration::from_secs(1), write).await;
        match answer {
            // What a killed node still answers may not be on its disk.
            Ok(Ok(answer)) if leader.link.is_up() => Outcome::Acknowledged {
                index: answer.log_id.index,
                changed: answer.data.changed,
            },
            _ => Outcome::Unknown,
        }
    }
}
