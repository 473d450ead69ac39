//! The server's ear for orders: one line of JSON in, one line of JSON out, on loopback.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::builds::Builds;
use crate::people::{People, SetupToken};
use crate::platform::files::write_private_file_atomically;

use super::{Done, FILE, Order, Refusal, carry_out};

/// An order is a few hundred bytes.
pub(super) const LONGEST_LINE: u64 = 64 << 10;
/// Anybody on this machine can connect; who does not know the secret gets neither time nor room.
const LISTENING: Duration = Duration::from_secs(20);
const AT_ONCE: usize = 8;
/// The longest order walks an audit log of a year.
const PATIENCE: Duration = Duration::from_secs(300);

/// What the file says.
#[derive(Serialize, Deserialize)]
pub(super) struct Door {
    pub(super) address: SocketAddr,
    pub(super) secret: String,
}

/// What comes over the connection.
#[derive(Serialize, Deserialize)]
pub(super) struct Letter {
    pub(super) secret: String,
    pub(super) order: Order,
}

/// What goes back.
pub(super) type Reply = Result<Done, Refusal>;

/// Listens until it is dropped; then the file goes too.
pub struct ControlServer {
    file: PathBuf,
    _stop: DropGuard,
}

impl ControlServer {
    /// Listens on a free port of loopback and writes the file. Without `builds` there is nothing to drain.
    pub async fn start(data_dir: &Path, people: People, setup_token: SetupToken, builds: Option<Builds>) -> io::Result<ControlServer> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|_| io::Error::other("the operating system gave no random bytes"))?;
        let secret: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let door = serde_json::to_vec(&Door { address: listener.local_addr()?, secret: secret.clone() })?;
        let file = data_dir.join(FILE);
        write_private_file_atomically(&file, &door)?;
        let stop = CancellationToken::new();
        let clerk = Arc::new(Clerk { secret, people, setup_token, builds });
        tokio::spawn(stop.clone().run_until_cancelled_owned(listen(listener, clerk)));
        Ok(ControlServer { file, _stop: stop.drop_guard() })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

struct Clerk {
    secret: String,
    people: People,
    setup_token: SetupToken,
    builds: Option<Builds>,
}

async fn listen(listener: TcpListener, clerk: Arc<Clerk>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let clerk = clerk.clone();
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(PATIENCE, clerk.attend(stream)).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

impl Clerk {
    async fn obey(&self, order: Order) -> Reply {
        match (order, &self.builds) {
            (Order::Drain, Some(builds)) => {
                let running = builds.drain().running;
                Ok(Done::Draining { running: running.iter().map(ToString::to_string).collect() })
            }
            (Order::EndDrain, Some(builds)) => {
                builds.end_drain();
                Ok(Done::DrainEnded)
            }
            (order, _) => carry_out(&self.people, &self.setup_token, order).await,
        }
    }

    async fn attend(&self, stream: TcpStream) -> io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut line = Vec::new();
        let mut reader = BufReader::new(reader.take(LONGEST_LINE));
        tokio::time::timeout(LISTENING, reader.read_until(b'\n', &mut line)).await.map_err(io::Error::from)??;
        let reply = match serde_json::from_slice::<Letter>(&line) {
            Ok(letter) if letter.secret.as_bytes().ct_eq(self.secret.as_bytes()).into() => self.obey(letter.order).await,
            // A stranger learns nothing, not even whether the order was well formed.
            _ => Err(Refusal { message: "refused".into() }),
        };
        let mut answer = serde_json::to_vec(&reply)?;
        answer.push(b'\n');
        writer.write_all(&answer).await?;
        writer.shutdown().await
    }
}
