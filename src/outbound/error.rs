//! Why a request got no answer, told apart as far as somebody could act on it.

use std::error::Error;
use std::io;

use super::resolve::ResolveError;

/// Why a request got no answer. The message is for people and names no path, query or header of the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OutboundError {
    /// For programs.
    pub kind: OutboundErrorKind,
    /// A sentence with what to do, where something can be done.
    pub message: String,
}

/// The kinds of failure a caller branches on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutboundErrorKind {
    /// The address is no URL that could be called.
    InvalidUrl,
    /// The method, a header or the body of the request cannot be sent.
    InvalidRequest,
    /// The name has no address.
    Dns,
    /// It has only addresses that are never called.
    AddressDenied,
    /// Nobody took the connection.
    Connect,
    /// The other side could not prove who it is, or no encryption was agreed on.
    Tls,
    /// No byte moved for too long, or the whole took too long.
    Timeout,
    /// The connection broke.
    Reset,
    /// The other side does not speak HTTP.
    Protocol,
    /// The answer is larger than the caller wants.
    TooLarge,
}

impl OutboundError {
    pub(super) fn new(kind: OutboundErrorKind, message: impl Into<String>) -> Self {
        OutboundError { kind, message: message.into() }
    }
}

/// Travels through the client inside its own errors when the source of a request's body failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct BodyError(pub(super) String);

/// Translates what the client reports. `place` is the host and port.
pub(super) fn classify(error: &reqwest::Error, place: &str) -> OutboundError {
    use OutboundErrorKind as Kind;
    if let Some(body) = find::<BodyError>(error) {
        return OutboundError::new(Kind::InvalidRequest, format!("the request's body could not be read: {body}"));
    }
    if let Some(resolve) = find::<ResolveError>(error) {
        return resolve.into();
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return OutboundError::new(Kind::Tls, format!("no trusted connection to {place}: {}", tls_reason(tls)));
    }
    let io = find::<io::Error>(error);
    if error.is_connect() {
        if error.is_timeout() {
            return OutboundError::new(Kind::Connect, format!("{place} did not take the connection in time"));
        }
        let reason = match io.map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => "nothing listens there".to_owned(),
            Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => "it cannot be reached from here".to_owned(),
            Some(io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => "it hung up".to_owned(),
            _ => "it is down or behind something that refuses".to_owned(),
        };
        return OutboundError::new(Kind::Connect, format!("no connection to {place}: {reason}"));
    }
    if error.is_timeout() || io.is_some_and(|io| io.kind() == io::ErrorKind::TimedOut) {
        return OutboundError::new(Kind::Timeout, format!("{place} stopped answering"));
    }
    // The client has no type of its own for a connection that ends in the middle of a message, only these words.
    let has_ended = || {
        let mut cause: Option<&dyn Error> = Some(error);
        std::iter::from_fn(move || {
            let current = cause?;
            cause = current.source();
            Some(current.to_string())
        })
        .any(|text| text.contains("closed before") || text.contains("end of file before") || text.contains("connection was not ready"))
    };
    let is_broken = io.is_some_and(|io| {
        matches!(
            io.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::NotConnected
                | io::ErrorKind::UnexpectedEof
        )
    });
    if is_broken || has_ended() {
        return OutboundError::new(Kind::Reset, format!("{place} broke the connection off"));
    }
    OutboundError::new(Kind::Protocol, format!("{place} does not answer in HTTP"))
}

/// Nobody took a connection; `kind` is what the operating system said, none when it said nothing in time.
pub(super) fn refused(place: &str, kind: Option<io::ErrorKind>) -> OutboundError {
    let message = match kind {
        Some(io::ErrorKind::ConnectionRefused) => format!("no connection to {place}: nothing listens there"),
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
            format!("no connection to {place}: it cannot be reached from here")
        }
        Some(_) => format!("no connection to {place}: it is down or behind something that refuses"),
        None => format!("{place} did not take the connection in time"),
    };
    OutboundError::new(OutboundErrorKind::Connect, message)
}

/// A TLS handshake of a connection that is no HTTP.
pub(super) fn handshake(error: &io::Error, place: &str) -> OutboundError {
    match find::<rustls::Error>(error) {
        Some(tls) => OutboundError::new(OutboundErrorKind::Tls, format!("no trusted connection to {place}: {}", tls_reason(tls))),
        None => OutboundError::new(OutboundErrorKind::Reset, format!("{place} hung up while encryption was agreed on")),
    }
}

/// Looks through the causes, and into what an `io::Error` was made of, which is not among its causes.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut current = Some(error);
    while let Some(cause) = current {
        if let Some(found) = cause.downcast_ref::<T>() {
            return Some(found);
        }
        if let Some(inner) = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            // Without a deeper look the outermost `io::Error` would hide the one that says more.
            if let Some(found) = find::<T>(inner) {
                return Some(found);
            }
        }
        current = cause.source();
    }
    None
}

fn tls_reason(error: &rustls::Error) -> String {
    use rustls::CertificateError as Certificate;
    match error {
        rustls::Error::InvalidCertificate(Certificate::UnknownIssuer) => {
            "its certificate was not issued by an authority that this machine trusts; if it is your own authority, add its \
             certificate to `outbound.ca_certificates`"
                .to_owned()
        }
        rustls::Error::InvalidCertificate(Certificate::BadSignature) => {
            "its certificate names an authority that this machine trusts, but was not signed by it: that authority may have been made \
             anew; add its new certificate to `outbound.ca_certificates`"
                .to_owned()
        }
        rustls::Error::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            "its certificate has expired".to_owned()
        }
        rustls::Error::InvalidCertificate(Certificate::NotValidYet | Certificate::NotValidYetContext { .. }) => {
            "its certificate is not valid yet; is the clock of this machine right?".to_owned()
        }
        rustls::Error::InvalidCertificate(Certificate::NotValidForName | Certificate::NotValidForNameContext { .. }) => {
            "its certificate is for another name".to_owned()
        }
        rustls::Error::InvalidMessage(_) => "it does not speak TLS; is the port right?".to_owned(),
        other => other.to_string(),
    }
}
