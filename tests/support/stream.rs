//! Readers of the live channel: server-sent events as a browser reads them, and a WebSocket.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};

/// One event, as `EventSource` would hand it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub id: String,
    pub event: String,
    pub data: Value,
}

/// A stream of server-sent events over a connection of its own.
pub struct EventStream {
    socket: TcpStream,
    /// Chunks as they came.
    raw: Vec<u8>,
    /// What was in them, behind the last whole event.
    text: Vec<u8>,
    pub head: String,
    pub last_id: String,
    /// Comments and fields besides events, in order.
    pub asides: Vec<String>,
    /// The answer ended as it should, with its last chunk.
    pub is_ended: bool,
}

impl EventStream {
    /// Asks for a stream. `Err` has the answer when it is none.
    pub async fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<EventStream, String> {
        let mut socket = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let mut request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        socket.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
        let mut raw = Vec::new();
        let end = loop {
            if let Some(at) = raw.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            if socket.read_buf(&mut raw).await.unwrap_or(0) == 0 {
                return Err(String::from_utf8_lossy(&raw).into_owned());
            }
        };
        let head = String::from_utf8_lossy(&raw[..end]).into_owned();
        let mut rest = raw.split_off(end + 4);
        if !head.starts_with("HTTP/1.1 200") {
            // Refusals are short.
            if !head.starts_with("HTTP/1.1 204") && rest.is_empty() {
                let _ = socket.read_buf(&mut rest).await;
            }
            return Err(format!("{head}\n\n{}", String::from_utf8_lossy(&rest)));
        }
        Ok(EventStream { socket, raw: rest, text: Vec::new(), head, last_id: String::new(), asides: Vec::new(), is_ended: false })
    }

    /// The next event; `None`: the stream has ended, however.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.take() {
                return Some(event);
            }
            if self.is_ended || self.socket.read_buf(&mut self.raw).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The next event if it has arrived as a whole already.
    pub fn take(&mut self) -> Option<Event> {
        self.unchunk();
        loop {
            let end = self.text.windows(2).position(|window| window == b"\n\n")?;
            let block: Vec<u8> = self.text.drain(..end + 2).collect();
            let block = String::from_utf8(block).expect("text");
            let (mut event, mut data) = (String::new(), String::new());
            for line in block.lines() {
                match line.split_once(": ") {
                    Some(("id", id)) => self.last_id = id.to_owned(),
                    Some(("event", name)) => event = name.to_owned(),
                    Some(("data", text)) => data.push_str(text),
                    _ if line.is_empty() => {}
                    _ => self.asides.push(line.to_owned()),
                }
            }
            if !data.is_empty() {
                return Some(Event { id: self.last_id.clone(), event, data: serde_json::from_str(&data).expect("JSON") });
            }
        }
    }

    /// Reads at most `bytes` more from the wire, so that it can be cut in the middle of anything.
    pub async fn read_some(&mut self, bytes: usize) -> bool {
        if self.is_ended {
            return false;
        }
        let mut some = vec![0; bytes];
        let count = self.socket.read(&mut some).await.unwrap_or(0);
        self.raw.extend_from_slice(&some[..count]);
        count > 0
    }

    fn unchunk(&mut self) {
        while let Some(end) = self.raw.windows(2).position(|window| window == b"\r\n") {
            let size = std::str::from_utf8(&self.raw[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
            let Some(size) = size else { return };
            if self.raw.len() < end + 2 + size + 2 {
                return;
            }
            self.is_ended = size == 0;
            self.text.extend_from_slice(&self.raw[end + 2..end + 2 + size]);
            self.raw.drain(..end + 2 + size + 2);
        }
    }
}

/// A WebSocket, or what was answered instead.
pub async fn web_socket(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<WebSocketStream<TcpStream>, String> {
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    let mut request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    );
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    socket.write_all(request.as_bytes()).await.expect("a request");
    let mut head = Vec::new();
    // Byte by byte: what follows the head belongs to the WebSocket.
    while !head.ends_with(b"\r\n\r\n") {
        match socket.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return Err(String::from_utf8_lossy(&head).into_owned()),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    if !head.starts_with("HTTP/1.1 101") {
        return Err(head);
    }
    assert!(head.to_lowercase().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
    Ok(WebSocketStream::from_raw_socket(socket, Role::Client, None).await)
}

/// Sends one message.
pub async fn say(socket: &mut WebSocketStream<TcpStream>, message: Value) {
    socket.send(Message::text(message.to_string())).await.expect("sent");
}

/// The next message; `Err` is the close code, or 1006 for a connection that just ended.
pub async fn hear(socket: &mut WebSocketStream<TcpStream>) -> Result<Value, u16> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).expect("JSON")),
            Some(Ok(Message::Close(frame))) => return Err(frame.map_or(1005, |frame| frame.code.into())),
            Some(Ok(_)) => {}
            Some(Err(Error::ConnectionClosed)) | Some(Err(_)) | None => return Err(1006),
        }
    }
}
