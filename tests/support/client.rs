//! A small HTTP/1.1 client that sends exactly the bytes it is told to, so that malformed requests can be sent too.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// `error.code` of the envelope.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// `field:code` of every detail, sorted.
    pub fn details(&self) -> Vec<String> {
        let json = self.json();
        let details = json["error"]["details"].as_array().cloned().unwrap_or_default();
        let mut details: Vec<_> = details
            .iter()
            .map(|detail| format!("{}:{}", detail["field"].as_str().unwrap_or("?"), detail["code"].as_str().unwrap_or("?")))
            .collect();
        details.sort();
        details
    }

    /// Panics with the body unless this is the status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Reply {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }
}

/// A request under construction.
#[derive(Debug, Clone)]
pub struct Ask {
    address: SocketAddr,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Ask {
    pub fn new(address: SocketAddr, method: &str, target: &str) -> Self {
        let headers = vec![("Host".to_owned(), address.to_string()), ("Connection".to_owned(), "close".to_owned())];
        Ask { address, method: method.to_owned(), target: target.to_owned(), headers, body: Vec::new() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// In place of a header that is there already.
    pub fn instead(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.header(name, value)
    }

    pub fn bearer(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub fn json(self, body: &Value) -> Self {
        self.header("Content-Type", "application/json").body(body.to_string())
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        let length = self.body.len().to_string();
        self.header("Content-Length", &length)
    }

    pub async fn send(self) -> Reply {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        let replies = exchange(self.address, &bytes).await;
        let reply = parse(&replies, self.method == "HEAD");
        reply.unwrap_or_else(|| panic!("no answer to {} {}: {:?}", self.method, self.target, String::from_utf8_lossy(&replies)))
    }
}

/// Sends bytes as they are and reads until the server closes the connection.
pub async fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let (mut reader, mut writer) = stream.split();
    let mut answer = Vec::new();
    // The server may answer and close before it has read everything (a body too large): both directions at once.
    let send = async {
        let _ = writer.write_all(bytes).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = send => {}
        _ = reader.read_to_end(&mut answer) => {}
    }
    answer
}

/// Reads one answer.
pub fn parse(bytes: &[u8], is_head: bool) -> Option<Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status: u16 = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    if status == 100 {
        return parse(&bytes[end + 4..], is_head);
    }
    let headers: Vec<(String, String)> =
        lines.filter_map(|line| line.split_once(':')).map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect();
    let rest = &bytes[end + 4..];
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if is_head {
        Vec::new()
    } else if chunked {
        unchunk(rest)?
    } else {
        rest.to_vec()
    };
    Some(Reply { status, headers, body })
}

fn unchunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).ok()?, 16).ok()?;
        let start = end + 2;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(start..start + size)?);
        bytes = bytes.get(start + size + 2..)?;
    }
}
