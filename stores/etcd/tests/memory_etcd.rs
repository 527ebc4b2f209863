//! An etcd server in memory, as far as a follower needs one, with faults. It serves over a real
//! connection on 127.0.0.1.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lsm_sieve_etcd::etcd_client::EventType;
use lsm_sieve_etcd::etcd_client::proto::{
    PbCompactionRequest, PbCompactionResponse, PbDeleteRequest, PbDeleteResponse, PbEvent,
    PbKeyValue, PbKvServer, PbKvService, PbPutRequest, PbPutResponse, PbRangeRequest,
    PbRangeResponse, PbRangeStreamResponse, PbResponseHeader, PbTxnRequest, PbTxnResponse,
    PbWatchRequest, PbWatchRequestUnion, PbWatchResponse, PbWatchServer, PbWatchService,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

pub(crate) type Key = Vec<u8>;

/// What a revision did: keys that it put, and keys that it deleted.
pub(crate) type Change = Vec<(Key, bool)>;

/// The keys of a store at each of its revisions. The first revision is 1, and has none.
#[derive(Clone, Default)]
pub(crate) struct Model {
    changes: Vec<Change>,
    /// Of each key: revisions, and whether they put it.
    keys: BTreeMap<Key, Vec<(u64, bool)>>,
}

impl Model {
    pub(crate) fn newest(&self) -> u64 {
        1 + self.changes.len() as u64
    }

    pub(crate) fn write(&mut self, change: Change) -> u64 {
        let revision = self.newest() + 1;
        for (key, is_put) in &change {
            let history = self.keys.entry(key.clone()).or_default();
            history.push((revision, *is_put));
        }
        self.changes.push(change);
        revision
    }

    /// The keys at a revision, from one on.
    fn keys(&self, revision: u64, from: Key) -> impl Iterator<Item = &Key> {
        let keys = self.keys.range(from..);
        let there = keys.filter(move |(_, history)| was_there(history, revision));
        there.map(|(key, _)| key)
    }

    /// Whether the key was absent at some revision from `at_least` on.
    pub(crate) fn was_absent(&self, key: &[u8], at_least: u64) -> bool {
        let history = self.keys.get(key).map_or(&[][..], Vec::as_slice);
        let mut later = history.iter().filter(|(revision, _)| *revision > at_least);
        at_least <= self.newest()
            && (!was_there(history, at_least) || later.any(|(_, is_put)| !is_put))
    }

    fn events(&self, revision: u64) -> Vec<PbEvent> {
        let change = self.changes[revision as usize - 2].iter();
        let event = |(key, is_put): &(Key, bool)| PbEvent {
            r#type: if *is_put {
                EventType::Put
            } else {
                EventType::Delete
            } as i32,
            kv: Some(PbKeyValue {
                key: key.clone(),
                mod_revision: revision as i64,
                ..PbKeyValue::default()
            }),
            prev_kv: None,
        };
        change.map(event).collect()
    }
}

fn was_there(history: &[(u64, bool)], revision: u64) -> bool {
    let known = history.iter().take_while(|(at, _)| *at <= revision);
    known.last().is_some_and(|(_, is_put)| *is_put)
}

/// What goes wrong, once in this many cases; 0 means never.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Revisions that the watch leaves out.
    pub(crate) left_out: u32,
    /// Responses before which the watch goes back to revisions that it sent.
    pub(crate) repeated: u32,
    /// Responses after which the watch sends nothing any more.
    pub(crate) silent: u32,
    /// Responses before which the watch tells of a revision whose events it has not sent.
    pub(crate) ahead: u32,
    /// Puts whose event has another key: no follower can notice that.
    pub(crate) replaced: u32,
}

/// The state of the server.
pub(crate) struct State {
    pub(crate) model: Model,
    pub(crate) cluster: u64,
    /// Revisions before this one cannot be watched or read.
    pub(crate) compacted: u64,
    pub(crate) faults: Faults,
    /// Watches and snapshots that began.
    pub(crate) watches: u64,
    pub(crate) snapshots: u64,
    /// Pages of snapshots, from the next on, that lack a key.
    pub(crate) short_pages: u64,
    /// What the next watch sends after its first response, instead of events.
    pub(crate) responses: Vec<PbWatchResponse>,
    rng: StdRng,
}

impl State {
    fn header(&self) -> Option<PbResponseHeader> {
        Some(PbResponseHeader {
            cluster_id: self.cluster,
            member_id: 1,
            revision: self.model.newest() as i64,
            raft_term: 1,
        })
    }

    fn is_hit(&mut self, one_in: u32) -> bool {
        one_in > 0 && self.rng.random_ratio(1, one_in)
    }

    fn range(&mut self, request: &PbRangeRequest) -> Result<PbRangeResponse, Status> {
        let newest = self.model.newest();
        let at = match request.revision as u64 {
            0 => newest,
            at if at < self.compacted => return Err(Status::out_of_range("compacted")),
            at => at,
        };
        if request.limit > 0 && request.revision == 0 {
            self.snapshots += 1;
        }
        let is_all = !request.range_end.is_empty();
        let keys = self.model.keys(at, request.key.clone());
        let in_range = keys.filter(|key| is_all || **key == request.key);
        let keys: Vec<Key> = in_range.cloned().collect();
        let limit = if request.limit > 0 {
            request.limit as usize
        } else {
            usize::MAX
        };
        let kv = |key: &Key| PbKeyValue {
            key: key.clone(),
            ..PbKeyValue::default()
        };
        let mut sent = if request.count_only {
            0
        } else {
            limit.min(keys.len())
        };
        if request.limit > 0 && self.short_pages > 0 {
            self.short_pages -= 1;
            sent -= 1;
        }
        Ok(PbRangeResponse {
            header: self.header(),
            kvs: keys.iter().take(sent).map(kv).collect(),
            more: keys.len() > limit,
            count: keys.len() as i64,
        })
    }

    /// The next responses of a watch that is at revision `next`, which they move.
    fn responses(&mut self, next: &mut u64) -> Vec<PbWatchResponse> {
        if *next < self.compacted {
            return vec![PbWatchResponse {
                header: self.header(),
                canceled: true,
                compact_revision: self.compacted as i64,
                ..PbWatchResponse::default()
            }];
        }
        if self.is_hit(self.faults.repeated) {
            *next = (*next - self.rng.random_range(0..*next))
                .max(self.compacted)
                .max(2);
        }
        let first = *next;
        let most = if self.faults.left_out == 0 { 8 } else { 3 };
        let last = self
            .model
            .newest()
            .min(first + self.rng.random_range(0..most));
        let mut events = Vec::new();
        for revision in first..=last {
            if !self.is_hit(self.faults.left_out) {
                events.extend(self.model.events(revision));
            }
        }
        *next = last + 1;
        for event in &mut events {
            if event.r#type == EventType::Put as i32 && self.is_hit(self.faults.replaced) {
                event.kv.as_mut().unwrap().key = b"another".to_vec();
            }
        }
        let mut fragments = Vec::new();
        if self.is_hit(self.faults.ahead) {
            fragments.push(PbWatchResponse {
                header: self.header(),
                ..PbWatchResponse::default()
            });
        }
        while !events.is_empty() {
            let at = self.rng.random_range(1..=events.len());
            let rest = events.split_off(at);
            fragments.push(PbWatchResponse {
                header: self.header(),
                fragment: !rest.is_empty(),
                events: std::mem::replace(&mut events, rest),
                ..PbWatchResponse::default()
            });
        }
        fragments
    }
}

/// A server; it ends with the runtime.
#[derive(Clone)]
pub(crate) struct MemoryEtcd {
    state: Arc<Mutex<State>>,
    /// A new value for each write, and each cut.
    changed: watch::Sender<u64>,
    cuts: watch::Sender<u64>,
    port: u16,
}

impl MemoryEtcd {
    pub(crate) async fn start(seed: u64, cluster: u64) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let state = State {
            model: Model::default(),
            cluster,
            compacted: 0,
            faults: Faults::default(),
            watches: 0,
            snapshots: 0,
            short_pages: 0,
            responses: Vec::new(),
            rng: StdRng::seed_from_u64(seed),
        };
        let etcd = Self {
            state: Arc::new(Mutex::new(state)),
            changed: watch::Sender::new(0),
            cuts: watch::Sender::new(0),
            port: listener.local_addr().unwrap().port(),
        };
        let server = Server::builder()
            .add_service(PbKvServer::new(etcd.clone()))
            .add_service(PbWatchServer::new(etcd.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        etcd
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn newest(&self) -> u64 {
        self.state().model.newest()
    }

    pub(crate) fn write(&self, change: Change) -> u64 {
        let revision = self.state().model.write(change);
        self.changed.send_modify(|count| *count += 1);
        revision
    }

    /// Ends all watches.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    async fn send(
        self,
        mut requests: Streaming<PbWatchRequest>,
        sender: mpsc::Sender<Result<PbWatchResponse, Status>>,
    ) -> Option<()> {
        let request = requests.message().await.ok()??.request_union?;
        let PbWatchRequestUnion::CreateRequest(request) = request else {
            return None;
        };
        let mut next = request.start_revision as u64;
        let mut changed = self.changed.subscribe();
        let planned = {
            let mut state = self.state();
            state.watches += 1;
            let created = PbWatchResponse {
                header: state.header(),
                created: true,
                ..PbWatchResponse::default()
            };
            let rest = std::mem::take(&mut state.responses);
            [vec![created], rest].concat()
        };
        for response in planned {
            sender.send(Ok(response)).await.ok()?;
        }
        loop {
            changed.borrow_and_update();
            loop {
                let (responses, is_silent) = {
                    let mut state = self.state();
                    if next > state.model.newest() && next >= state.compacted {
                        break;
                    }
                    let one_in = state.faults.silent;
                    (state.responses(&mut next), state.is_hit(one_in))
                };
                for response in responses {
                    let is_over = response.canceled;
                    sender.send(Ok(response)).await.ok()?;
                    if is_over {
                        return None;
                    }
                }
                if is_silent {
                    tokio::time::sleep(Duration::from_secs(3600)).await;
                }
            }
            changed.changed().await.ok()?;
        }
    }
}

#[tonic::async_trait]
impl PbWatchService for MemoryEtcd {
    type WatchStream = ReceiverStream<Result<PbWatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<PbWatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (sender, responses) = mpsc::channel(4);
        let (etcd, mut cuts) = (self.clone(), self.cuts.subscribe());
        tokio::spawn(async move {
            let cut = sender.clone();
            tokio::select! {
                _ = etcd.send(request.into_inner(), sender) => {}
                _ = cuts.changed() => {
                    let _ = cut.send(Err(Status::unavailable("cut"))).await;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(responses)))
    }
}

#[tonic::async_trait]
impl PbKvService for MemoryEtcd {
    type RangeStreamStream = ReceiverStream<Result<PbRangeStreamResponse, Status>>;

    async fn range_stream(
        &self,
        _: Request<PbRangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(Status::unimplemented("range_stream"))
    }

    async fn range(
        &self,
        request: Request<PbRangeRequest>,
    ) -> Result<Response<PbRangeResponse>, Status> {
        self.state().range(request.get_ref()).map(Response::new)
    }

    async fn put(&self, _: Request<PbPutRequest>) -> Result<Response<PbPutResponse>, Status> {
        Err(Status::unimplemented("put"))
    }

    async fn delete_range(
        &self,
        _: Request<PbDeleteRequest>,
    ) -> Result<Response<PbDeleteResponse>, Status> {
        Err(Status::unimplemented("delete"))
    }

    async fn txn(&self, _: Request<PbTxnRequest>) -> Result<Response<PbTxnResponse>, Status> {
        Err(Status::unimplemented("txn"))
    }

    async fn compact(
        &self,
        _: Request<PbCompactionRequest>,
    ) -> Result<Response<PbCompactionResponse>, Status> {
        Err(Status::unimplemented("compact"))
    }
}
