//! `secrets`: handles. What can be done with one is asked of the grants, at every use.

use std::sync::Arc;

use subtle::ConstantTimeEq as _;
use wasmtime::component::Resource;

use super::super::bindings::secrets::{self, SignatureAlgorithm};
use super::super::bindings::types::{ErrorCode, HashAlgorithm};
use super::super::manifest::SecretUse;
use super::digest;
use super::{CallState, Failure};
use crate::model::Secret as Hidden;

const LONGEST_REGISTERED: usize = 64 * 1024;
const LONGEST_LABEL: usize = 100;

/// A secret in the guest's hands: its name, and bytes that it does not see.
#[derive(Clone)]
pub struct Secret {
    name: Arc<str>,
    value: Arc<Hidden<Vec<u8>>>,
    /// The guest brought it itself; what is granted does not matter then, but it is not given back either.
    is_registered: bool,
}

impl CallState {
    /// The bytes, if this use of the secret was granted.
    pub(crate) fn secret_for(&self, secret: &Resource<Secret>, wanted: SecretUse) -> Result<Vec<u8>, Failure> {
        let secret = self.table.get(secret)?;
        let is_allowed = match wanted {
            SecretUse::Reveal => !secret.is_registered && self.grants.allows_secret(&secret.name, wanted),
            _ => secret.is_registered || self.grants.allows_secret(&secret.name, wanted),
        };
        if !is_allowed {
            let text = format!("the plugin was not granted this use of the secret `{}`", secret.name);
            return Err(Failure::said(ErrorCode::Denied, text).reason("secret-not-granted"));
        }
        Ok(secret.value.reveal().clone())
    }
}

impl secrets::Host for CallState {
    async fn get(&mut self, name: String) -> Result<Resource<Secret>, Failure> {
        let shown = super::super::text::clean(&name, LONGEST_LABEL);
        if !self.grants.knows_secret(&name) {
            return Err(Failure::said(ErrorCode::Denied, format!("the secret `{shown}` was not granted")).reason("secret-not-granted"));
        }
        let Some(value) = self.secrets.get(&name).filter(|value| !value.reveal().is_empty()) else {
            return Err(Failure::said(ErrorCode::NotFound, format!("nobody entered the secret `{shown}`")).reason("secret-missing"));
        };
        let value = Arc::new(Hidden::new(value.reveal().clone().into_bytes()));
        Ok(self.table.push(Secret { name: name.into(), value, is_registered: false })?)
    }

    async fn register(&mut self, label: String, value: Vec<u8>) -> wasmtime::Result<Resource<Secret>> {
        if value.len() > LONGEST_REGISTERED {
            return Err(wasmtime::Error::msg("a registered secret has at most 64 KiB"));
        }
        if let Ok(text) = std::str::from_utf8(&value) {
            self.redactor.add(text);
            self.call.log.mask(text);
        }
        let name = super::super::text::clean(&label, LONGEST_LABEL).into();
        Ok(self.table.push(Secret { name, value: Arc::new(Hidden::new(value)), is_registered: true })?)
    }
}

impl secrets::HostSecret for CallState {
    async fn name(&mut self, secret: Resource<Secret>) -> wasmtime::Result<String> {
        Ok(self.table.get(&secret)?.name.to_string())
    }

    async fn equals(&mut self, secret: Resource<Secret>, candidate: Vec<u8>) -> wasmtime::Result<bool> {
        // Not granted compares like a wrong candidate: there is no error in this signature.
        match self.secret_for(&secret, SecretUse::Equals) {
            Ok(value) => Ok(bool::from(value.ct_eq(&candidate))),
            Err(Failure::Said(_)) => Ok(false),
            Err(Failure::Trap(error)) => Err(error),
        }
    }

    async fn hmac(&mut self, secret: Resource<Secret>, algorithm: HashAlgorithm, message: Vec<u8>) -> Result<Vec<u8>, Failure> {
        digest::authenticate(algorithm, &self.secret_for(&secret, SecretUse::Hmac)?, &message)
    }

    async fn sign(&mut self, secret: Resource<Secret>, algorithm: SignatureAlgorithm, message: Vec<u8>) -> Result<Vec<u8>, Failure> {
        digest::sign(algorithm, &self.secret_for(&secret, SecretUse::Sign)?, &message)
    }

    async fn reveal(&mut self, secret: Resource<Secret>) -> Result<Vec<u8>, Failure> {
        let value = self.secret_for(&secret, SecretUse::Reveal)?;
        tracing::info!(plugin = &*self.plugin, secret = &*self.table.get(&secret)?.name, "a plugin was given a secret in plain text");
        Ok(value)
    }

    async fn drop(&mut self, secret: Resource<Secret>) -> wasmtime::Result<()> {
        self.table.delete(secret)?;
        Ok(())
    }
}
