//! Where git's askpass gets its answers: from this process, over loopback, when it is asked. A token that ends in the middle of a
//! long transfer is answered with a new one, and none stands in the environment, the arguments or a file of any program.
//!
//! Each git process is told the address and a key of its own. A key opens nothing any more once its process has ended, and only
//! this user can read it from that process.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::capability::Origin;
use crate::model::Secret;

/// Longest question, in bytes: a key and a prompt.
const LONGEST_QUESTION: u64 = 8 * 1024;
/// How long somebody may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);
/// Who may ask at the same time.
const AT_ONCE: usize = 64;
/// How often one git process is told its password: there are tools that never stop asking.
const MOST_ANSWERS: usize = 200;
/// Marks an answer; without it the connection just ends.
pub(crate) const GIVEN: u8 = b'+';

/// Gets a password that the server takes now.
pub(crate) type Renewal = Arc<dyn Fn() -> BoxFuture<'static, Renewed> + Send + Sync>;

/// What became of a password.
#[derive(Debug)]
pub(crate) enum Renewed {
    /// Another one, or the same, known to be good.
    Good(Secret),
    /// Nobody can tell.
    Unknown,
    /// The server takes none any more. Whoever were given the old one again would go on with it for ever.
    Refused,
}

/// What one git process is answered.
pub(crate) struct Answers {
    /// Only they hear the password.
    pub(crate) origins: Vec<Origin>,
    /// The user's name.
    pub(crate) username: String,
    /// The first password.
    pub(crate) password: Secret,
    /// Asked whenever git asks again.
    pub(crate) renewal: Option<Renewal>,
}

struct Client {
    secret: String,
    origins: Vec<Origin>,
    username: String,
    /// Held while a new one is gotten: whoever asks at the same time gets the same.
    password: tokio::sync::Mutex<Password>,
    renewal: Option<Renewal>,
}

struct Password {
    text: Secret,
    given: usize,
}

type Clients = Arc<Mutex<HashMap<String, Arc<Client>>>>;

/// The listener. It ends when this is dropped.
pub(crate) struct Desk {
    address: SocketAddr,
    clients: Clients,
    _stop: DropGuard,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The right of one git process to ask; it ends when this is dropped.
pub(crate) struct Ticket {
    /// Where to ask.
    pub(crate) address: SocketAddr,
    /// What to ask with.
    pub(crate) key: Secret,
    id: String,
    clients: Clients,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Desk {
    /// Listens on loopback.
    ///
    /// # Errors
    /// When there is no loopback interface or no free port.
    pub(crate) async fn open() -> io::Result<Desk> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let (address, clients, stop) = (listener.local_addr()?, Clients::default(), CancellationToken::new());
        tokio::spawn(stop.clone().run_until_cancelled_owned(serve(listener, clients.clone())));
        Ok(Desk { address, clients, _stop: stop.drop_guard() })
    }

    /// Lets one git process ask.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub(crate) fn admit(&self, answers: Answers) -> io::Result<Ticket> {
        let mut random = [0u8; 40];
        getrandom::fill(&mut random).map_err(|_| io::Error::other("no randomness"))?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let (id, secret) = text.split_at(16);
        let Answers { origins, username, password, renewal } = answers;
        let password = tokio::sync::Mutex::new(Password { text: password, given: 0 });
        let client = Client { secret: secret.to_owned(), origins, username, password, renewal };
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), Arc::new(client));
        Ok(Ticket { address: self.address, key: Secret::new(text.clone()), id: id.to_owned(), clients: self.clients.clone() })
    }
}

async fn serve(listener: TcpListener, clients: Clients) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let clients = clients.clone();
        tokio::spawn(async move {
            // Whoever goes away in the middle gets no answer.
            let _ = converse(stream, &clients).await;
            drop(place);
        });
    }
}

/// `<key>\n<prompt>` in, the answer or nothing out.
async fn converse(mut stream: TcpStream, clients: &Clients) -> io::Result<()> {
    let mut question = String::new();
    let (reader, mut writer) = stream.split();
    tokio::time::timeout(PATIENCE, reader.take(LONGEST_QUESTION).read_to_string(&mut question)).await??;
    let Some((key, prompt)) = question.split_once('\n') else { return Ok(()) };
    let client = key.split_at_checked(16).and_then(|(id, secret)| {
        let found = clients.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()?;
        bool::from(found.secret.as_bytes().ct_eq(secret.as_bytes())).then_some(found)
    });
    let Some(client) = client else { return Ok(()) };
    if let Some(answer) = client.answer(prompt.trim_end_matches(['\r', '\n'])).await {
        writer.write_all(&[&[GIVEN], answer.reveal().as_bytes()].concat()).await?;
        writer.shutdown().await?;
    }
    Ok(())
}

/// What a prompt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Username,
    Password,
}

impl Client {
    async fn answer(&self, prompt: &str) -> Option<Secret> {
        match asked(prompt, &self.origins)? {
            Asked::Username => Some(Secret::new(self.username.clone())),
            Asked::Password => {
                let mut password = self.password.lock().await;
                // Nobody asks twice for what works: the server refused it, or it is a helper's turn to know it.
                if password.given > 0
                    && let Some(renewal) = &self.renewal
                {
                    match renewal().await {
                        Renewed::Good(new) => password.text = new,
                        Renewed::Unknown => {}
                        Renewed::Refused => return None,
                    }
                }
                password.given += 1;
                (password.given <= MOST_ANSWERS).then(|| password.text.clone())
            }
        }
    }
}

/// Prompts look like `Username for 'https://host': ` and `Password for 'https://user@host': ` (git-lfs: with `"`).
fn asked(prompt: &str, origins: &[Origin]) -> Option<Asked> {
    let quote = prompt.find(['\'', '"'])?;
    let mark = prompt.as_bytes()[quote] as char;
    let url = prompt[quote + 1..].split(mark).next()?;
    if !origins.contains(&Origin::parse(url)?) {
        return None;
    }
    match prompt[..quote].trim_end() {
        words if words.eq_ignore_ascii_case("username for") => Some(Asked::Username),
        words if words.eq_ignore_ascii_case("password for") => Some(Asked::Password),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::super::askpass;
    use super::*;

    fn origins() -> Vec<Origin> {
        ["https://git.example", "https://other:8443"].map(|url| Origin::parse(url).unwrap()).to_vec()
    }

    fn answers(renewal: Option<Renewal>) -> Answers {
        Answers { origins: origins(), username: "me".into(), password: Secret::new("first".into()), renewal }
    }

    #[test]
    fn only_granted_origins_are_answered() {
        let ask = |prompt: &str| asked(prompt, &origins());
        assert_eq!(ask("Username for 'https://git.example': "), Some(Asked::Username));
        assert_eq!(ask("Password for 'https://me@git.example': "), Some(Asked::Password));
        assert_eq!(ask("Password for \"https://me@other:8443/a/b.git/info/lfs\""), Some(Asked::Password));
        for prompt in [
            "Password for 'https://evil.example': ",
            "Password for 'http://git.example': ",
            "Password for 'https://git.example:444': ",
            "Password for 'https://git.example@evil.example': ",
            "Enter passphrase for key '/x': ",
            "Password",
            "",
            "Enter passphrase for key 'https://git.example': ",
        ] {
            assert_eq!(ask(prompt), None, "{prompt}");
        }
    }

    async fn ask(ticket: &Ticket, key: &str, prompt: &'static str) -> Option<String> {
        let (address, key) = (ticket.address.to_string(), key.to_owned());
        tokio::task::spawn_blocking(move || askpass::ask(&address, &key, prompt)).await.unwrap()
    }

    #[tokio::test]
    async fn whoever_asks_again_gets_a_new_password_and_nobody_else_gets_one() {
        let desk = Desk::open().await.unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let renewed = count.clone();
        let renewal: Renewal = Arc::new(move || {
            let number = renewed.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                match number {
                    0 | 1 => Renewed::Good(Secret::new(format!("new {number}"))),
                    2 => Renewed::Unknown,
                    _ => Renewed::Refused,
                }
            })
        });
        let ticket = desk.admit(answers(Some(renewal))).unwrap();
        let (key, password) = (ticket.key.reveal().clone(), "Password for 'https://me@git.example': ");
        assert_eq!(ask(&ticket, &key, "Username for 'https://git.example': ").await.as_deref(), Some("me"));
        for wanted in [Some("first"), Some("new 0"), Some("new 1"), Some("new 1"), None] {
            assert_eq!(ask(&ticket, &key, password).await.as_deref(), wanted);
        }
        let mut forged = key.clone().into_bytes();
        *forged.last_mut().unwrap() ^= 1;
        for key in ["", "short", &String::from_utf8(forged).unwrap(), &"0".repeat(80), &"ü".repeat(40)] {
            assert_eq!(ask(&ticket, key, password).await, None, "{key}");
        }
        assert_eq!(ask(&ticket, &key, "Password for 'https://evil.example': ").await, None);
        let other = desk.admit(answers(None)).unwrap();
        drop(ticket);
        assert_eq!(ask(&other, &key, password).await, None);
        for _ in 0..2 {
            assert_eq!(ask(&other, other.key.reveal(), password).await.as_deref(), Some("first"));
        }
    }
}
