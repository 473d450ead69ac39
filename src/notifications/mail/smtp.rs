//! The dialogue with a mail server (RFC 5321, 3207, 4954). The connection comes from `outbound`, which has checked where it
//! leads and whom it trusts; the library speaks on it. Encryption is agreed on here and not by the library, which would go
//! on reading what was said before there was any.

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use lettre::address::Envelope;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::extension::ClientId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::Letter;
use crate::model::Secret;
use crate::model::notification::NotificationErrorCode as Code;
use crate::model::organization::SmtpSecurity;
use crate::notifications::outcome::{Plan, Trouble};
use crate::notifications::text;
use crate::outbound::{Outbound, OutboundStream};

/// A server may say so much in one answer. The library reads an answer anew with each of its lines: more would cost time.
const LONGEST_ANSWER: usize = 8 * 1024;
/// What a longer one comes to.
const TOO_LONG: &str = "it said too much";
/// How long a farewell may take.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(3);

/// A mail server, with its password.
#[derive(Debug, Clone)]
pub struct MailServer {
    /// Name or address.
    pub host: String,
    /// Usually 587 or 465.
    pub port: u16,
    /// How the connection is protected.
    pub security: SmtpSecurity,
    /// `""`: it asks for none.
    pub username: String,
    /// Of that user.
    pub password: Option<Secret>,
    /// Who messages are from.
    pub from: String,
}

impl MailServer {
    /// The same server, user and password: one connection will do.
    pub(in crate::notifications) fn is_same(&self, other: &MailServer) -> bool {
        (&self.host, self.port, self.security, &self.username, &self.password)
            == (&other.host, other.port, other.security, &other.username, &other.password)
    }
}

/// A server that is ready to take messages.
pub(in crate::notifications) struct Session {
    connection: AsyncSmtpConnection,
    plan: Plan,
}

impl Session {
    /// Connects, encrypts, signs in. `hello` is what the server is told that we are called.
    pub(in crate::notifications) async fn open(
        outbound: &Outbound,
        server: &MailServer,
        hello: &str,
        plan: &Plan,
    ) -> Result<Self, Trouble> {
        let connection = tokio::time::timeout(plan.greeting, begin(outbound, server, hello)).await;
        let connection = connection.map_err(|_| slow(server))??;
        Ok(Session { connection, plan: plan.clone() })
    }

    /// Hands over one message. After an error the connection is of no more use.
    pub(in crate::notifications) async fn send(&mut self, letter: &Letter) -> Result<(), Trouble> {
        let envelope = Envelope::new(Some(letter.from.clone()), vec![letter.to.clone()])
            .map_err(|error| Trouble::for_ever(Code::Invalid, error.to_string()))?;
        match tokio::time::timeout(self.plan.mail, self.connection.send(&envelope, &letter.bytes)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(trouble(&error, "did not take the message", false)),
            Err(_) => Err(Trouble::for_now(Code::Timeout, "The mail server stopped answering in the middle of a message")),
        }
    }

    /// Says good-bye; whatever is answered changes nothing.
    pub(in crate::notifications) async fn close(mut self) {
        let _ = tokio::time::timeout(FAREWELL, self.connection.quit()).await;
    }
}

fn slow(server: &MailServer) -> Trouble {
    Trouble::for_now(Code::Timeout, format!("The mail server {}:{} stopped answering", server.host, server.port))
}

async fn begin(outbound: &Outbound, server: &MailServer, hello: &str) -> Result<AsyncSmtpConnection, Trouble> {
    let stays_plain = server.security == SmtpSecurity::None;
    let mut stream = outbound.connect(&server.host, server.port, stays_plain).await?;
    let mut greeting: &[u8] = b"";
    match server.security {
        SmtpSecurity::None => {}
        SmtpSecurity::Tls => stream = outbound.secure(stream, &server.host).await?,
        SmtpSecurity::Starttls => {
            Opening { stream: &mut stream, heard: Vec::new(), server }.ask_for_encryption(hello).await?;
            stream = outbound.secure(stream, &server.host).await?;
            // The library begins with a greeting, and nobody greets twice.
            greeting = b"220 encrypted\r\n";
        }
    }
    let wire = Wire { stream, greeting, left: LONGEST_ANSWER };
    let client = ClientId::Domain(hello.to_owned());
    let connection = AsyncSmtpConnection::connect_with_transport(Box::new(wire), &client).await;
    let mut connection = connection.map_err(|error| trouble(&error, "does not want to speak to us", false))?;
    if !server.username.is_empty() {
        let password = server.password.as_ref().map(|password| password.reveal().clone()).unwrap_or_default();
        // The mechanism separates both by this.
        if password.is_empty() || format!("{}{password}", server.username).contains('\0') {
            return Err(Trouble::for_ever(Code::AuthFailed, "The mail server has a user name but no usable password; enter it again"));
        }
        let credentials = Credentials::new(server.username.clone(), password);
        let signed_in = connection.auth(DEFAULT_MECHANISMS, &credentials).await;
        signed_in.map_err(|error| trouble(&error, "did not take the user name and password", true))?;
    }
    Ok(connection)
}

/// The part of the dialogue before there is encryption: nothing that is said there is believed afterwards.
struct Opening<'a> {
    stream: &'a mut OutboundStream,
    heard: Vec<u8>,
    server: &'a MailServer,
}

impl Opening<'_> {
    async fn ask_for_encryption(&mut self, hello: &str) -> Result<(), Trouble> {
        self.answer(220).await?;
        self.say(&format!("EHLO {hello}")).await?;
        let offers = self.answer(250).await?;
        if !offers.iter().any(|offer| offer.trim().eq_ignore_ascii_case("STARTTLS")) {
            let message = format!(
                "{}:{} does not offer STARTTLS, and nothing is sent without encryption; if it expects TLS from the beginning (usually on \
                 port 465), set security to tls",
                self.server.host, self.server.port
            );
            return Err(Trouble::for_now(Code::TlsFailed, message));
        }
        self.say("STARTTLS").await?;
        self.answer(220).await?;
        if self.heard.is_empty() {
            Ok(())
        } else {
            // Somebody on the way put words into the server's mouth (or it is broken).
            Err(Trouble::for_now(Code::TlsFailed, format!("{} went on speaking before encryption", self.server.host)))
        }
    }

    async fn say(&mut self, words: &str) -> Result<(), Trouble> {
        let all = format!("{words}\r\n");
        self.stream.write_all(all.as_bytes()).await.map_err(|_| self.hung_up())
    }

    /// The lines of an answer that begins with this number.
    async fn answer(&mut self, wanted: u16) -> Result<Vec<String>, Trouble> {
        let mut lines = Vec::new();
        let mut length = 0;
        loop {
            let line = self.line().await?;
            length += line.len();
            let (code, rest) = (line.get(..3).and_then(|code| code.parse::<u16>().ok()), line.get(3..).unwrap_or_default());
            let Some(code) = code.filter(|code| (200..600).contains(code) && (rest.is_empty() || rest.starts_with([' ', '-']))) else {
                return Err(self.unclear());
            };
            if length > LONGEST_ANSWER {
                return Err(self.unclear());
            }
            lines.push(rest.get(1..).unwrap_or_default().to_owned());
            if rest.starts_with('-') {
                continue;
            }
            return if code == wanted { Ok(lines) } else { Err(self.refused(code, lines.last().map_or("", String::as_str))) };
        }
    }

    async fn line(&mut self) -> Result<String, Trouble> {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned());
            }
            if self.heard.len() > LONGEST_ANSWER {
                return Err(self.unclear());
            }
            let mut piece = [0; 2048];
            match self.stream.read(&mut piece).await {
                Ok(0) | Err(_) => return Err(self.hung_up()),
                Ok(count) => self.heard.extend_from_slice(&piece[..count]),
            }
        }
    }

    fn hung_up(&self) -> Trouble {
        let hint = "it hung up in the middle of the greeting; if it expects TLS from the beginning, set security to tls";
        Trouble::for_now(Code::ConnectFailed, format!("no dialogue with {}:{}: {hint}", self.server.host, self.server.port))
    }

    fn unclear(&self) -> Trouble {
        Trouble::for_now(Code::ProtocolError, format!("{}:{} does not speak SMTP", self.server.host, self.server.port))
    }

    fn refused(&self, code: u16, words: &str) -> Trouble {
        by_code(code, format!("The mail server {} does not want to speak to us: {code} {}", self.server.host, text::line(words, 160)))
    }
}

fn by_code(code: u16, message: String) -> Trouble {
    match code {
        400..500 => Trouble::for_now(Code::Deferred, message),
        _ => Trouble::for_ever(Code::Rejected, message),
    }
    .with_status(code)
}

/// Translates what the library reports. `what` is what the server did.
fn trouble(error: &Error, what: &str, is_sign_in: bool) -> Trouble {
    let words = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let words = text::line(&words, 160);
    if let Some(code) = error.status().and_then(|code| code.to_string().parse::<u16>().ok()) {
        let refused = by_code(code, format!("The mail server {what}: {code} {words}"));
        // A wrong password is for somebody to mend; trying it again gets accounts locked.
        return if is_sign_in && code >= 500 { Trouble { code: Code::AuthFailed, ..refused } } else { refused };
    }
    if error.is_client() {
        let code = if is_sign_in { Code::AuthFailed } else { Code::Invalid };
        return Trouble::for_ever(code, format!("The mail server {what}: {words}"));
    }
    // What the library says of a connection that ends before an answer does.
    let has_ended = words == "incomplete response";
    if (error.is_response() && !has_ended) || words == TOO_LONG {
        return Trouble::for_now(Code::ProtocolError, format!("The mail server answered nothing that is SMTP: {words}"));
    }
    Trouble::for_now(Code::ConnectFailed, "The mail server broke the connection off")
}

/// A connection as the library wants it: with its greeting, and with an end to what is read.
struct Wire {
    stream: OutboundStream,
    greeting: &'static [u8],
    left: usize,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

impl AsyncTokioStream for Wire {
    fn peer_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.stream.peer())
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if !self.greeting.is_empty() {
            let count = self.greeting.len().min(buffer.remaining());
            let (now, later) = self.greeting.split_at(count);
            buffer.put_slice(now);
            self.greeting = later;
            return Poll::Ready(Ok(()));
        }
        if self.left == 0 {
            return Poll::Ready(Err(std::io::Error::other(TOO_LONG)));
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        let count = buffer.filled().len().saturating_sub(before);
        self.left = self.left.saturating_sub(count);
        result
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        // The next answer is to something else.
        self.left = LONGEST_ANSWER;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
