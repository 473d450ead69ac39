//! git: its command line, the repository it works in, and the addresses it may connect to.

use std::ffi::OsString;
use std::sync::Arc;

use super::super::super::bindings::types::ErrorCode;
use super::super::super::capability::Origin;
use super::super::super::git::desk::{Desk, Renewal, Ticket};
use super::super::super::git::profile::{self, Access, Profile};
use super::super::super::git::{arguments, repository};
use super::super::http::sending::from_outbound;
use super::super::{CallState, Failure, blocking};
use super::invocation::{Invocation, denied, secret_text, unknown_variable};
use crate::outbound::Route;
use crate::platform::process::{Command, Stdin};

impl CallState {
    /// What git is started with, once everything was checked.
    pub(super) async fn git_command(&mut self, git: &Profile, mut invocation: Invocation) -> Result<(Command, Option<Ticket>), Failure> {
        arguments::check(&invocation.arguments, |url| self.may_reach(url)).map_err(|refused| denied(refused.to_string()))?;
        let mut access = self.git_access(&mut invocation)?;
        access.routes = self.git_routes(&access, &invocation.arguments).await?;
        let directory = match invocation.directory.take() {
            Some((workspace, path)) => {
                let release_locks = !std::mem::replace(&mut self.has_run_git, true);
                let prepared = blocking(move || {
                    let inside = if path.as_os_str() == "." { path } else { workspace.directory.canonicalize(path)? };
                    repository::disarm(&workspace.directory, &inside, release_locks)?;
                    Ok(if inside.as_os_str() == "." { workspace.root.to_path_buf() } else { workspace.root.join(inside) })
                });
                self.unless_cancelled(prepared).await?.map_err(|error| Failure::io(&error, "the repository in the workspace"))?
            }
            None => git.home.join("empty"),
        };
        // git names its files when it complains, and a guest passes on what git says.
        for place in [&git.home, &directory] {
            self.redactor.add(&place.to_string_lossy());
        }
        let prepared = {
            let git = git.clone();
            blocking(move || git.prepare())
        }
        .await;
        prepared.map_err(|error| Failure::io(&error, "git's private directory"))?;
        access.ticket = self.git_ticket(&mut access).await?;
        let mut command = Command::new(&git.git, &directory, self.call.process_marker.clone());
        command.args = invocation.arguments.into_iter().map(OsString::from).collect();
        command.environment = git.environment(&directory, &access, &self.grants).into_iter().collect();
        command.stdin = invocation.input.map_or(Stdin::Null, Stdin::Bytes);
        Ok((command, access.ticket))
    }

    /// The right to ask for the password, where there is one.
    async fn git_ticket(&mut self, access: &mut Access) -> Result<Option<Ticket>, Failure> {
        let renewal = self.renewal.clone().zip(access.remote.clone());
        let renewal = renewal.map(|(renewal, remote)| -> Renewal { Arc::new(move || renewal(remote.clone())) });
        let Some(answers) = access.answers(&self.grants, renewal) else { return Ok(None) };
        let tools = self.tools.clone();
        let opened = self.unless_cancelled(async move { tools.desk.get_or_try_init(Desk::open).await?.admit(answers) }).await?;
        opened.map(Some).map_err(|error| {
            tracing::warn!(%error, "git's questions for passwords cannot be answered");
            Failure::said(ErrorCode::Io, "git's questions for passwords cannot be answered on this server")
        })
    }

    /// Resolves and checks every host that the command line names, each time anew: git connects to what was found
    /// here, whatever the name leads to a moment later.
    async fn git_routes(&mut self, access: &Access, arguments: &[String]) -> Result<Vec<(Origin, Route)>, Failure> {
        let mut routes: Vec<(Origin, Route)> = Vec::new();
        for url in access.remote.iter().chain(arguments.iter().filter(|word| arguments::is_url(word))) {
            let Some(origin) = Origin::parse(url) else { continue };
            if routes.iter().any(|(known, _)| *known == origin) {
                continue;
            }
            let (outbound, url) = (self.outbound.clone(), url.clone());
            let found = self.unless_cancelled(async move { outbound.route(&url).await }).await?;
            routes.push((origin, found.map_err(|error| from_outbound(&error))?));
        }
        Ok(routes)
    }

    /// What can be told from the URL alone.
    fn may_reach(&self, url: &str) -> bool {
        self.grants.allows_url(url) && self.outbound.check_url(url).is_ok()
    }

    /// The three variables that git's rules know; any other is refused.
    fn git_access(&self, invocation: &mut Invocation) -> Result<Access, Failure> {
        let mut access = Access::default();
        for (name, value) in std::mem::take(&mut invocation.environment) {
            match name.as_str() {
                profile::REMOTE if self.may_reach(&value) => access.remote = Some(value),
                profile::REMOTE => {
                    return Err(Failure::said(ErrorCode::Denied, "the remote is at no granted origin").reason("origin-not-granted"));
                }
                profile::USERNAME if !value.chars().any(char::is_control) => access.username = Some(value),
                _ => return Err(unknown_variable("git", &name)),
            }
        }
        for (name, value) in std::mem::take(&mut invocation.secret_environment) {
            match name.as_str() {
                profile::PASSWORD => access.password = Some(crate::model::Secret::new(secret_text(value)?)),
                _ => return Err(unknown_variable("git", &name)),
            }
        }
        Ok(access)
    }
}
