//! An endpoint: keeps what it gets, and answers what a test tells it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::outbound::receiver::{Connection, Receiver, head};

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut values =
            self.head.lines().skip(1).filter_map(|line| line.split_once(": ")).filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let value = values.next().unwrap_or_else(|| panic!("no {name} in {}", self.head)).1;
        assert!(values.next().is_none(), "{name} twice");
        value.trim_end()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub(crate) fn id(&self) -> String {
        self.header("webhook-id").to_owned()
    }
}

/// The signatures that are right for this secret.
pub(crate) fn verify(got: &Got, secret: &str) -> usize {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("a secret")).expect("base64");
    let signed = [format!("{}.{}.", got.header("webhook-id"), got.header("webhook-timestamp")).as_bytes(), &got.body].concat();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
    mac.update(&signed);
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    got.header("webhook-signature").split(' ').filter(|signature| *signature == expected).count()
}

pub(crate) struct Endpoint {
    receiver: Receiver,
    got: Arc<Mutex<Vec<Got>>>,
}

/// What is answered to the n-th request, from 0; `None`: nothing, ever.
type Answers = dyn Fn(usize, &Got) -> Option<String> + Send + Sync;

impl Endpoint {
    /// Takes everything.
    pub(crate) async fn taking() -> Endpoint {
        Endpoint::answering(|_, _| Some(status(204))).await
    }

    pub(crate) async fn answering(answers: impl Fn(usize, &Got) -> Option<String> + Send + Sync + 'static) -> Endpoint {
        let got = Arc::new(Mutex::new(Vec::new()));
        let (kept, answers): (_, Arc<Answers>) = (got.clone(), Arc::new(answers));
        let receiver = Receiver::plain(move |connection| serve(connection, kept.clone(), answers.clone())).await;
        Endpoint { receiver, got }
    }

    pub(crate) fn url(&self) -> String {
        self.receiver.http("/hook?x=1")
    }

    /// How many requests came.
    pub(crate) fn count(&self) -> usize {
        self.got.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until so many requests came.
    pub(crate) async fn until(&self, count: usize) -> Vec<Got> {
        for _ in 0..2000 {
            let got = self.got();
            if got.len() >= count {
                return got;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} of {count} came", self.got().len());
    }

    /// The types of what came, in order.
    pub(crate) fn types(&self) -> Vec<String> {
        self.got().iter().map(|got| got.json()["type"].as_str().expect("a type").to_owned()).collect()
    }
}

/// An answer without a body.
pub(crate) fn status(status: u16) -> String {
    format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n")
}

async fn serve(mut connection: Connection, got: Arc<Mutex<Vec<Got>>>, answers: Arc<Answers>) {
    let head = head(&mut connection).await;
    let Some(length) = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()) else {
        return;
    };
    let mut body = vec![0; length];
    if connection.read_exact(&mut body).await.is_err() {
        return;
    }
    let answer = {
        let mut got = got.lock().unwrap_or_else(PoisonError::into_inner);
        let request = Got { head, body };
        let answer = answers(got.len(), &request);
        got.push(request);
        answer
    };
    match answer {
        Some(answer) => drop(connection.write_all(answer.as_bytes()).await),
        None => std::future::pending().await,
    }
}
