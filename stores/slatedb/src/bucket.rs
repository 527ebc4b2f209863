//! The objects of `sieve/`, beside the data of one database.
//!
//! ```text
//! <database>/sieve/identity             store id and secret seed: created once, never replaced
//! <database>/sieve/current              the newest publication
//! <database>/sieve/<manifest id>.sieve  the summary of a manifest, 20 digits
//! <database>/sieve/<SST id>.sieve       the filter of an SST that has none inside
//! ```
//!
//! Their names prove nothing: a client that may write these objects may write any bytes. So each
//! object is checked by its contents, and no size is trusted.

use crate::binding::Binding;
use crate::error::BucketError;
use bytes::Bytes;
use lsm_sieve_filter::hash::{HashId, Seed};
use lsm_sieve_format::format::{
    Identity, MAX_HEADER_BYTES, StoreId, decode_header, decode_identity, encode_identity,
};
use slatedb::object_store::{
    Error, GetOptions, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload,
    path::Path,
};
use std::fmt;
use std::sync::Arc;

/// An identity file has 60 bytes; a newer version may have some more.
const MOST_IDENTITY_BYTES: u64 = 4_096;

/// Where a database lies, and the identity that its filters are bound to.
#[derive(Clone)]
pub struct Bucket {
    path: Path,
    store: Arc<dyn ObjectStore>,
    binding: Binding,
}

impl Bucket {
    /// Opens the bucket of a database for readers.
    ///
    /// # Errors
    /// If `sieve/identity` does not exist, is damaged, or cannot be read.
    pub async fn open(
        path: impl Into<Path>,
        store: Arc<dyn ObjectStore>,
    ) -> Result<Self, BucketError> {
        let path = path.into();
        let at = identity_path(&path);
        let found = get(&store, &at, MOST_IDENTITY_BYTES).await?;
        let bytes = found.ok_or_else(|| BucketError::NoIdentity(at.clone()))?;
        let identity = decode_identity(&bytes);
        let identity = identity.map_err(|source| BucketError::Format { path: at, source })?;
        Ok(Self::of(path, store, &identity))
    }

    /// Opens the bucket of a database for a writer or publisher. Creates an identity if there is
    /// none. The database itself need not exist yet.
    ///
    /// # Errors
    /// If the identity is damaged, or cannot be read or written.
    pub async fn create(
        path: impl Into<Path>,
        store: Arc<dyn ObjectStore>,
    ) -> Result<Self, BucketError> {
        let path = path.into();
        match Self::open(path.clone(), store.clone()).await {
            Err(BucketError::NoIdentity(_)) => {}
            other => return other,
        }
        let identity = Identity {
            store: StoreId::random()?,
            hash: HashId::default(),
            seed: Seed::random()?,
        };
        let bytes = encode_identity(&identity);
        // Of several that create one, a single one wins; the others read it.
        let at = identity_path(&path);
        put(&store, &at, bytes.into(), PutMode::Create).await?;
        Self::open(path, store).await
    }

    fn of(path: Path, store: Arc<dyn ObjectStore>, identity: &Identity) -> Self {
        Self {
            path,
            store,
            binding: Binding::new(identity),
        }
    }

    /// The path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The object store.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    pub(crate) fn binding(&self) -> &Binding {
        &self.binding
    }

    pub(crate) fn current_path(&self) -> Path {
        folder(&self.path).join("current")
    }

    pub(crate) fn summary_path(&self, manifest: u64) -> Path {
        folder(&self.path).join(format!("{manifest:020}.sieve"))
    }

    /// The path of the stored filter of the SST of this name.
    pub(crate) fn segment_path(&self, sst: &str) -> Path {
        folder(&self.path).join(format!("{sst}.sieve"))
    }

    pub(crate) fn folder(&self) -> Path {
        folder(&self.path)
    }

    /// The bytes of an object; `None` if it does not exist.
    pub(crate) async fn get(&self, path: &Path, most: u64) -> Result<Option<Bytes>, BucketError> {
        get(&self.store, path, most).await
    }

    /// Creates an object; false if it exists.
    pub(crate) async fn create_object(
        &self,
        path: &Path,
        bytes: Bytes,
    ) -> Result<bool, BucketError> {
        put(&self.store, path, bytes, PutMode::Create).await
    }

    /// Stores a filter, or replaces one that is of no use.
    ///
    /// # Errors
    /// If the store fails, or the existing filter is of a newer version.
    pub(crate) async fn put_filter(&self, path: &Path, bytes: Bytes) -> Result<(), BucketError> {
        if self.create_object(path, bytes.clone()).await? {
            return Ok(());
        }
        self.refuse_newer(path).await?;
        put(&self.store, path, bytes, PutMode::Overwrite).await?;
        Ok(())
    }

    /// # Errors
    /// If the filter is intact but of a newer version.
    async fn refuse_newer(&self, path: &Path) -> Result<(), BucketError> {
        let start = self.store.get_range(path, 0..MAX_HEADER_BYTES as u64).await;
        match start.map(|start| decode_header(&start)) {
            Ok(Err(source)) if source.is_newer() => Err(BucketError::Format {
                path: path.clone(),
                source,
            }),
            // Whatever else it is, it is of no use.
            _ => Ok(()),
        }
    }
}

/// Without the seed.
impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bucket = f.debug_struct("Bucket");
        bucket
            .field("path", &self.path)
            .field("binding", &self.binding);
        bucket.finish_non_exhaustive()
    }
}

fn folder(path: &Path) -> Path {
    path.clone().join("sieve")
}

fn identity_path(path: &Path) -> Path {
    folder(path).join("identity")
}

/// The bytes of an object of at most `most` bytes; `None` if it does not exist.
pub(crate) async fn get(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    most: u64,
) -> Result<Option<Bytes>, BucketError> {
    match store.get_opts(path, GetOptions::default()).await {
        Ok(found) => read(found, path, most).await.map(|(bytes, _)| Some(bytes)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(source) => Err(failed("read", path, source)),
    }
}

/// The bytes of an object that was found. Nothing is read if there are too many.
pub(crate) async fn read(
    found: GetResult,
    path: &Path,
    most: u64,
) -> Result<(Bytes, ObjectMeta), BucketError> {
    let meta = found.meta.clone();
    if meta.size > most {
        return Err(BucketError::TooLarge {
            path: path.clone(),
            found: meta.size,
            most,
        });
    }
    let bytes = found.bytes().await;
    Ok((bytes.map_err(|source| failed("read", path, source))?, meta))
}

async fn put(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    bytes: Bytes,
    mode: PutMode,
) -> Result<bool, BucketError> {
    let payload = PutPayload::from_bytes(bytes);
    match store.put_opts(path, payload, mode.into()).await {
        Ok(_) => Ok(true),
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
        Err(source) => Err(failed("write", path, source)),
    }
}

/// Removes an object; one that is gone already counts as removed.
pub(crate) async fn delete(store: &Arc<dyn ObjectStore>, path: &Path) -> Result<(), BucketError> {
    match store.delete(path).await {
        Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
        Err(source) => Err(failed("delete", path, source)),
    }
}

pub(crate) fn failed(action: &'static str, path: &Path, source: Error) -> BucketError {
    BucketError::Store {
        action,
        path: path.clone(),
        source: Box::new(source),
    }
}
