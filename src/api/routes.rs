//! EVERY endpoint, one line each: method, path, operation id, access, summary, handler.
//!
//! Paths are those of the specification, which spells the git host's product-neutral word in two ways: `githost` in values
//! and `/gitghost/...` in paths. Both spellings of a path are served by the same handler (decisions 1).

use hyper::Method;

use super::body::FromBody;
use super::endpoint::{Access, Answer, Call, FromPath, Route, Who, route};
use super::error::{Problem, Result};
use super::query::FromQuery;
use super::{
    audit, build_logs, build_settings, builds, deploys, docs, downloads, hooks, live, members, meta, metrics, notifications, organizations,
    platforms, projects, queue, repositories, schedule_slots, sessions, storage, streamvc, streamvc_projects, tokens, webhook_deliveries,
    webhooks,
};
use crate::model::permission::Permission::{Administer, Own, Read, ReadBuild, ReadIntegrations, Trigger, Write};
use Access::{Needs, Public};

/// What stands between us and a server that is not ours.
const UPSTREAM: &[Problem] = &[Problem::UpstreamError, Problem::UpstreamRateLimited, Problem::StorageFull, Problem::RepositoryNotFound];

/// What linking a stream can come to.
const STREAMVC: &[Problem] = &[
    Problem::StreamvcNotConfigured,
    Problem::ProjectExists,
    Problem::RepositoryNotFound,
    Problem::BranchNotFound,
    Problem::UprojectNotFound,
    Problem::UpstreamError,
    Problem::UpstreamRateLimited,
    Problem::StorageFull,
];

/// What trying credentials of a version-control server can come to.
const STREAMVC_CHECK: &[Problem] =
    &[Problem::StreamvcCheckFailed, Problem::UpstreamError, Problem::UpstreamRateLimited, Problem::StorageFull];

/// What asking the git host can come to.
const GITHOST: &[Problem] = &[
    Problem::GithostNotConnected,
    Problem::InstallationNotFound,
    Problem::RepositoryNotFound,
    Problem::BranchNotFound,
    Problem::UprojectNotFound,
    Problem::MultipleUprojects,
    Problem::UpstreamError,
    Problem::UpstreamRateLimited,
    Problem::StorageFull,
];

/// The route table. What the server serves, what it documents and what the tests try all come from here.
#[rustfmt::skip]
pub fn routes() -> Vec<Route> {
    vec![
        get   ("/healthz",              "getHealth",        Public,                 "Whether the process answers",                          meta::health).uncounted(),
        get   ("/readyz",               "getReadiness",     Public,                 "Whether work can be taken",                            meta::ready),
        get   ("/openapi.json",         "getOpenapi",       Public,                 "This API's description, as OpenAPI 3.1",               docs::document),
        get   ("/docs",                 "getDocs",          Public,                 "This API's description, as a page to read",            docs::page).not_json(),
        get   ("/version",              "getVersion",       Public,                 "Which version this is",                                meta::version),
        get   ("/metrics",              "getMetrics",       Public,                 "Figures for monitoring, as Prometheus reads them",     metrics::show).not_json().uncounted().refuses(&[Problem::NotFound]),

        post  ("/setup",                "setUp",            Public,                 "Make the first organization and its admin, once",      sessions::set_up).refuses(&[Problem::Unauthenticated, Problem::NotFound]),
        post  ("/auth/login",           "logIn",            Public,                 "Begin a session",                                      sessions::log_in).signs_in().refuses(&[Problem::Unauthenticated]),
        post  ("/auth/logout",          "logOut",           Needs(Own),             "End this session",                                     sessions::log_out).refuses(&[Problem::Forbidden]),
        post  ("/auth/accept-invitation", "acceptInvitation", Public,               "Accept an invitation, once, and begin a session",      members::accept).signs_in().refuses(&[Problem::Unauthenticated, Problem::TokenExpired]),
        get   ("/auth/me",              "getMe",            Needs(Own),             "Who the caller is",                                    sessions::me),
        get   ("/auth/tokens",          "listTokens",       Needs(Own),             "List one's own tokens; as an admin, all",              tokens::list).refuses(&[Problem::InsufficientScope]),
        post  ("/auth/tokens",          "createToken",      Needs(Own),             "Make a token; it is shown once",                       tokens::create).creates().refuses(&[Problem::InsufficientScope]),
        get   ("/auth/tokens/{id}",     "getToken",         Needs(Own),             "Show one token",                                       tokens::show).refuses(&[Problem::InsufficientScope]),
        delete("/auth/tokens/{id}",     "revokeToken",      Needs(Own),             "Revoke a token",                                       tokens::revoke).conditional().refuses(&[Problem::InsufficientScope]),
        post  ("/auth/tokens/{id}/rotate", "rotateToken",   Needs(Own),             "Give a token a new secret; the old one ends",          tokens::rotate).creates().refuses(&[Problem::InsufficientScope]),

        post  ("/auth/stream-ticket",   "createStreamTicket", Needs(Own),           "Make a ticket that opens one stream",                  live::ticket),

        get   ("/members",              "listMembers",      Needs(Read),            "List members",                                         members::list),
        post  ("/members",              "inviteMember",     Needs(Administer),      "Invite somebody",                                      members::invite).creates(),
        get   ("/members/{userId}",     "getMember",        Needs(Read),            "Show one member",                                      members::show),
        patch ("/members/{userId}",     "changeMember",     Needs(Administer),      "Give a member another role",                           members::change).conditional().refuses(&[Problem::LastAdmin]),
        delete("/members/{userId}",     "removeMember",     Needs(Administer),      "Remove a member; their sessions and tokens end",       members::remove).conditional().refuses(&[Problem::LastAdmin]),

        get   ("/projects",             "listProjects",     Needs(Read),            "List projects",                                        projects::list),
        post  ("/projects/add-repo",    "addRepo",          Needs(Write),           "Link a git-hosted repository",                         projects::add_repo).creates().refuses(&[Problem::InsufficientScope, Problem::ProjectExists]).refuses(GITHOST),
        post  ("/projects/add-streamvc", "addStreamvc",     Needs(Write),           "Link a stream of the version-control server",          streamvc_projects::add).creates().refuses(STREAMVC),
        get   ("/projects/{id}",        "getProject",       Needs(Read),            "Show one project",                                     projects::show),
        patch ("/projects/{id}",        "changeProject",    Needs(Write),           "Change a project's name and description",              projects::change).conditional(),
        delete("/projects/{id}",        "deleteProject",    Needs(Administer),      "Remove a project and its build settings",              projects::remove).conditional(),

        get   ("/projects/{id}/build-settings",                     "listBuildSettings",    Needs(Read),    "List a project's build settings",  build_settings::list),
        post  ("/projects/{id}/build-settings",                     "createBuildSetting",   Needs(Write),   "Make a build setting",             build_settings::create).creates(),
        get   ("/projects/{id}/build-settings/{settingId}",         "getBuildSetting",      Needs(Read),    "Show one build setting",           build_settings::show),
        patch ("/projects/{id}/build-settings/{settingId}",         "changeBuildSetting",   Needs(Write),   "Change a build setting",           build_settings::change).conditional(),
        delete("/projects/{id}/build-settings/{settingId}",         "deleteBuildSetting",   Needs(Write),   "Remove a build setting",           build_settings::remove).conditional(),
        get   ("/projects/{id}/build-settings/{settingId}/schedule-slots", "listScheduleSlots", Needs(Read),    "What became of a schedule's due times", schedule_slots::list),
        post  ("/projects/{id}/build-settings/{settingId}/trigger", "triggerBuild",         Needs(Trigger), "Start a build",                    build_settings::trigger).creates().triggers(),

        get   ("/builds",                   "listBuilds",           Needs(Read),        "List builds, newest first",                        builds::list),
        get   ("/builds/{id}",              "getBuild",             Needs(ReadBuild),   "Show one build and the end of its log",            builds::show),
        patch ("/builds/{id}",              "changeBuild",          Needs(Trigger),     "Pin a build's artifact",                           builds::change).conditional(),
        get   ("/builds/{id}/log",          "getBuildLog",          Needs(ReadBuild),   "The whole log as text",                            build_logs::text).not_json().uncounted(),
        get   ("/builds/{id}/log/lines",    "listBuildLogLines",    Needs(ReadBuild),   "Lines of the log",                                 build_logs::lines),
        get   ("/builds/{id}/events",       "followBuild",          Needs(ReadBuild),   "Follow one build as server-sent events",           live::follow_build).streams().refuses(&[Problem::InvalidCursor]),
        get   ("/builds/{id}/diagnostics",  "getBuildDiagnostics",  Needs(ReadBuild),   "Errors and warnings found in the log",             builds::diagnostics),
        get   ("/builds/{id}/download",     "getBuildDownload",     Needs(ReadBuild),   "A link to the artifact, good for 24 hours",        builds::download),
        get   ("/artifacts/{file}",         "downloadArtifact",     Public,             "Download an artifact by its signed link",          downloads::download).not_json().uncounted().refuses(&[Problem::UrlExpired, Problem::SignatureInvalid]),
        post  ("/builds/{id}/cancel",       "cancelBuild",          Needs(Trigger),     "End a build that nobody wants any more",           builds::cancel).refuses(&[Problem::BuildFinished]),
        post  ("/builds/{id}/retry",        "retryBuild",           Needs(Trigger),     "Build the same revision again",                    builds::retry).creates().triggers().refuses(&[Problem::BuildUnfinished]),
        post  ("/builds/{id}/deploy",       "deployBuild",          Needs(Trigger),     "Hand the artifact on once more",                   builds::deploy).refuses(&[Problem::BuildUnfinished]),
        get   ("/builds/{id}/deploys",      "listBuildDeploys",     Needs(ReadBuild),   "List attempts to hand the artifact on, newest first", deploys::list),
        get   ("/builds/{id}/notifications", "listBuildNotifications", Needs(ReadBuild), "Whom a build has told that it ended",              notifications::list),

        get   ("/queue",                "getQueue",             Needs(Read),        "Whether builds are started, and how many wait",        queue::show),
        post  ("/queue/pause",          "pauseQueue",           Needs(Administer),  "Start no more builds; what runs goes on",              queue::pause),
        post  ("/queue/resume",         "resumeQueue",          Needs(Administer),  "Start builds again",                                   queue::resume),

        get   ("/events",                   "followEvents",         Needs(Read),        "Follow all builds as server-sent events",          live::follow_events).streams().refuses(&[Problem::InvalidCursor]),
        get   ("/live",                     "openLive",             Needs(ReadBuild),   "Follow builds over one WebSocket",                 live::open).streams().refuses(&[Problem::UpgradeRequired]),

        get   ("/gitghost/repos/{installationId}",       "listRepositories", Needs(ReadIntegrations), "List what the git host's connection reaches", repositories::list).refuses(GITHOST),
        get   ("/gitghost/branches/{installationId}",    "listBranches",     Needs(ReadIntegrations), "Find branches of a repository",            repositories::branches).refuses(GITHOST),
        get   ("/gitghost/uproject/{installationId}",    "getUproject",      Needs(ReadIntegrations), "Read a repository's project file",         repositories::uproject).refuses(GITHOST),
        get   ("/githost/repos/{installationId}",       "listRepositories", Needs(ReadIntegrations), "List what the git host's connection reaches", repositories::list).refuses(GITHOST),
        get   ("/githost/branches/{installationId}",    "listBranches",     Needs(ReadIntegrations), "Find branches of a repository",            repositories::branches).refuses(GITHOST),
        get   ("/githost/uproject/{installationId}",    "getUproject",      Needs(ReadIntegrations), "Read a repository's project file",         repositories::uproject).refuses(GITHOST),

        get   ("/organizations/{id}",                       "getOrganization",      Needs(Read),        "Show the organization",                    organizations::show),
        patch ("/organizations/{id}",                       "changeOrganization",   Needs(Administer),  "Change the organization's name and defaults", organizations::change).conditional(),
        put   ("/organizations/{id}/integrations/gitghost", "connectGithost",       Needs(Administer),  "Connect the git host",                     organizations::connect_githost).conditional().refuses(UPSTREAM),
        put   ("/organizations/{id}/integrations/githost",  "connectGithost",       Needs(Administer),  "Connect the git host",                     organizations::connect_githost).conditional().refuses(UPSTREAM),
        delete("/organizations/{id}/integrations/gitghost", "disconnectGithost",    Needs(Administer),  "Disconnect the git host",                  organizations::disconnect_githost).conditional(),
        delete("/organizations/{id}/integrations/githost",  "disconnectGithost",    Needs(Administer),  "Disconnect the git host",                  organizations::disconnect_githost).conditional(),
        post  ("/organizations/{id}/notifications/test",    "testNotifications",    Needs(Administer),  "Send a message to every configured chat, and a mail to oneself", notifications::test),
        patch ("/organizations/{id}/streamvc",              "connectStreamvc",      Needs(Administer),  "Store the version-control server's credentials", streamvc::connect).conditional().refuses(STREAMVC_CHECK),
        get   ("/storage",              "getStorage",       Needs(Read),            "How full the disk is, and what takes how much",        storage::show),

        post  ("/hooks/githost",                "receiveDelivery",  Public,             "Take a signed delivery of the git host",               hooks::receive).unrecorded().refuses(&[Problem::SignatureInvalid]),
        get   ("/hooks/deliveries",             "listDeliveries",   Needs(Administer),  "List the git host's deliveries, newest first",         hooks::list),
        post  ("/hooks/deliveries/{id}/replay", "replayDelivery",   Needs(Administer),  "Deal with a delivery once more",                       hooks::replay),

        get   ("/webhooks",                     "listWebhooks",         Needs(Administer),  "List the endpoints that are told what happens",        webhooks::list),
        post  ("/webhooks",                     "createWebhook",        Needs(Administer),  "Have an endpoint told what happens",                   webhooks::create).creates(),
        get   ("/webhooks/{id}",                "getWebhook",           Needs(Administer),  "Show one endpoint",                                    webhooks::show),
        patch ("/webhooks/{id}",                "changeWebhook",        Needs(Administer),  "Change an endpoint, or switch it on or off",           webhooks::change).conditional(),
        delete("/webhooks/{id}",                "deleteWebhook",        Needs(Administer),  "Remove an endpoint and what waits for it",             webhooks::remove).conditional(),
        post  ("/webhooks/{id}/rotate-secret",  "rotateWebhookSecret",  Needs(Administer),  "Give an endpoint a new secret; it is shown once",      webhooks::rotate).creates(),
        post  ("/webhooks/{id}/ping",           "pingWebhook",          Needs(Administer),  "Send an endpoint a message to try it",                 webhooks::ping),
        get   ("/webhooks/{id}/deliveries",     "listWebhookDeliveries", Needs(Administer), "List messages to an endpoint, newest first",           webhook_deliveries::list),
        get   ("/webhooks/{id}/deliveries/{deliveryId}", "getWebhookDelivery", Needs(Administer), "Show one message, every try and the last answer", webhook_deliveries::show),
        post  ("/webhooks/{id}/deliveries/{deliveryId}/redeliver", "redeliverWebhook", Needs(Administer), "Send a message once more",           webhook_deliveries::redeliver),

        get   ("/audit",                "listAudit",        Needs(Administer),      "List what was changed and what was refused, oldest first", audit::list),
        get   ("/platforms",            "listPlatforms",    Needs(Read),            "What this host can build",                             platforms::list),
    ]
}

macro_rules! methods {
    ($($name:ident $method:ident)*) => {$(
        #[allow(dead_code, reason = "each method has its word, whether or not the table uses it yet")]
        fn $name<P, Q, B, C, A, F, W>(path: &'static str, operation_id: &'static str, access: Access, summary: &'static str, function: F) -> Route
        where
            P: FromPath,
            Q: FromQuery,
            B: FromBody,
            C: Who,
            A: Answer,
            F: Fn(Call<P, Q, B, C>) -> W + Copy + Send + Sync + 'static,
            W: Future<Output = Result<A>> + Send + 'static,
        {
            route(Method::$method, path, operation_id, access, summary, function)
        }
    )*};
}
methods! { get GET  post POST  put PUT  patch PATCH  delete DELETE }
