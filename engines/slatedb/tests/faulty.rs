//! An object store that counts requests, and fails, delays or damages those that a test picks.

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

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Put,
}

/// What happens to a request.
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
}

type Rule = dyn Fn(Verb, &str) -> Option<Fault> + Send + Sync;

pub(crate) struct Faulty {
    inner: Arc<dyn ObjectStore>,
    rule: RwLock<Option<Box<Rule>>>,
    gets: AtomicU64,
    puts: AtomicU64,
    lists: AtomicU64,
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
            rule: RwLock::default(),
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
        *self.rule.write().unwrap() = Some(Box::new(rule));
    }

    pub(crate) fn heal(&self) {
        *self.rule.write().unwrap() = None;
    }

    fn fault(&self, verb: Verb, path: &Path) -> Option<Fault> {
        let rule = self.rule.read().unwrap();
        rule.as_ref().and_then(|rule| rule(verb, path.as_ref()))
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
        match self.fault(Verb::Put, path) {
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
            Some(Fault::Delay(by)) => tokio::time::sleep(by).await,
            Some(Fault::Flip(_)) | None => {}
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
        let fault = self.fault(Verb::Get, path);
        match fault {
            Some(Fault::Fail | Fault::LoseReply) => return Err(failed()),
            Some(Fault::Delay(by)) => tokio::time::sleep(by).await,
            _ => {}
        }
        let found = self.inner.get_opts(path, options).await?;
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
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.inner.list(prefix)
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
