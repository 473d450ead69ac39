//! The listener: connections, their limits, and the way they end.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use super::link::Link;
use super::patient_io::PatientIo;
use super::router::{Connection, Router};
use super::tls::{Certificates, TlsError};
use super::unread::{EnvelopeIo, Owed};

/// What the listener needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Certificate files; `None`: plain HTTP.
    pub tls: Option<super::tls::Settings>,
    /// Connections at once.
    pub maximum_connections: usize,
    /// Connections at once from one address.
    pub connections_per_address: usize,
    /// The longest a request's head may take, and the longest an idle connection is kept.
    pub header_timeout: Duration,
    /// The longest a client may take nothing of an answer.
    pub write_timeout: Duration,
    /// How long answers under way may still go on after a stop.
    pub shutdown_grace: Duration,
}

impl Settings {
    /// The usual limits on this address.
    pub fn new(listen: SocketAddr) -> Self {
        Settings {
            listen,
            tls: None,
            maximum_connections: 4096,
            connections_per_address: 2048,
            header_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

/// Why the listener did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be had.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The certificate cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A listener that is bound, but takes no connections before [`Server::serve`].
pub struct Server {
    settings: Settings,
    listener: TcpListener,
    tls: Option<(Arc<Certificates>, TlsAcceptor)>,
}

impl Server {
    /// Binds the address and reads the certificate.
    pub async fn bind(settings: Settings) -> Result<Self, ServerError> {
        let tls = match settings.tls.clone() {
            None => None,
            Some(files) => {
                let certificates = Certificates::load(files)?;
                let acceptor = certificates.acceptor()?;
                Some((certificates, acceptor))
            }
        };
        let listener = TcpListener::bind(settings.listen).await.map_err(|error| ServerError::Listen(settings.listen, error))?;
        Ok(Server { settings, listener, tls })
    }

    /// The address with the real port.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or(self.settings.listen)
    }

    /// Takes connections until `stop`, then lets answers under way end.
    pub async fn serve(self, router: Arc<Router>, stop: CancellationToken) {
        let Server { settings, listener, tls } = self;
        let watcher = tls.as_ref().map(|(certificates, _)| tokio::spawn(certificates.clone().watch()));
        let acceptor = tls.map(|(_, acceptor)| acceptor);
        let census = Arc::new(Census::default());
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    // Above a limit the connection is closed at once: answering would cost what the limit protects.
                    let Some(place) = Census::admit(&census, peer.ip().to_canonical(), &settings) else { continue };
                    let (settings, router, stop, acceptor) = (settings.clone(), router.clone(), stop.clone(), acceptor.clone());
                    connections.spawn(async move {
                        let activity = place.activity.clone();
                        tokio::select! {
                            () = attend(stream, peer, &settings, router, acceptor, activity, stop) => {}
                            () = place.activity.given_up() => tracing::debug!(%peer, "a connection made room for another"),
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    // Out of file descriptors, or a connection that was gone before it was taken.
                    tracing::warn!(%error, "a connection was not accepted");
                    census.make_room();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(listener);
        if let Some(watcher) = watcher {
            watcher.abort();
        }
        let drained = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(settings.shutdown_grace, drained).await.is_err() {
            connections.shutdown().await;
        }
    }
}

async fn attend(
    stream: TcpStream,
    peer: SocketAddr,
    settings: &Settings,
    router: Arc<Router>,
    tls: Option<TlsAcceptor>,
    activity: Arc<Activity>,
    stop: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let (link, mut released) = Link::new(stop);
    let stream = PatientIo::new(stream, settings.write_timeout, activity.clone());
    let connection = Connection { peer: peer.ip().to_canonical(), is_tls: tls.is_some(), activity, link };
    match tls {
        None => converse(stream, connection, settings, router).await,
        Some(tls) => match tokio::time::timeout(settings.header_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => converse(stream, connection, settings, router).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS with {peer}: {error}"),
            Err(_) => tracing::debug!(%peer, "TLS with {peer} took too long"),
        },
    }
    // A WebSocket goes on after HTTP has ended, and is a connection like any other.
    let _ = released.recv().await;
}

async fn converse<S>(stream: S, connection: Connection, settings: &Settings, router: Arc<Router>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (peer, Link { stop, cut, .. }) = (connection.peer, connection.link.clone());
    let owed = Owed::default();
    let (own, of) = (router.clone(), connection.clone());
    let stream = EnvelopeIo::new(stream, owed.clone(), move |status| own.answer_unread(status, &of));
    let service = service_fn(move |request| {
        let (router, connection, debt) = (router.clone(), connection.clone(), owed.begin());
        async move { Ok::<_, std::convert::Infallible>(debt.paid_by(router.answer(request, connection).await)) }
    });
    // hyper's bounds lie above the router's: what exceeds even these is not read any further.
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_headers(256)
        .max_buf_size(128 * 1024)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut conversation = std::pin::pin!(conversation);
    let result = tokio::select! {
        biased;
        () = cut.cancelled() => Ok(()),
        result = conversation.as_mut() => result,
        () = stop.cancelled() => {
            conversation.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                () = cut.cancelled() => Ok(()),
                result = conversation => result,
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%peer, %error, "a connection ended: {error}");
    }
}

/// Who is connected.
#[derive(Default)]
struct Census(Mutex<HashMap<IpAddr, Vec<Arc<Activity>>>>);

/// One connection's place; given back when it ends.
struct Place {
    census: Arc<Census>,
    address: IpAddr,
    activity: Arc<Activity>,
}

impl Census {
    /// A place for a new connection. Where all are taken, the connection that has kept us waiting longest makes room: an
    /// honest client gets in while thousands of others hold connections open without asking for anything.
    fn admit(census: &Arc<Census>, address: IpAddr, settings: &Settings) -> Option<Place> {
        let mut connections = census.lock();
        let all: usize = connections.values().map(Vec::len).sum();
        let own = connections.get(&address).map_or(0, Vec::len);
        let is_full = if own >= settings.connections_per_address {
            !connections.get_mut(&address).is_some_and(give_up_one)
        } else {
            all >= settings.maximum_connections && !give_up_one_of_all(&mut connections)
        };
        if is_full {
            tracing::debug!(%address, all, own, "a connection too many was closed");
            return None;
        }
        let activity = Arc::new(Activity::default());
        connections.entry(address).or_default().push(activity.clone());
        Some(Place { census: census.clone(), address, activity })
    }

    /// One connection less, if one waits for its client.
    fn make_room(&self) {
        give_up_one_of_all(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Vec<Arc<Activity>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn give_up_one_of_all(connections: &mut HashMap<IpAddr, Vec<Arc<Activity>>>) -> bool {
    // Of the address that has most.
    let most = connections.values_mut().filter(|own| own.iter().any(|activity| activity.is_waiting())).max_by_key(|own| own.len());
    most.is_some_and(give_up_one)
}

fn give_up_one(connections: &mut Vec<Arc<Activity>>) -> bool {
    let waiting = connections.iter().enumerate().filter(|(_, activity)| activity.is_waiting());
    let Some((longest, _)) = waiting.min_by_key(|(_, activity)| activity.moved_at()) else { return false };
    connections.swap_remove(longest).give_up();
    true
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut connections = self.census.lock();
        if let Some(own) = connections.get_mut(&self.address) {
            own.retain(|activity| !Arc::ptr_eq(activity, &self.activity));
            if own.is_empty() {
                connections.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn the_quietest_connection_makes_room_and_a_busy_one_never() {
        let census = Arc::new(Census::default());
        let mut settings = Settings::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        (settings.maximum_connections, settings.connections_per_address) = (4, 3);
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let admit = |address| Census::admit(&census, address, &settings);
        let is_given_up = |place: &Place| place.activity.given_up().now_or_never().is_some();
        let (first, second, third) = (admit(one).unwrap(), admit(one).unwrap(), admit(one).unwrap());
        first.activity.works();
        std::thread::sleep(Duration::from_millis(1));
        second.activity.moved();
        let fourth = admit(one).unwrap();
        assert!(is_given_up(&third) && !is_given_up(&first) && !is_given_up(&second) && !is_given_up(&fourth));
        let _elsewhere = admit(other).unwrap();
        // Full as a whole: whoever has most gives one up.
        let _further = admit(other).unwrap();
        assert!(is_given_up(&second) || is_given_up(&fourth));
        // All of them busy: nobody is sent away for a stranger.
        for place in census.lock().values().flatten() {
            place.works();
        }
        assert!(admit(one).is_none() && admit(other).is_none() && !is_given_up(&first));
        drop(first);
        assert!(admit(other).is_some());
    }
}
