//! p4: its command line, the server it may speak to, and the client workspace it works in.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use super::super::super::bindings::types::ErrorCode;
use super::super::super::p4::arguments::{self, CLIENT};
use super::super::super::p4::profile::{self, Access, Profile, is_fingerprint};
use super::super::super::p4::server::Server;
use super::super::super::p4::{form, links};
use super::super::http::sending::from_outbound;
use super::super::{CallState, Failure, blocking};
use super::invocation::{Invocation, denied, secret_text, unknown_variable};
use crate::platform::process::{Command, Stdin};

impl CallState {
    /// What p4 is started with, once everything was checked.
    pub(super) async fn p4_command(&mut self, p4: &Profile, mut invocation: Invocation) -> Result<Command, Failure> {
        let needs = arguments::check(&invocation.arguments).map_err(|refused| denied(refused.to_string()))?;
        let mut access = p4_access(&mut invocation)?;
        let root = self.p4_workspace(&mut invocation).await?;
        if needs.workspace && root.is_none() {
            return Err(denied("this command of p4 needs a workspace".to_owned()));
        }
        access.client = root.as_deref().map(|root| p4.client(root));
        access.writes_below = root.clone();
        if needs.server {
            access.server = Some(self.p4_server().await?);
        }
        let input = match (&access.client, &root, invocation.input.take()) {
            (Some(client), Some(root), Some(text)) if needs.form => form::complete(&text, client, root).map_err(denied)?.into_bytes(),
            (_, _, None) if !needs.form => Vec::new(),
            _ => return Err(denied("p4 reads a form for `client -i`, and nothing else".to_owned())),
        };
        // p4 names its files when it complains, and a guest passes on what p4 says.
        for place in [Some(&p4.home), root.as_ref()].into_iter().flatten() {
            self.redactor.add(&place.to_string_lossy());
        }
        let prepared = {
            let (p4, access) = (p4.clone(), access);
            blocking(move || {
                p4.prepare()?;
                Ok((p4.environment(&access)?, access.client))
            })
        };
        let (environment, client) = prepared.await.map_err(|error| Failure::io(&error, "p4's private directory"))?;
        let mut command = Command::new(&p4.p4, p4.home.join("empty"), self.call.process_marker.clone());
        let own = |word: String| match &client {
            Some(client) if arguments::is_own(&word) || word == CLIENT => word.replacen(CLIENT, client, 1),
            _ => word,
        };
        command.args = invocation.arguments.into_iter().map(own).map(OsString::from).collect();
        command.environment = environment.into_iter().collect();
        command.stdin = if input.is_empty() { Stdin::Null } else { Stdin::Bytes(input) };
        Ok(command)
    }

    /// The directory of the workspace. Before the first command of a call, links that lead out of it are removed: a build
    /// may have left some, and p4 would write through them.
    async fn p4_workspace(&mut self, invocation: &mut Invocation) -> Result<Option<PathBuf>, Failure> {
        let Some((workspace, path)) = invocation.directory.take() else { return Ok(None) };
        if path.as_os_str() != "." {
            return Err(denied("p4 works in the whole workspace".to_owned()));
        }
        if !std::mem::replace(&mut self.has_run_p4, true) {
            let (directory, cancel) = (workspace.directory.clone(), self.call.cancel.clone());
            let removed = self.unless_cancelled(blocking(move || links::remove_leading_out(&directory, &cancel))).await?;
            let removed = removed.map_err(|error| Failure::io(&error, "the workspace"))?;
            if removed > 0 {
                let text = format!("{removed} links that led out of the workspace were removed");
                self.call.log.line(crate::model::log::LogStream::System, &text);
            }
        }
        Ok(Some(workspace.root.to_path_buf()))
    }

    /// The server of the settings, resolved and checked for each command anew.
    async fn p4_server(&mut self) -> Result<(Server, IpAddr), Failure> {
        let granted = self.grants.server_of("p4").and_then(Server::parse);
        let server = granted.ok_or_else(|| {
            let text = "the address of the server is not of the form ssl:host:port or tcp:host:port";
            Failure::said(ErrorCode::InvalidConfig, text).reason("server-address")
        })?;
        let (outbound, url) = (self.outbound.clone(), server.url());
        let found = self.unless_cancelled(async move { outbound.addresses(&url).await }).await?;
        let addresses = found.map_err(|error| from_outbound(&error))?;
        // As p4 itself does where a name has both kinds.
        let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first()).copied();
        let address = address.ok_or_else(|| Failure::said(ErrorCode::Unavailable, "the name of the server has no address"))?;
        Ok((server, address))
    }
}

/// The variables that p4's rules know; any other is refused.
fn p4_access(invocation: &mut Invocation) -> Result<Access, Failure> {
    let mut access = Access::default();
    for (name, value) in std::mem::take(&mut invocation.environment) {
        let is_plain = !value.is_empty() && value.len() <= 256 && !value.chars().any(char::is_control);
        match name.as_str() {
            profile::USER if is_plain => access.user = Some(value),
            profile::CHARSET if value == "utf8" => access.charset = Some(value),
            profile::FINGERPRINT if is_fingerprint(&value) => access.fingerprint = Some(value),
            _ => return Err(unknown_variable("p4", &name)),
        }
    }
    for (name, value) in std::mem::take(&mut invocation.secret_environment) {
        match name.as_str() {
            profile::TICKET => access.ticket = Some(secret_text(value)?),
            _ => return Err(unknown_variable("p4", &name)),
        }
    }
    Ok(access)
}
