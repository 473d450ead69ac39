//! What a request keeps of its connection, for answers that outlive it: streams.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A handle to the connection below a request.
#[derive(Debug, Clone)]
pub struct Link {
    /// The server stops: streams end at once.
    pub stop: CancellationToken,
    /// Ends the connection with whatever still waits to be sent.
    pub cut: CancellationToken,
    /// The connection counts as long as somebody holds this, also when it is no HTTP any more.
    _hold: mpsc::Sender<()>,
}

impl Link {
    /// A handle, and what ends when the last clone of it is gone.
    pub(super) fn new(stop: CancellationToken) -> (Link, mpsc::Receiver<()>) {
        let (hold, released) = mpsc::channel(1);
        (Link { stop, cut: CancellationToken::new(), _hold: hold }, released)
    }
}

#[cfg(test)]
impl Default for Link {
    fn default() -> Self {
        Link::new(CancellationToken::new()).0
    }
}
