//! A mail server that takes what it is sent, with a reader of its own for what mail looks like on the wire; and one that
//! misbehaves as it is told. Nothing here is shared with what sends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// When there is encryption.
#[derive(Clone)]
pub(crate) enum Security {
    None,
    Starttls(TlsAcceptor),
    Tls(TlsAcceptor),
}

/// What a server does instead of what it should.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// Says these bytes, and goes on.
    Say(String),
    /// Says nothing more.
    Hang,
    /// Hangs up.
    Close,
    /// Says this over and over.
    Flood(&'static str),
}

/// Looks at a command (`CONNECT` before the first one, `END` behind a message), and how many there were of the kind before.
pub(crate) type Behaviour = Arc<dyn Fn(&str, usize) -> Option<Answer> + Send + Sync>;

/// A message that a server took.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) hello: String,
    pub(crate) is_encrypted: bool,
    pub(crate) user: Option<(String, String)>,
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    /// Without the dots that the protocol adds.
    pub(crate) bytes: Vec<u8>,
}

#[derive(Default)]
struct Seen {
    taken: Vec<Taken>,
    commands: Vec<String>,
    connections: usize,
    counts: BTreeMap<String, usize>,
}

/// Ends when it is dropped.
pub(crate) struct MailServer {
    pub(crate) port: u16,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl MailServer {
    pub(crate) async fn start(security: Security) -> MailServer {
        MailServer::misbehaving(security, Arc::new(|_, _| None)).await
    }

    pub(crate) async fn misbehaving(security: Security, behaviour: Behaviour) -> MailServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let shared = seen.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                let dialogue =
                    Dialogue { security: security.clone(), behaviour: behaviour.clone(), seen: shared.clone(), is_encrypted: false };
                tokio::spawn(async move { dialogue.run(Box::new(stream)).await });
            }
        });
        MailServer { port, seen, task }
    }

    pub(crate) fn taken(&self) -> Vec<Taken> {
        self.seen.lock().unwrap().taken.clone()
    }

    pub(crate) fn commands(&self) -> Vec<String> {
        self.seen.lock().unwrap().commands.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    /// Waits for so many messages.
    pub(crate) async fn until(&self, count: usize) -> Vec<Taken> {
        let patience = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            let taken = self.taken();
            if taken.len() >= count {
                return taken;
            }
            assert!(tokio::time::Instant::now() < patience, "{} of {count} mails came: {:?}", taken.len(), self.commands());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Dialogue {
    security: Security,
    behaviour: Behaviour,
    seen: Arc<Mutex<Seen>>,
    is_encrypted: bool,
}

impl Dialogue {
    async fn run(mut self, stream: Box<dyn Wire>) -> Option<()> {
        let mut stream = stream;
        if let Security::Tls(acceptor) = &self.security {
            stream = Box::new(acceptor.clone().accept(stream).await.ok()?);
            self.is_encrypted = true;
        }
        self.answer(&mut stream, "CONNECT", "220 mail.studio.test ESMTP").await?;
        let (mut hello, mut user, mut from, mut to) = (String::new(), None, String::new(), Vec::new());
        loop {
            let line = line(&mut stream).await?;
            self.seen.lock().unwrap().commands.push(line.clone());
            let verb = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            match verb.as_str() {
                "EHLO" => {
                    hello = line[5..].to_owned();
                    let mut offers = vec!["250-mail.studio.test", "250-PIPELINING", "250-SIZE 10485760", "250-8BITMIME"];
                    if matches!(self.security, Security::Starttls(_)) && !self.is_encrypted {
                        offers.push("250-STARTTLS");
                    } else {
                        offers.push("250-AUTH PLAIN LOGIN");
                    }
                    offers.push("250 HELP");
                    self.answer(&mut stream, "EHLO", &offers.join("\r\n")).await?;
                }
                "STARTTLS" => {
                    self.answer(&mut stream, "STARTTLS", "220 go ahead").await?;
                    let Security::Starttls(acceptor) = &self.security else { return None };
                    stream = Box::new(acceptor.clone().accept(stream).await.ok()?);
                    self.is_encrypted = true;
                    // RFC 3207: what was said before is forgotten.
                    hello.clear();
                }
                "AUTH" => {
                    let words = line.split(' ').nth(2).unwrap_or_default();
                    let decoded = STANDARD.decode(words).unwrap_or_default();
                    let mut parts = decoded.split(|byte| *byte == 0).skip(1).map(|part| String::from_utf8_lossy(part).into_owned());
                    user = parts.next().zip(parts.next());
                    self.answer(&mut stream, "AUTH", "235 welcome").await?;
                }
                "MAIL" => {
                    from = between(&line);
                    self.answer(&mut stream, "MAIL", "250 fine").await?;
                }
                "RCPT" => {
                    let address = between(&line);
                    if self.answer(&mut stream, &format!("RCPT {address}"), "250 fine").await? {
                        to.push(address);
                    }
                }
                "DATA" => {
                    if !self.answer(&mut stream, "DATA", "354 go on").await? {
                        continue;
                    }
                    let bytes = message(&mut stream).await?;
                    let taken = Taken {
                        hello: hello.clone(),
                        is_encrypted: self.is_encrypted,
                        user: user.clone(),
                        from: std::mem::take(&mut from),
                        to: std::mem::take(&mut to),
                        bytes,
                    };
                    // Taken before it says so: whoever is cut off in between is sent it again.
                    let kept = self.seen.clone();
                    let is_refused = (self.behaviour)("END?", 0).is_some();
                    if !is_refused {
                        kept.lock().unwrap().taken.push(taken);
                    }
                    self.answer(&mut stream, "END", "250 taken").await?;
                }
                "RSET" => {
                    (from, to) = (String::new(), Vec::new());
                    self.answer(&mut stream, "RSET", "250 fine").await?;
                }
                "QUIT" => {
                    let _ = stream.write_all(b"221 good-bye\r\n").await;
                    let _ = stream.shutdown().await;
                    return None;
                }
                _ => self.answer(&mut stream, "?", "500 what?").await.map(|_| ())?,
            }
        }
    }

    /// Whether it was said that is usual. `None`: the dialogue is over.
    async fn answer(&self, stream: &mut Box<dyn Wire>, command: &str, usual: &str) -> Option<bool> {
        let before = {
            let mut seen = self.seen.lock().unwrap();
            let count = seen.counts.entry(command.to_owned()).or_default();
            *count += 1;
            *count - 1
        };
        match (self.behaviour)(command, before) {
            None => stream.write_all(format!("{usual}\r\n").as_bytes()).await.ok().map(|()| true),
            Some(Answer::Say(words)) => {
                stream.write_all(words.as_bytes()).await.ok()?;
                Some(false)
            }
            Some(Answer::Hang) => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                None
            }
            Some(Answer::Close) => {
                let _ = stream.shutdown().await;
                None
            }
            Some(Answer::Flood(words)) => {
                let piece = words.repeat(64 * 1024 / words.len());
                loop {
                    stream.write_all(piece.as_bytes()).await.ok()?;
                }
            }
        }
    }
}

fn between(line: &str) -> String {
    line.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(address, _)| address.to_owned()).unwrap_or_default()
}

async fn line(stream: &mut Box<dyn Wire>) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let byte = stream.read_u8().await.ok()?;
        line.push(byte);
        if line.ends_with(b"\r\n") {
            line.truncate(line.len() - 2);
            return String::from_utf8(line).ok();
        }
        assert!(line.len() <= 1000 || !line.starts_with(b"RCPT"), "a command is longer than the protocol has it");
    }
}

/// Up to the dot, every line as the protocol wants it.
async fn message(stream: &mut Box<dyn Wire>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let byte = stream.read_u8().await.ok()?;
            assert!(byte != b'\n' || line.last() == Some(&b'\r'), "a line feed alone: {:?}", String::from_utf8_lossy(&line));
            assert!(byte.is_ascii(), "8 bits on a way that has 7");
            line.push(byte);
        }
        assert!(line.len() <= 1000, "a line of {} bytes", line.len());
        if line == b".\r\n" {
            return Some(bytes);
        }
        let line = line.strip_prefix(b".").unwrap_or(&line);
        bytes.extend_from_slice(line);
    }
}

/// A message as its reader has it.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    /// Unfolded and decoded, in order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) plain: String,
    pub(crate) html: String,
}

impl Letter {
    pub(crate) fn read(bytes: &[u8]) -> Letter {
        let (headers, body) = entity(bytes);
        let kind = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type")).map(|(_, value)| value.clone()).unwrap();
        assert!(kind.starts_with("multipart/alternative"), "{kind}");
        let boundary = kind.split("boundary=").nth(1).unwrap().trim_matches('"').split(['"', ';']).next().unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        let parts: Vec<&str> = text.split(&format!("--{boundary}")).collect();
        assert_eq!((parts.len(), parts.last().unwrap().trim()), (4, "--"), "two parts and the end");
        let part = |index: usize, kind: &str| {
            let (headers, body) = entity(parts[index].trim_start_matches("\r\n").as_bytes());
            let value = |name: &str| {
                headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_ascii_lowercase()).unwrap()
            };
            assert!(value("content-type").starts_with(kind) && value("content-type").contains("utf-8"), "{headers:?}");
            let decoded = match value("content-transfer-encoding").as_str() {
                "7bit" => body.to_vec(),
                "base64" => STANDARD.decode(body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<u8>>()).unwrap(),
                "quoted-printable" => quoted(body, b'='),
                other => panic!("{other}"),
            };
            String::from_utf8(decoded).unwrap()
        };
        Letter { plain: part(1, "text/plain"), html: part(2, "text/html"), headers }
    }

    /// The only header of this name.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut found = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let (Some((_, value)), None) = (found.next(), found.next()) else { panic!("not one {name}: {:?}", self.headers) };
        value
    }
}

/// Headers and body.
fn entity(bytes: &[u8]) -> (Vec<(String, String)>, &[u8]) {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("an empty line");
    let head = std::str::from_utf8(&bytes[..end]).unwrap().replace("\r\n ", " ").replace("\r\n\t", " ");
    let headers = head.split("\r\n").map(|line| {
        let (name, value) = line.split_once(": ").or_else(|| line.split_once(':')).unwrap_or_else(|| panic!("no header: {line:?}"));
        assert!(name.bytes().all(|byte| byte.is_ascii_graphic()), "{name:?}");
        (name.to_owned(), words(value))
    });
    (headers.collect(), &bytes[end + 4..])
}

/// RFC 2047.
fn words(value: &str) -> String {
    let (mut out, mut rest, mut was_encoded) = (String::new(), value, false);
    while let Some(start) = rest.find("=?") {
        let between = &rest[..start];
        // White space between two encoded words is none.
        if !(was_encoded && between.trim().is_empty()) {
            out.push_str(between);
        }
        let mut parts = rest[start + 2..].splitn(4, '?');
        let (charset, kind, text, end) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        assert!(charset.eq_ignore_ascii_case("utf-8"), "{charset}");
        let bytes = match kind {
            "B" | "b" => STANDARD.decode(text).unwrap(),
            "Q" | "q" => quoted(text.replace('_', " ").as_bytes(), b'='),
            other => panic!("{other}"),
        };
        out.push_str(&String::from_utf8(bytes).unwrap());
        rest = end.strip_prefix('=').unwrap();
        was_encoded = true;
    }
    out + rest
}

fn quoted(bytes: &[u8], sign: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == sign {
            if bytes[at + 1..].starts_with(b"\r\n") {
                at += 3;
                continue;
            }
            let digits = std::str::from_utf8(&bytes[at + 1..at + 3]).unwrap();
            out.push(u8::from_str_radix(digits, 16).unwrap());
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}
