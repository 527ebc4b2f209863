//! A connection to one endpoint.

use etcd_client::{Client, GetOptions, GetResponse, KvClient, ResponseHeader};
use etcd_client::{WatchClient, WatchOptions, WatchStream};

use crate::error::FollowError;
use crate::options::Options;
use crate::revisions::{check_cluster, number};

/// Keys per page of a snapshot. etcd reads the values too, though it does not send them.
const PAGE: i64 = 1_000;

/// The largest message that is accepted. etcd may send the first responses of a watch unfragmented.
const LARGEST_MESSAGE: usize = 256 << 20;

/// The smallest key.
const FIRST_KEY: &[u8] = &[0];

pub(crate) struct Connection {
    kv: KvClient,
    watch: WatchClient,
    /// The cluster of all responses.
    pub(crate) cluster: u64,
    /// The newest revision of the store, by the last read.
    pub(crate) newest: u64,
}

impl Connection {
    /// Connects, and asks for the newest revision. If no cluster is given, any will do.
    pub(crate) async fn open(
        endpoint: &str,
        options: &Options,
        cluster: Option<u64>,
    ) -> Result<Self, FollowError> {
        let connect = options.connect.clone().with_timeout(options.timeout);
        let connect = connect.with_connect_timeout(options.timeout);
        // A member without a leader sends no events.
        let connect = connect.with_require_leader(true);
        let client = Client::connect([endpoint], Some(connect)).await?;
        let kv = client.kv_client();
        let mut kv = kv.max_decoding_message_size(LARGEST_MESSAGE);
        let watch = client.watch_client();
        let watch = watch.max_decoding_message_size(LARGEST_MESSAGE);
        let first = kv
            .get(FIRST_KEY, Some(GetOptions::new().with_keys_only()))
            .await?;
        let header = header_of(&first)?;
        let cluster = cluster.unwrap_or(header.cluster_id());
        check_cluster(header.cluster_id(), cluster)?;
        let newest = number(header.revision())?;
        Ok(Self {
            kv,
            watch,
            cluster,
            newest,
        })
    }

    pub(crate) async fn ask_for_newest(&mut self) -> Result<(), FollowError> {
        let options = GetOptions::new().with_keys_only();
        self.range(FIRST_KEY.to_vec(), options).await.map(drop)
    }

    /// How many keys the store has. etcd counts them in its index, one by one.
    pub(crate) async fn count(&mut self) -> Result<u64, FollowError> {
        let options = GetOptions::new().with_all_keys().with_count_only();
        count_of(&self.range(Vec::new(), options).await?)
    }

    /// All keys at one revision, which is not before any that a client has seen. Returns it, and
    /// how many keys there are.
    pub(crate) async fn keys(
        &mut self,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(u64, u64), FollowError> {
        let options = GetOptions::new().with_from_key().with_keys_only();
        let mut options = options.with_limit(PAGE);
        let mut page = self.range(FIRST_KEY.to_vec(), options.clone()).await?;
        let (revision, count) = (self.newest, count_of(&page)?);
        options = options.with_revision(signed(revision)?);
        let mut read = 0;
        loop {
            page.kvs().iter().for_each(|kv| each(kv.key()));
            read += page.kvs().len() as u64;
            let (true, Some(last)) = (page.more() && read < count, page.kvs().last()) else {
                break;
            };
            let next = [last.key(), FIRST_KEY].concat();
            page = self.range(next, options.clone()).await?;
        }
        match read == count {
            true => Ok((revision, count)),
            false => Err(FollowError::Malformed("a snapshot lacks keys")),
        }
    }

    /// Watches all keys from a revision on, without progress notifications: they may run ahead of the
    /// events.
    pub(crate) async fn watch(&mut self, from: u64) -> Result<WatchStream, FollowError> {
        let options = WatchOptions::new().with_all_keys().with_fragment();
        let options = options.with_start_revision(signed(from)?);
        Ok(self.watch.watch(Vec::new(), Some(options)).await?)
    }

    /// A linearizable read.
    async fn range(
        &mut self,
        from: Vec<u8>,
        options: GetOptions,
    ) -> Result<GetResponse, FollowError> {
        let response = self.kv.get(from, Some(options)).await?;
        let header = header_of(&response)?;
        check_cluster(header.cluster_id(), self.cluster)?;
        self.newest = number(header.revision())?;
        Ok(response)
    }
}

fn header_of(response: &GetResponse) -> Result<&ResponseHeader, FollowError> {
    response.header().ok_or(FollowError::Malformed("no header"))
}

fn count_of(response: &GetResponse) -> Result<u64, FollowError> {
    u64::try_from(response.count()).map_err(|_| FollowError::Malformed("a negative count"))
}

fn signed(revision: u64) -> Result<i64, FollowError> {
    i64::try_from(revision).map_err(|_| FollowError::Malformed("a revision that is too large"))
}
