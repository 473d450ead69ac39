//! EVERY endpoint, one line each: method, path, operation id, access, summary, handler.
//!
//! Paths are those of the specification, which spells the git host's product-neutral word in two ways: `githost` in values
//! and `/gitghost/...` in paths. Both spellings of a path are served by the same handler (decisions 1).

use hyper::Method;

use super::body::FromBody;
use super::endpoint::{Access, Answer, Call, FromPath, Route, Who, route};
use super::error::Result;
use super::query::FromQuery;
use super::{build_logs, downloads, meta, sessions, tokens};
use crate::model::permission::Permission::{Own, ReadBuild};
use Access::{Needs, Public};

/// The route table. What the server serves, what it documents and what the tests try all come from here.
#[rustfmt::skip]
pub fn routes() -> Vec<Route> {
    vec![
        get   ("/healthz",              "getHealth",        Public,                 "Whether the process answers",                          meta::health),
        get   ("/readyz",               "getReadiness",     Public,                 "Whether work can be taken",                            meta::ready),
        get   ("/version",              "getVersion",       Public,                 "Which version this is",                                meta::version),

        post  ("/setup",                "setUp",            Public,                 "Make the first organization and its admin, once",      sessions::set_up),
        post  ("/auth/login",           "logIn",            Public,                 "Begin a session",                                      sessions::log_in),
        post  ("/auth/logout",          "logOut",           Needs(Own),             "End this session",                                     sessions::log_out),
        get   ("/auth/me",              "getMe",            Needs(Own),             "Who the caller is",                                    sessions::me),
        get   ("/auth/tokens",          "listTokens",       Needs(Own),             "List one's own tokens; as an admin, all",              tokens::list),
        post  ("/auth/tokens",          "createToken",      Needs(Own),             "Make a token; it is shown once",                       tokens::create).creates(),
        delete("/auth/tokens/{id}",     "revokeToken",      Needs(Own),             "Revoke a token",                                       tokens::revoke),
        post  ("/auth/tokens/{id}/rotate", "rotateToken",   Needs(Own),             "Give a token a new secret; the old one ends",          tokens::rotate).creates(),

        get   ("/builds/{id}/log",      "getBuildLog",      Needs(ReadBuild),       "Read a build's log as text",                           build_logs::text).not_json(),
        get   ("/artifacts/{file}",     "downloadArtifact", Public,                 "Download an artifact by its signed link",              downloads::download).not_json(),
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
