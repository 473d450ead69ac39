//! The HTTP client against receivers of every kind.

mod answers;
pub(crate) mod receiver;
mod trust;
mod uploads;

use cookhouse::outbound::{Outbound, OutboundErrorKind, OutboundRequest, Settings};

/// The tests' receivers are on this machine, so this one may call it.
fn outbound() -> Outbound {
    Outbound::new(&Settings { allow_loopback: true, ..Settings::default() }).unwrap()
}

async fn get(outbound: &Outbound, url: String) -> Result<(u16, String), OutboundErrorKind> {
    let mut response = outbound.send(OutboundRequest::new("GET", url)).await.map_err(|error| error.kind)?;
    let body = response.read_all(1 << 20).await.map_err(|error| error.kind)?;
    Ok((response.status, String::from_utf8(body).unwrap()))
}
