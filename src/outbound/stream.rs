//! Connections that are no HTTP, such as those to mail servers: to checked addresses only, with the same trust.

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::Policy;
use super::error::{self, OutboundError, OutboundErrorKind};
use super::{CONNECT_TIMEOUT, Outbound, resolve};

/// One address of several has to answer within this.
const ONE_ADDRESS: Duration = Duration::from_secs(5);

/// A connection to a checked address.
pub struct OutboundStream {
    wire: Wire,
    peer: SocketAddr,
    /// `host:port`, for messages.
    place: String,
}

enum Wire {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl fmt::Debug for OutboundStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundStream").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Outbound {
    /// Connects to a host, not encrypted yet. `stays_plain`: it never will be, so only loopback and private addresses will do.
    /// Never by the proxy, which speaks HTTP.
    ///
    /// # Errors
    /// `Dns`, `AddressDenied`, `Connect`.
    pub async fn connect(&self, host: &str, port: u16, stays_plain: bool) -> Result<OutboundStream, OutboundError> {
        let place = format!("{host}:{port}");
        let policy = Policy { allow_loopback: self.inner.allow_loopback, only_private: stays_plain };
        let connect = async {
            let addresses = resolve::resolve(host, policy, &self.inner.lookup).await.map_err(|error| OutboundError::from(&error))?;
            let mut last = None;
            for address in addresses {
                let peer = SocketAddr::new(address, port);
                match tokio::time::timeout(ONE_ADDRESS, TcpStream::connect(peer)).await {
                    Ok(Ok(stream)) => return Ok(OutboundStream { wire: Wire::Plain(stream), peer, place: place.clone() }),
                    Ok(Err(error)) => last = Some(error.kind()),
                    Err(_) => last = None,
                }
            }
            Err(error::refused(&place, last))
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connect).await.unwrap_or_else(|_| Err(error::refused(&place, None)))
    }

    /// Encrypts a connection; the other side has to prove that it is `host`.
    ///
    /// # Errors
    /// `Tls`; `Reset` when it broke; `Timeout`.
    pub async fn secure(&self, stream: OutboundStream, host: &str) -> Result<OutboundStream, OutboundError> {
        let OutboundStream { wire, peer, place } = stream;
        let Wire::Plain(plain) = wire else { return Ok(OutboundStream { wire, peer, place }) };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| OutboundError::new(OutboundErrorKind::Tls, format!("no certificate can be for {host}")))?;
        let connector = TlsConnector::from(self.inner.tls.clone());
        match tokio::time::timeout(CONNECT_TIMEOUT, connector.connect(name, plain)).await {
            Ok(Ok(secure)) => Ok(OutboundStream { wire: Wire::Secure(Box::new(secure)), peer, place }),
            Ok(Err(error)) => Err(error::handshake(&error, &place)),
            Err(_) => Err(super::stalled(&place)),
        }
    }
}

impl OutboundStream {
    /// The address that it is connected to.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }
}

impl AsyncRead for OutboundStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Wire::Secure(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for OutboundStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Wire::Secure(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(context),
            Wire::Secure(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Wire::Secure(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
