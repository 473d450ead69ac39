//! `GET /live`: one WebSocket (RFC 6455), many subscriptions.
//!
//! The client sends `{"subscribe": "build:<id>", "after": "<position>"}`, `{"subscribe": "org", "projectId": .., "types": [..]}`
//! and `{"unsubscribe": "<channel>"}`. It gets `{"channel", "id", "event", "data"}`, where `data` is what server-sent events
//! have as their data, and `{"event": "error", ..}` for what is refused.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use schemars::SchemaGenerator;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use super::super::auth::Caller;
use super::super::endpoint::{self, Call, Custom, CustomAnswer};
use super::super::error::{ApiError, Problem, Result};
use super::super::link::Link;
use super::super::openapi::shape::Answered;
use super::build::BuildStream;
use super::message::TYPES;
use super::organization::{Filter, OrganizationStream, types_named};
use super::outlet::{Outlet, WAITING, refusal};
use super::too_many;
use crate::app::App;
use crate::live::StreamPlace;
use crate::model::{Build, Id};

/// The largest message that a client may send.
const LARGEST: usize = 64 * 1024;
/// Subscriptions of one connection.
const SUBSCRIPTIONS: usize = 64;
/// After so many messages that made no sense the connection is closed.
const MISTAKES: usize = 16;
/// For the last words of a connection.
const FAREWELL: Duration = Duration::from_secs(1);

/// The handshake's answer: what follows it is no HTTP.
pub(in crate::api) struct Opened;

impl CustomAnswer for Opened {
    fn describe(_: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::empty(StatusCode::SWITCHING_PROTOCOLS).with(&["Upgrade", "Sec-WebSocket-Accept"])]
    }
}

/// Opens the connection.
pub(in crate::api) async fn open(call: Call) -> Result<Custom<Opened>> {
    let accept = accept(&call.head.method, &call.head.headers).ok_or_else(upgrade_required)?;
    let upgrade = call.head.upgrade.clone().ok_or_else(upgrade_required)?;
    let place = call.app.live.place(call.caller.user().id).ok_or_else(too_many)?;
    let (app, caller, link) = (call.app, call.caller, call.head.link.clone());
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let config = WebSocketConfig::default()
            .read_buffer_size(4096)
            .write_buffer_size(0)
            .max_message_size(Some(LARGEST))
            .max_frame_size(Some(LARGEST));
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
        let (sender, queue) = mpsc::channel(WAITING);
        let connection = Connection {
            app,
            caller,
            link,
            socket,
            sender,
            queue,
            streams: JoinSet::new(),
            channels: HashMap::new(),
            mistakes: 0,
            _place: place,
        };
        connection.run().await;
    });
    let mut response = Response::new(endpoint::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, HeaderValue::from_str(&accept).map_err(ApiError::internal)?);
    Ok(response.into())
}

fn upgrade_required() -> ApiError {
    ApiError::from(Problem::UpgradeRequired).with_header(header::UPGRADE, "websocket").with_header(header::SEC_WEBSOCKET_VERSION, "13")
}

/// `Sec-WebSocket-Accept`, if the request is a handshake.
fn accept(method: &Method, headers: &HeaderMap) -> Option<String> {
    let names = |name, wanted: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        values.into_iter().any(|word| word.trim().eq_ignore_ascii_case(wanted))
    };
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?.to_str().ok()?;
    let is_handshake = method == Method::GET
        && names(header::CONNECTION, "upgrade")
        && names(header::UPGRADE, "websocket")
        && headers.get(header::SEC_WEBSOCKET_VERSION)? == "13"
        && STANDARD.decode(key).is_ok_and(|key| key.len() == 16);
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    // The standard's own choice; it protects nothing.
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    is_handshake.then(|| STANDARD.encode(digest))
}

/// What a client says.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    subscribe: Option<String>,
    unsubscribe: Option<String>,
    after: Option<Value>,
    project_id: Option<String>,
    types: Option<Vec<String>>,
}

struct Connection {
    app: Arc<App>,
    caller: Caller,
    link: Link,
    socket: WebSocketStream<TokioIo<Upgraded>>,
    /// Streams send here.
    sender: mpsc::Sender<Bytes>,
    queue: mpsc::Receiver<Bytes>,
    streams: JoinSet<()>,
    channels: HashMap<String, AbortHandle>,
    mistakes: usize,
    _place: StreamPlace,
}

/// Why a connection ends: what the client is told, if anything.
type Farewell = Option<(CloseCode, &'static str)>;

const RESTART: Farewell = Some((CloseCode::Restart, "stopping; subscribe again with `after`"));

impl Connection {
    async fn run(mut self) {
        let Err(farewell) = self.talk().await;
        self.streams.abort_all();
        let Some((code, reason)) = farewell else { return };
        // The client may be busy sending: it is heard until it has read the last words, or for a moment.
        let _ = tokio::time::timeout(FAREWELL, async {
            let _ = self.socket.close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) })).await;
            while let Some(Ok(_)) = self.socket.next().await {}
        })
        .await;
    }

    /// Goes on until somebody ends it; says how.
    async fn talk(&mut self) -> std::result::Result<Infallible, Farewell> {
        let every = self.app.live.settings().ping;
        let mut ping = tokio::time::interval(every);
        ping.tick().await;
        let mut heard = Instant::now();
        loop {
            tokio::select! {
                () = self.link.stop.cancelled() => return Err(RESTART),
                () = self.link.cut.cancelled() => return Err(None),
                Some(bytes) = self.queue.recv() => self.send(text(bytes)).await?,
                Some(ended) = self.streams.join_next_with_id() => {
                    let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                    self.channels.retain(|_, stream| stream.id() != id);
                }
                said = self.socket.next() => {
                    heard = Instant::now();
                    match said {
                        Some(Ok(Message::Text(text))) => self.hear(&text).await?,
                        Some(Ok(Message::Binary(_))) => return Err(Some((CloseCode::Unsupported, "text only"))),
                        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                        Some(Err(tungstenite::Error::Capacity(_))) => return Err(Some((CloseCode::Size, "at most 64 KiB"))),
                        Some(Err(tungstenite::Error::Utf8(_))) => return Err(Some((CloseCode::Invalid, "not UTF-8"))),
                        Some(Err(tungstenite::Error::Protocol(_))) => return Err(Some((CloseCode::Protocol, "not RFC 6455"))),
                        Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(None),
                    }
                }
                _ = ping.tick() => {
                    if heard.elapsed() > every * 3 {
                        return Err(Some((CloseCode::Policy, "no answer to pings")));
                    }
                    match self.caller.again(&self.app) {
                        Ok(caller) => self.caller = caller,
                        Err(error) => {
                            self.send(text(refusal(None, &error))).await?;
                            return Err(Some((CloseCode::Policy, "the token or session has ended")));
                        }
                    }
                    self.send(Message::Ping(Bytes::new())).await?;
                }
            }
        }
    }

    async fn send(&mut self, message: Message) -> std::result::Result<(), Farewell> {
        tokio::select! {
            sent = self.socket.send(message) => sent.map_err(|_| None),
            () = self.link.cut.cancelled() => Err(None),
            () = self.link.stop.cancelled() => Err(RESTART),
        }
    }

    async fn hear(&mut self, words: &str) -> std::result::Result<(), Farewell> {
        let said: Option<Said> = serde_json::from_str(words).ok();
        let (channel, result) = match said {
            Some(Said { subscribe: None, unsubscribe: Some(channel), .. }) => return self.unsubscribe(&channel).await,
            Some(said @ Said { subscribe: Some(_), unsubscribe: None, .. }) => {
                let channel = said.subscribe.clone();
                (channel, self.subscribe(said).await)
            }
            _ => {
                let message = "Send {\"subscribe\": \"build:<id>\"}, {\"subscribe\": \"org\"} or {\"unsubscribe\": ...}.";
                (None, Err(ApiError::new(Problem::InvalidJson, message)))
            }
        };
        let Err(error) = result else { return Ok(()) };
        // What the client calls its channels is echoed only if it could be one.
        let channel = channel.filter(|channel| channel.len() <= 64);
        self.send(text(refusal(channel.as_deref(), &error))).await?;
        self.mistakes += 1;
        if self.mistakes >= MISTAKES { Err(Some((CloseCode::Policy, "too many mistakes"))) } else { Ok(()) }
    }

    async fn subscribe(&mut self, said: Said) -> Result<()> {
        let channel = said.subscribe.unwrap_or_default();
        if self.channels.contains_key(&channel) {
            return Err(ApiError::new(Problem::ValidationFailed, "This channel is subscribed already."));
        }
        let after = match said.after {
            None | Some(Value::Null) => None,
            Some(Value::String(after)) => Some(after),
            Some(after) => Some(after.to_string()),
        };
        if self.channels.len() >= SUBSCRIPTIONS {
            return Err(too_many());
        }
        let place = self.app.live.place(self.caller.user().id).ok_or_else(too_many)?;
        let (app, caller) = (self.app.clone(), self.caller.clone());
        let outlet = |channel: &str| Outlet::web_socket(self.link.clone(), channel, self.sender.clone());
        let stream = if channel == "org" {
            let types = said.types.map(|types| {
                let message = format!("`types` may name {}.", TYPES.join(", "));
                types_named(types.iter().map(String::as_str)).ok_or_else(|| ApiError::new(Problem::ValidationFailed, message))
            });
            let filter = Filter::new(said.project_id.as_deref(), types.transpose()?);
            let stream = OrganizationStream::open(app, caller, filter, after.as_deref())?;
            let outlet = outlet(&channel);
            self.streams.spawn(async move {
                let _place = place;
                stream.run(outlet).await;
            })
        } else {
            let build: Id<Build> = channel.strip_prefix("build:").and_then(|id| id.parse().ok()).ok_or(Problem::NotFound)?;
            // Here nothing comes back by itself: who asks again after the end is told it again.
            let after = after.as_deref().map(|after| after.strip_suffix("-end").unwrap_or(after));
            let stream = BuildStream::open(app, caller, build, after).await?.ok_or(Problem::NotFound)?;
            let outlet = outlet(&channel);
            self.streams.spawn(async move {
                let _place = place;
                stream.run(outlet).await;
            })
        };
        self.channels.insert(channel, stream);
        Ok(())
    }

    async fn unsubscribe(&mut self, channel: &str) -> std::result::Result<(), Farewell> {
        let Some(stream) = self.channels.remove(channel) else { return Ok(()) };
        stream.abort();
        // What it said already comes before the word that it says no more.
        while let Ok(bytes) = self.queue.try_recv() {
            self.send(text(bytes)).await?;
        }
        let done = serde_json::json!({"channel": channel, "event": "unsubscribed", "data": {"type": "unsubscribed"}});
        self.send(text(done.to_string().into())).await
    }
}

fn text(bytes: Bytes) -> Message {
    // Everything that is sent was made from text.
    Message::Text(Utf8Bytes::try_from(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_answered_as_the_standard_shows() {
        let headers = |version: &'static str, key: &'static str| {
            HeaderMap::from_iter([
                (header::CONNECTION, HeaderValue::from_static("keep-alive, Upgrade")),
                (header::UPGRADE, HeaderValue::from_static("WebSocket")),
                (header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static(version)),
                (header::SEC_WEBSOCKET_KEY, HeaderValue::from_static(key)),
            ])
        };
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        assert_eq!(accept(&Method::GET, &headers("13", key)).as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(accept(&Method::GET, &headers("8", key)), None);
        assert_eq!(accept(&Method::GET, &headers("13", "c2hvcnQ=")), None);
        assert_eq!(accept(&Method::HEAD, &headers("13", key)), None);
    }
}
