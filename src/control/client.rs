//! The command line's side: hands an order to the server that holds the data directory.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server::{Door, LONGEST_LINE, Letter, Reply};
use super::{Done, FILE, Order, Refusal};

/// The longest order walks an audit log of a year.
const PATIENCE: Duration = Duration::from_secs(300);

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It cannot be asked.
    #[error("the running server cannot be asked: {0}")]
    Unreachable(String),
}

/// Asks the server that runs on this data directory. The caller knows that one runs: its lock is held.
pub async fn ask(data_dir: &Path, order: Order) -> Result<Done, ClientError> {
    let unreachable = |what: &str| ClientError::Unreachable(what.to_owned());
    let door = std::fs::read(data_dir.join(FILE)).map_err(|_| unreachable("it has not finished starting, or is stopping"))?;
    let door: Door = serde_json::from_slice(&door).map_err(|_| unreachable("its control file is damaged; restart it"))?;
    let talk = async {
        let mut stream = TcpStream::connect(door.address).await?;
        let mut letter = serde_json::to_vec(&Letter { secret: door.secret, order })?;
        letter.push(b'\n');
        stream.write_all(&letter).await?;
        let mut answer = Vec::new();
        stream.take(LONGEST_LINE).read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = match tokio::time::timeout(PATIENCE, talk).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(unreachable(&error.to_string())),
        Err(_) => return Err(unreachable("it did not answer in five minutes")),
    };
    let reply: Reply = serde_json::from_slice(&answer).map_err(|_| unreachable("it closed the connection without an answer"))?;
    Ok(reply?)
}
