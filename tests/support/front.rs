//! What stands in front of a studio's servers: speaks TLS, and lets each connection wait before it goes on.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What each connection waits for.
pub(crate) type Gate = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// An address that is known before there is anything behind it.
pub(crate) struct Front {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Front {
    pub(crate) async fn bind(acceptor: TlsAcceptor) -> Front {
        Front { listener: TcpListener::bind("127.0.0.1:0").await.unwrap(), acceptor }
    }

    /// `https://host:port`.
    pub(crate) fn base(&self) -> String {
        format!("https://{}", self.listener.local_addr().unwrap())
    }

    /// Passes connections on to a plain server until the guard is dropped.
    pub(crate) fn serve(self, target: SocketAddr, gate: Gate) -> DropGuard {
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            while let Ok((outer, _)) = self.listener.accept().await {
                let (acceptor, gate) = (self.acceptor.clone(), gate.clone());
                tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
                    gate().await;
                    // A client that does not like the certificate hangs up here.
                    let Ok(mut outer) = acceptor.accept(outer).await else { return };
                    let Ok(mut inner) = TcpStream::connect(target).await else { return };
                    let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
                }));
            }
        }));
        guard
    }
}
