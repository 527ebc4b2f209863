//! A way to a port of 127.0.0.1 that can be cut.

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Ends with the runtime.
pub(crate) struct Door {
    port: u16,
    is_open: watch::Sender<bool>,
}

impl Door {
    pub(crate) async fn to(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_open = watch::Sender::new(true);
        let opened = is_open.subscribe();
        tokio::spawn(async move {
            while let Ok((inside, _)) = listener.accept().await {
                if *opened.borrow() {
                    tokio::spawn(carry(inside, target, opened.clone()));
                }
            }
        });
        Self { port, is_open }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends all connections and refuses others, or accepts them again.
    pub(crate) fn open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }
}

async fn carry(mut inside: TcpStream, target: u16, mut opened: watch::Receiver<bool>) {
    if let Ok(mut outside) = TcpStream::connect(("127.0.0.1", target)).await {
        tokio::select! {
            _ = copy_bidirectional(&mut inside, &mut outside) => {}
            _ = opened.wait_for(|is_open| !is_open) => {}
        }
    }
}
