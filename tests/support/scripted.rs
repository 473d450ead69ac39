//! A server that answers each request with bytes that a test wrote, however wrong they are.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Ends when it is dropped.
pub(crate) struct Scripted {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
}

impl Scripted {
    /// `answer` is given the request's head and says what goes on the wire; the connection ends behind it.
    pub(crate) async fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let stop = CancellationToken::new();
        let (seen, answer) = (requests.clone(), Arc::new(answer));
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (seen, answer) = (seen.clone(), answer.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
                        match socket.read_buf(&mut head).await {
                            Ok(count) if count > 0 => {}
                            _ => return,
                        }
                    }
                    let head = String::from_utf8_lossy(&head).into_owned();
                    seen.lock().unwrap().push(head.lines().next().unwrap_or_default().to_owned());
                    // A client that has heard enough may leave.
                    let _ = socket.write_all(&answer(&head)).await;
                    let _ = socket.shutdown().await;
                });
            }
        }));
        Scripted { address, requests, stop }
    }

    /// `http://host:port`.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The first lines of the requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
