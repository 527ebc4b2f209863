//! An object store that counts requests, and fails, delays, holds or damages those that a test picks.

use futures::stream::{BoxStream, StreamExt, once};
use lsm_sieve_slatedb::slatedb::bytes::Bytes;
use lsm_sieve_slatedb::slatedb::object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    memory::InMemory, path::Path,
};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Put,
    List,
    Delete,
}

/// What happens to a request. Lists and deletions are delayed or held, or nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Nothing is done, and an error reported.
    Fail,
    /// It is done, and an error reported.
    LoseReply,
    /// It is done later, and so after others that came later.
    Delay(Duration),
    /// A read ends early; a write leaves the first half and reports an error.
    Tear,
    /// One byte of what is read is another.
    Flip(usize),
    /// It is done once the test releases it.
    Hold,
    /// A read is done, and its reply comes once the test releases it.
    HoldReply,
}

type Rule = dyn Fn(Verb, &str) -> Option<Fault> + Send + Sync;

pub(crate) struct Faulty {
    inner: Arc<dyn ObjectStore>,
    faults: Arc<Faults>,
    gets: AtomicU64,
    puts: AtomicU64,
    lists: AtomicU64,
}

struct Faults {
    rule: RwLock<Option<Box<Rule>>>,
    /// Requests that are held now.
    held: watch::Sender<u64>,
    released: Semaphore,
}

impl Faults {
    fn of(&self, verb: Verb, path: &Path) -> Option<Fault> {
        let rule = self.rule.read().unwrap();
        rule.as_ref().and_then(|rule| rule(verb, path.as_ref()))
    }

    async fn wait(&self, fault: Option<Fault>) {
        match fault {
            Some(Fault::Delay(by)) => tokio::time::sleep(by).await,
            Some(Fault::Hold) => self.hold().await,
            _ => {}
        }
    }

    async fn hold(&self) {
        self.held.send_modify(|held| *held += 1);
        self.released.acquire().await.unwrap().forget();
    }
}

/// Requests since they were counted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) gets: u64,
    pub(crate) puts: u64,
    pub(crate) lists: u64,
}

impl Faulty {
    pub(crate) fn new() -> Arc<Self> {
        Self::over(Arc::new(InMemory::new()))
    }

    pub(crate) fn over(inner: Arc<dyn ObjectStore>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            faults: Arc::new(Faults {
                rule: RwLock::default(),
                held: watch::Sender::new(0),
                released: Semaphore::new(0),
            }),
            gets: AtomicU64::new(0),
            puts: AtomicU64::new(0),
            lists: AtomicU64::new(0),
        })
    }

    /// The requests since the last call.
    pub(crate) fn take(&self) -> Requests {
        let take = |count: &AtomicU64| count.swap(0, Ordering::SeqCst);
        Requests {
            gets: take(&self.gets),
            puts: take(&self.puts),
            lists: take(&self.lists),
        }
    }

    pub(crate) fn set(&self, rule: impl Fn(Verb, &str) -> Option<Fault> + Send + Sync + 'static) {
        *self.faults.rule.write().unwrap() = Some(Box::new(rule));
    }

    pub(crate) fn heal(&self) {
        *self.faults.rule.write().unwrap() = None;
    }

    /// Holds one of the requests that are picked, the one after this many others.
    pub(crate) fn hold_after(
        &self,
        others: u64,
        fault: Fault,
        is_picked: impl Fn(Verb, &str) -> bool + Send + Sync + 'static,
    ) {
        let seen = AtomicU64::new(0);
        self.set(move |verb, path| {
            let is_next = is_picked(verb, path) && seen.fetch_add(1, Ordering::SeqCst) == others;
            is_next.then_some(fault)
        });
    }

    /// Waits until a request of this work is held; false if the work ends without.
    pub(crate) async fn holds<T>(&self, work: &JoinHandle<T>) -> bool {
        let mut held = self.faults.held.subscribe();
        while *held.borrow_and_update() == 0 && !work.is_finished() {
            let _ = tokio::time::timeout(Duration::from_millis(1), held.changed()).await;
        }
        *held.borrow() > 0
    }

    /// Lets the request go on that is held.
    pub(crate) fn release(&self) {
        let count = |held: &mut u64| *held = held.saturating_sub(1);
        self.faults.held.send_modify(count);
        self.faults.released.add_permits(1);
    }
}

fn failed() -> Error {
    Error::Generic {
        store: "faulty",
        source: "a fault of a test".into(),
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        let fault = self.faults.of(Verb::Put, path);
        self.faults.wait(fault).await;
        match fault {
            Some(Fault::Fail) => return Err(failed()),
            Some(Fault::LoseReply) => {
                self.inner.put_opts(path, payload, options).await?;
                return Err(failed());
            }
            Some(Fault::Tear) => {
                let bytes = Bytes::from(payload);
                let half = bytes.slice(..bytes.len() / 2);
                self.inner.put_opts(path, half.into(), options).await?;
                return Err(failed());
            }
            _ => {}
        }
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        let fault = self.faults.of(Verb::Get, path);
        self.faults.wait(fault).await;
        if let Some(Fault::Fail | Fault::LoseReply) = fault {
            return Err(failed());
        }
        let found = self.inner.get_opts(path, options).await;
        if let Some(Fault::HoldReply) = fault {
            self.faults.hold().await;
        }
        let found = found?;
        match fault {
            Some(Fault::Tear) => damaged(found, |bytes| bytes.truncate(bytes.len() / 2)).await,
            Some(Fault::Flip(at)) => {
                damaged(found, |bytes| {
                    let at = at % bytes.len();
                    bytes[at] ^= 0x10;
                })
                .await
            }
            _ => Ok(found),
        }
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let faults = self.faults.clone();
        let wait = move |path: Result<Path>| {
            let faults = faults.clone();
            async move {
                if let Ok(path) = &path {
                    faults.wait(faults.of(Verb::Delete, path)).await;
                }
                path
            }
        };
        self.inner.delete_stream(paths.then(wait).boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        let (inner, faults) = (self.inner.clone(), self.faults.clone());
        let prefix = prefix.cloned();
        once(async move {
            let folder = prefix.clone().unwrap_or_default();
            faults.wait(faults.of(Verb::List, &folder)).await;
            inner.list(prefix.as_ref())
        })
        .flatten()
        .boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

async fn damaged(found: GetResult, damage: impl FnOnce(&mut Vec<u8>)) -> Result<GetResult> {
    let (meta, range) = (found.meta.clone(), found.range.clone());
    let (attributes, extensions) = (found.attributes.clone(), found.extensions.clone());
    let mut bytes = found.bytes().await?.to_vec();
    damage(&mut bytes);
    let bytes = Bytes::from(bytes);
    Ok(GetResult {
        payload: GetResultPayload::Stream(once(async move { Ok(bytes) }).boxed()),
        meta,
        range,
        attributes,
        extensions,
    })
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({})", self.inner)
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({})", self.inner)
    }
}
