//! The connection to a version-control server: tried before it is stored (decisions 5), and asked about streams.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::auth::Caller;
use super::body::{self, Change, Check, Fault, Fields, ReadFields};
use super::conditional::check_match;
use super::endpoint::{Call, Ok200};
use super::error::{ApiError, Problem, Result};
use super::githost::unreadable;
use super::organizations::find;
use crate::app::App;
use crate::builds::connections::{self, ConnectionError, ServiceLog, streamvc_ticket_place};
use crate::model::organization::StreamvcConnection;
use crate::model::project::UprojectInfo;
use crate::model::validation::{Invalid, InvalidCode};
use crate::model::{Id, Organization, Secret, Timestamp};
use crate::plugins::StreamServerAddress;
use crate::seams::{CallContext, PluginBinding, SourceError, SourceProblem};
use crate::store::Read;
use crate::uproject;

/// The longest that one question to the server may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// No directory of a project is deeper; only the path that was named is looked for.
const DEEPEST: u32 = 64;
/// What [`StreamServerAddress::parse`] takes, for the documentation; which bracketed text is an IPv6 address no pattern tells.
const SERVER_PATTERN: &str = concat!(
    "^(?!([sS][sS][lL]|[tT][cC][pP])(4|6|46|64)?:[^:]*$)(([sS][sS][lL]|[tT][cC][pP])(4|6|46|64)?:)?",
    "(\\[[0-9A-Fa-f:.]+\\]|(?!-)[A-Za-z0-9._-]*[A-Za-z0-9_-]\\.*):",
    "0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
);
/// What [`user_name`] takes, for the documentation.
const USER_PATTERN: &str = "^(?!-)[^\\x00-\\x20\\x7f-\\xa0@#%*\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+$";
const NO_TOOL: &str = "This service has no p4 program; its administrator installs one and names it as `tools.p4`.";

/// The version-control server's connection, without its secret.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StreamvcConnection")]
pub(super) struct StreamvcView {
    /// Where the server is.
    server_url: String,
    /// Who the service is to it.
    user_name: String,
    /// Whether a ticket is stored; it is never shown.
    ticket_set: bool,
    /// When the credentials were last seen to work.
    checked_at: Timestamp,
    /// What the server says of itself.
    server_version: String,
    /// Fingerprint of the server's key, as `p4 trust` shows it; a server with another key is not spoken to. Null without
    /// encryption.
    fingerprint: Option<String>,
    /// When the ticket ends, as the server said; null where it did not.
    ticket_expires_at: Option<Timestamp>,
}

impl StreamvcView {
    pub(super) fn new(connection: &StreamvcConnection) -> Self {
        StreamvcView {
            server_url: connection.server_url.clone(),
            user_name: connection.user_name.clone(),
            ticket_set: connection.ticket.is_some(),
            checked_at: connection.checked_at,
            server_version: connection.server_version.clone(),
            fingerprint: connection.fingerprint.clone(),
            ticket_expires_at: connection.ticket_expires_at,
        }
    }
}

/// Body of PATCH `/organizations/:id/streamvc`
pub(super) struct ConnectStreamvc {
    server_url: Option<String>,
    user_name: Option<String>,
    ticket: Change<Secret>,
    fingerprint: Change<String>,
}

impl ReadFields for ConnectStreamvc {
    fn read(fields: &mut Fields) -> Option<Self> {
        let about = "The server as its own tools take it: `ssl:host:port`, `tcp:host:port` or `host:port`. Required the first time.";
        let server_url = fields.optional("serverUrl", server_url().about(about).example("ssl:vcs.studio.example:1666"));
        let user_name = fields.optional("userName", user_name().about("Whose ticket it is. Required the first time.").example("builder"));
        let about = "A login ticket of the user, as `p4 login -a -p` prints it; never shown again. Absent: stays, as long as neither server \
                     nor user changes; null: is forgotten.";
        let ticket = fields.change("ticket", ticket().about(about));
        let about = "Fingerprint that the server's key has to have, as `p4 trust -l` shows it. Absent: the one that is stored, or, for a new \
                     server, the one that is seen now; null: the one that is seen now.";
        let fingerprint = fields.change("fingerprint", fingerprint().about(about));
        Some(ConnectStreamvc { server_url, user_name, ticket, fingerprint })
    }
}

fn server_url() -> Check<'static, String> {
    let check = body::text(300).and(|text| match StreamServerAddress::parse(&text) {
        Some(_) => Ok(text),
        None => Err(Fault::invalid("must look like ssl:host:port or tcp:host:port")),
    });
    check.with("pattern", SERVER_PATTERN)
}

fn user_name() -> Check<'static, String> {
    let check = body::text(256).and(|text| {
        let is_name =
            !text.is_empty() && !text.starts_with('-') && !text.chars().any(|c| c.is_control() || c.is_whitespace() || "@#%*".contains(c));
        if is_name { Ok(text) } else { Err(Fault::invalid("must be a user's name, without spaces and @ # % *")) }
    });
    check.with("pattern", USER_PATTERN)
}

fn ticket() -> Check<'static, Secret> {
    let check = body::secret(1024).and(|ticket: Secret| {
        let is_plain = !ticket.reveal().is_empty() && ticket.reveal().bytes().all(|byte| byte.is_ascii_graphic());
        if is_plain { Ok(ticket) } else { Err(Fault::invalid("must be visible ASCII without spaces")) }
    });
    check.with("pattern", "^[!-~]+$").example("<TICKET>")
}

fn fingerprint() -> Check<'static, String> {
    let check = body::text(59).and(|text| {
        let text = text.to_ascii_uppercase();
        let is_byte = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_fingerprint = text.split(':').count() == 20 && text.split(':').all(is_byte);
        if is_fingerprint { Ok(text) } else { Err(Fault::invalid("must be twenty bytes in hexadecimal, with : between them")) }
    });
    check.with("pattern", "^([0-9A-Fa-f]{2}:){19}[0-9A-Fa-f]{2}$")
}

/// What is going to be tried.
struct Wanted {
    server_url: String,
    user_name: String,
    ticket: Option<Secret>,
    fingerprint: Option<String>,
}

impl Wanted {
    /// The stored connection with the change. A ticket is only ever sent where it was given for.
    fn new(app: &App, organization: &Organization, change: ConnectStreamvc) -> Result<Wanted> {
        let stored = organization.streamvc.as_ref();
        let server_url = change.server_url.or_else(|| stored.map(|stored| stored.server_url.clone()));
        let user_name = change.user_name.or_else(|| stored.map(|stored| stored.user_name.clone()));
        let (server_url, user_name) = match (server_url, user_name) {
            (Some(server_url), Some(user_name)) => (server_url, user_name),
            (server_url, user_name) => {
                let missing = [("serverUrl", server_url.is_none()), ("userName", user_name.is_none())].into_iter().filter(|(_, is)| *is);
                return Err(ApiError::validation(
                    missing.map(|(name, _)| Invalid::new(name, InvalidCode::Required, "is required")).collect(),
                ));
            }
        };
        let same_server = stored.filter(|stored| StreamServerAddress::parse(&stored.server_url) == StreamServerAddress::parse(&server_url));
        let ticket =
            match (change.ticket, same_server.filter(|stored| stored.user_name == user_name).and_then(|stored| stored.ticket.as_ref())) {
                (Change::Value(ticket), _) => Some(ticket),
                (Change::Absent, Some(sealed)) => {
                    Some(app.vault.open_sealed(&streamvc_ticket_place(organization.id), sealed).map_err(ApiError::internal)?)
                }
                (Change::Null, _) | (Change::Absent, None) => None,
            };
        let fingerprint = match change.fingerprint {
            Change::Value(fingerprint) => Some(fingerprint),
            Change::Null => None,
            Change::Absent => same_server.and_then(|stored| stored.fingerprint.clone()),
        };
        Ok(Wanted { server_url, user_name, ticket, fingerprint })
    }
}

/// Stores credentials of the version-control server, once the server took them.
pub(super) async fn connect(call: Call<Id<Organization>, (), ConnectStreamvc>) -> Result<Ok200<StreamvcView>> {
    let (app, caller, head, id) = (call.app.clone(), call.caller, call.head, call.path);
    let before = app.store.read(|snapshot| find(snapshot, &caller, id))?;
    check_match(&head, before.version)?;
    let wanted = Wanted::new(&app, &before, call.body)?;
    let Wanted { server_url, user_name, ticket, fingerprint } = &wanted;
    let binding = connections::streamvc_binding(id, server_url, user_name, fingerprint.as_deref(), ticket.clone());
    let server = Streamvc { app: app.clone(), binding };
    let found = app.source_control.check(&server.binding, server.call()).await.map_err(|error| check_refusal(error, &wanted))?;
    let now = app.clock.now();
    let seconds = found.extra.get("ticketSeconds").and_then(|seconds| seconds.parse::<u32>().ok()).filter(|_| wanted.ticket.is_some());
    let place = streamvc_ticket_place(id);
    let connection = StreamvcConnection {
        ticket: wanted.ticket.as_ref().map(|ticket| app.vault.seal(&place, ticket.reveal())).transpose().map_err(ApiError::internal)?,
        server_url: wanted.server_url,
        user_name: wanted.user_name,
        checked_at: now,
        server_version: found.version,
        fingerprint: found.extra.get("fingerprint").cloned(),
        ticket_expires_at: seconds.map(|seconds| now.plus(Duration::from_secs(seconds.into()))),
    };
    let update = move |tx: &crate::store::Change| {
        let mut organization = find(tx, &caller, id)?;
        check_match(&head, organization.version)?;
        // What was tried was made of what was stored then.
        if organization.streamvc != before.streamvc {
            return Err(Problem::PreconditionFailed.into());
        }
        let view = StreamvcView::new(&connection);
        organization.streamvc = Some(connection);
        organization.updated_at = now;
        organization.version += 1;
        tx.put(&organization)?;
        Ok::<_, ApiError>(Ok200(view))
    };
    app.store.write(update).await
}

/// What a failed trial means to whoever sent the credentials.
fn check_refusal(error: SourceError, wanted: &Wanted) -> ApiError {
    let failed =
        |field: &str, code, message: String| ApiError::from(Problem::StreamvcCheckFailed).with_detail(Invalid::new(field, code, message));
    let said = || error.message.clone();
    let refusal = match (error.problem, error.reason.as_deref()) {
        (_, Some("untrusted-certificate")) => {
            let advice = match &wanted.fingerprint {
                Some(_) => "if the server was given a new key, send its fingerprint as `fingerprint`",
                None => "send the fingerprint of its key as `fingerprint`",
            };
            failed("fingerprint", InvalidCode::UntrustedCertificate, format!("{}; {advice}", said()))
        }
        (SourceProblem::Unauthenticated, Some("user")) => failed("userName", InvalidCode::AuthFailed, said()),
        (SourceProblem::Unauthenticated | SourceProblem::Forbidden, _) => failed("ticket", InvalidCode::AuthFailed, said()),
        (SourceProblem::Unavailable | SourceProblem::TimedOut, _) => failed("serverUrl", InvalidCode::Unreachable, said()),
        // Credentials that nobody can try have not passed the check either (specification, "Errors").
        (_, Some("tool-not-granted" | "tool-missing")) => failed("serverUrl", InvalidCode::Unreachable, NO_TOOL.to_owned()),
        _ => return refusal(error),
    };
    refusal.because(error)
}

/// A connection that can be asked.
pub(super) struct Streamvc {
    app: Arc<App>,
    binding: PluginBinding,
}

impl Streamvc {
    /// The caller's organization's connection; 409 without one.
    pub(super) fn of(app: &Arc<App>, caller: &Caller) -> Result<Self> {
        let id = caller.organization();
        let organization: Option<Organization> = app.store.read(|snapshot| snapshot.get(id, id))?;
        let binding = connections::streamvc(&app.vault, &organization.ok_or(Problem::NotFound)?).map_err(|error| match error {
            ConnectionError::NotConnected => Problem::StreamvcNotConfigured.into(),
            ConnectionError::Vault(error) => ApiError::internal(error),
        })?;
        Ok(Streamvc { app: app.clone(), binding })
    }

    fn call(&self) -> CallContext {
        CallContext {
            log: Arc::new(ServiceLog),
            cancel: CancellationToken::new(),
            wall: PATIENCE,
            process_marker: self.app.builds.process_marker("api"),
        }
    }

    /// A stream as the server writes it, and its newest changelist.
    pub(super) async fn stream(&self, depot: &str, stream: &str) -> Result<(String, String)> {
        let found = self.app.source_control.list_branches(&self.binding, depot, Some(stream.to_owned()), None, 1, self.call()).await;
        let page = found.map_err(|error| match (error.problem, error.reason.as_deref()) {
            (SourceProblem::NotFound, Some("revision")) => {
                ApiError::field("streamPath", InvalidCode::InvalidValue, "nothing was submitted to this stream yet").because(error)
            }
            _ => refusal(error),
        })?;
        let branch = page
            .items
            .into_iter()
            .next()
            .ok_or_else(|| ApiError::new(Problem::BranchNotFound, format!("The server has no stream {stream}.")))?;
        Ok((branch.name, branch.head.id))
    }

    /// The project file at `path`, and what it says.
    pub(super) async fn uproject(&self, stream: &str, changelist: &str, path: &str) -> Result<UprojectInfo> {
        let source = &self.app.source_control;
        let none = || ApiError::new(Problem::UprojectNotFound, format!("{stream} has no file {path} at changelist {changelist}."));
        // The server may not tell upper from lower case, and the machine that builds does.
        let (found, _) = source.find_files(&self.binding, stream, changelist, path, DEEPEST, 10, self.call()).await.map_err(refusal)?;
        let path = found.iter().find(|found| *found == path).or(found.first()).ok_or_else(none)?;
        let limit = uproject::MAXIMUM_BYTES as u32;
        let bytes = source.read_file(&self.binding, stream, changelist, path, limit, self.call()).await;
        let bytes = bytes.map_err(|error| match error.problem {
            SourceProblem::NotFound => none(),
            SourceProblem::TooLarge => unreadable(path, &format!("it is larger than {limit} bytes")),
            _ => refusal(error),
        })?;
        uproject::read(&bytes, path).map_err(|error| unreadable(path, &error.to_string()))
    }
}

/// What a failure of the server means to the client that asked for something of it.
fn refusal(error: SourceError) -> ApiError {
    let upstream = |text: &str| ApiError::new(Problem::UpstreamError, text);
    let refusal = match (error.problem, error.reason.as_deref()) {
        (_, Some("tool-not-granted" | "tool-missing")) => upstream(NO_TOOL),
        (_, Some("tool-version")) => upstream(&format!("The p4 program of this service is no use: {}.", error.message)),
        (_, Some("untrusted-certificate")) => upstream(
            "The version-control server has another key than the one that is trusted; an admin has to look at that and store its fingerprint.",
        ),
        (SourceProblem::NotFound, Some("branch")) => ApiError::new(Problem::BranchNotFound, "The server has no such stream."),
        (SourceProblem::NotFound, Some("repository")) => ApiError::new(Problem::RepositoryNotFound, "The server has no such stream depot."),
        (SourceProblem::NotFound, _) => Problem::UprojectNotFound.into(),
        (SourceProblem::Invalid, Some("file")) => ApiError::field("uprojectPath", InvalidCode::InvalidValue, error.message.clone()),
        (SourceProblem::Invalid, _) => ApiError::field("streamPath", InvalidCode::InvalidValue, error.message.clone()),
        (SourceProblem::Unauthenticated, _) => {
            upstream("The version-control server refuses the stored ticket; an admin has to store a new one.")
        }
        (SourceProblem::Forbidden, _) => upstream("The version-control server does not allow this to the stored user."),
        (SourceProblem::RateLimited, _) => ApiError::from(Problem::UpstreamRateLimited).retry_after(error.retry_after.unwrap_or(60)),
        (SourceProblem::Unavailable, _) => upstream("The version-control server cannot be reached; try again later."),
        (SourceProblem::TimedOut, _) => upstream("The version-control server did not answer in time; try again later."),
        (SourceProblem::TooLarge, _) => upstream("The version-control server's limits for the stored user are too low for this question."),
        (SourceProblem::StorageFull, _) => Problem::StorageFull.into(),
        (SourceProblem::Cancelled, _) => ApiError::from(Problem::Draining).retry_after(5),
        (SourceProblem::Broken, _) => {
            upstream("The version-control server, or its p4 program here, answered something that makes no sense.")
        }
    };
    refusal.because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_that_nobody_can_try_do_not_pass() {
        let wanted = Wanted { server_url: "ssl:vcs:1666".into(), user_name: "builder".into(), ticket: None, fingerprint: None };
        for reason in ["tool-not-granted", "tool-missing"] {
            let error = || SourceError {
                problem: SourceProblem::Broken,
                message: "no such program".into(),
                retry_after: None,
                reason: Some(reason.to_owned()),
            };
            let refused = check_refusal(error(), &wanted);
            assert_eq!((refused.problem, refused.details[0].code), (Problem::StreamvcCheckFailed, InvalidCode::Unreachable));
            assert!(refused.details[0].message.contains("tools.p4"));
            // Of what is stored already it is the service that fails.
            assert_eq!(refusal(error()).problem, Problem::UpstreamError);
        }
    }
}
