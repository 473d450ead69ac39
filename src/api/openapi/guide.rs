//! What is taught: the prose of the document. Everything else in it is made from code.

use serde_json::{Value, json};

use crate::api::endpoint::Route;

pub(super) const INTRODUCTION: &str = "\
Cookhouse builds Unreal Engine projects from source control and keeps what comes out. A **project** is a codebase; its \
**build settings** say what is built and what starts it; a **build** that completes has an **artifact**, a tarball behind \
a signed link.

## First steps

1. Make a token: sign in with `POST /auth/login`, then `POST /auth/tokens` with the scopes that your script needs.
2. Link a repository with `POST /projects/add-repo`, and say what to build with `POST /projects/{id}/build-settings`.
3. Start a build with `POST /projects/{id}/build-settings/{settingId}/trigger`, read it with `GET /builds/{id}` until its \
`status` is `complete`, `failed` or `superseded`, and ask `GET /builds/{id}/download` for the link.

## What holds everywhere

- **Ids** are 24 characters and sort by creation time. Another organization's id is 404, as if it did not exist.
- **Times** are ISO 8601 in UTC with milliseconds and `Z`.
- **Resources** always have all of their keys; what is not there is `null` or `\"\"`. Fields may be added any time: ignore \
those that you do not know.
- **Lists** answer `{items, nextCursor}`. Give `nextCursor` back as `cursor`, with the same filters, until it is null; \
nothing is lost or repeated when things come and go between pages. `limit` is 25, at most 100.
- **Bodies** are JSON of at most 1 MiB. PATCH is a JSON merge patch: what is absent stays, `null` clears. Unknown keys are \
ignored, unless `Prefer: handling=strict` asks for them to be refused.
- **Changes** that others may make, too: send the `ETag` that you read as `If-Match`; 412 means that somebody was faster.
- **Repeating** what creates something is safe with an `Idempotency-Key`: within 24 hours the same key with the same body \
gets the first answer again, with `Idempotent-Replayed: true`.
- **Errors** all look like `Error`: branch on `error.code`, show `error.message`, quote `error.requestId`. All wrong fields \
of a body are told at once in `error.details`.
- **429 and 503** say in `Retry-After` how many seconds to wait.
- **Limits** count per token, per person or per address: `RateLimit-Policy` and `RateLimit` tell where you stand. Downloads \
and logs do not count.
- GET also answers HEAD, and every path answers OPTIONS with `Allow`.
- `/v1` and the bare host serve the same. A breaking change would be `/v2`, and `/v1` would stay for at least a year.";

pub(super) const BEARER: &str = "`Authorization: Bearer <token>`: an API token (`ckh_...`), or the access token of a session.";
pub(super) const SESSION: &str =
    "The cookie of a signed-in browser. Requests that change something must come from this server's own pages.";

/// Sections of the document: name, what it is about, beginnings of paths. The longest beginning counts.
pub(super) const TAGS: &[(&str, &str, &[&str])] = &[
    ("Projects", "A project links a codebase to what is built of it.", &["/projects"]),
    (
        "Build settings",
        "A build setting is a reusable preset: what gets built, and the one thing that starts it.",
        &["/projects/{id}/build-settings"],
    ),
    ("Builds", "One run of a build setting, from `pending` to `complete`, `failed` or `superseded`.", &["/builds", "/queue"]),
    ("Artifacts", "What builds leave behind.", &["/artifacts", "/storage"]),
    (
        "Git host",
        "What the organization's connection to its git host (a GitHub Enterprise Server, github.com, or a compatible server) shows.",
        &["/gitghost", "/githost"],
    ),
    (
        "Organization",
        "The organization, its defaults, its people and its connections.",
        &["/organizations", "/members", "/audit", "/platforms"],
    ),
    ("Session and tokens", "Signing in, and tokens for scripts.", &["/auth", "/setup"]),
    ("Plugins", "What reaches source control and receivers of artifacts.", &["/plugins"]),
    ("Events", "What happens, as it happens, and told to other servers.", &["/events", "/live", "/webhooks", "/hooks"]),
    ("Service", "The service itself.", &["/healthz", "/readyz", "/version", "/metrics", "/openapi.json", "/docs"]),
];

/// Path parameters that are no ids: name, meaning, example.
const PATH_PARAMETERS: &[(&str, &str, &str)] = &[
    ("file", "`<buildId>.tar.gz`, as the signed link has it.", "01k7f9zq4v6m2x8c3b5n0t7h.tar.gz"),
    ("installationId", "One of the connection's installations; the organization lists them.", "studio"),
    ("name", "Name of a plugin.", "custom-deploy"),
];

/// What each operation is for, beyond its summary.
const TEXTS: &[(&str, &str)] = &[
    ("getHealth", "For supervisors: answers as long as the process can answer at all. It looks at nothing else."),
    (
        "getReadiness",
        "For load balancers: 200 when the store can be written, builds are being started and the disk is above its floor; else 503 with what is wrong.",
    ),
    ("getVersion", "Which program answers, and which version of the API it speaks."),
    (
        "getMetrics",
        "For Prometheus: builds, queue, artifacts, disk, webhooks, notifications, requests. Only for callers on the same machine, unless the configuration opens it.",
    ),
    ("getOpenapi", "The document that you are reading, generated from the table of routes that this server serves."),
    ("getDocs", "The document as a page. It needs no JavaScript, and asks no other server for anything."),
    (
        "setUp",
        "Works once, while the service has no account, with the setup token that its first start printed. Afterwards the path is 404.",
    ),
    (
        "logIn",
        "Answers with an access token for `Authorization: Bearer`, and sets the same as the cookie `session` for browsers. A session ends after 8 hours without a request, and after 24 hours in any case. After five failures within 15 minutes for one account and address: 429. Scripts should use API tokens instead.",
    ),
    ("logOut", "Ends the session that the request is sent with. An API token is no session: revoke it with `DELETE /auth/tokens/{id}`."),
    ("getMe", "Whose token or session this is, in which organization, and with which role."),
    ("listTokens", "Oldest first. Secrets are never shown again; revoked tokens are gone."),
    (
        "createToken",
        "The answer is the only place where `token` is shown: store it now. A token never reaches further than whoever makes it; `projectIds` and `buildSettingIds` narrow it further. A version-control server's trigger script gets the scope `trigger` and one build setting: it can start that setting and read the builds that it started, nothing else.",
    ),
    ("getToken", "What the list shows of it. The secret is never shown again."),
    ("revokeToken", "It ends at once. Repeating this is 404."),
    ("rotateToken", "The same token with a new secret, shown once; the old secret ends at once."),
    ("listProjects", "Oldest first."),
    (
        "addRepo",
        "The repository, its branch and its project file are looked at before anything is stored. Without `uprojectPath` the only `.uproject` file at most three directories deep is taken; when several match, the error's details list them. The same repository with the same project file can be linked once.",
    ),
    (
        "addStreamvc",
        "Links a stream of the version-control server whose credentials the organization has stored; without them: 409 `streamvc_not_configured`. \
         Depot, stream and project file are looked up there first.",
    ),
    ("getProject", "With its build settings and what its project file said when it was linked."),
    ("changeProject", "The link to the codebase never changes: delete the project and make a new one."),
    (
        "deleteProject",
        "Ends what it still has to build and removes its build settings and its workspace. Builds and their artifacts stay, and are found by their ids.",
    ),
    ("listBuildSettings", "Oldest first."),
    (
        "createBuildSetting",
        "`platform`, `buildType`, `ueVersion` and `trigger` are required; `branch` as well in a git-hosted project, `streamPath` in a stream-based one. A `schedule` belongs to `trigger: scheduled`, and only there. `autoDeploy` needs an `uploadBuildUrl` or `deployTargets`. What is left out begins as the organization's defaults say.",
    ),
    ("getBuildSetting", "Secrets are told by whether they are set."),
    (
        "listScheduleSlots",
        "Newest first, for 180 days. Each time at which the schedule was due is told once, whatever became of it: a time that is not \
         listed has not come yet, or is older.",
    ),
    ("changeBuildSetting", "Any subset of the fields. The result is judged as a whole, as if it were new."),
    ("deleteBuildSetting", "Ends what it still has to build. Its builds stay, and are found by their ids."),
    (
        "triggerBuild",
        "The build is on disk before the answer is sent. The body may be left out: the newest revision of what the setting tracks is built. `branch` and `commit` belong to git-hosted projects, `changelist` to stream-based ones. On a setting with `trigger: push` a newer call takes the place of builds that still wait, unless it names a `commit`.",
    ),
    ("listBuilds", "Of the whole organization, newest first. Filters combine; each page costs the same, however many builds there are."),
    (
        "getBuild",
        "With the newest 200 lines of its log. `queuePosition` and `pendingReason` say why it still waits, `failure` why it failed, `artifact` what came out.",
    ),
    ("changeBuild", "A pinned build's artifact is never deleted by retention."),
    (
        "getBuildLog",
        "Every line and a line feed. While the build runs the text grows at its end only: `Range: bytes=N-` goes on where a reader stopped, `bytes=-N` gives the end.",
    ),
    (
        "listBuildLogLines",
        "Pages of lines as JSON, oldest first. Give `nextAfter` back as `after`; while the build runs, ask again later with the `seq` of the last line.",
    ),
    (
        "followBuild",
        "Everything from the build's beginning, or from behind a position, to its end: events `hello`, `status`, `step`, `deploy`, `artifact`, `log` with a batch of at most 64 `lines`, `gap` where something is not kept any more, and `end`, after which nothing comes. `data` is one line of JSON; `id` is the position. Connect again with the last `id` and nothing is lost or repeated, also across restarts of the service. A comment comes at least every 15 seconds. Whoever falls more than 1 MiB behind is disconnected, and goes on where they were. 204: everything up to the end was told already.",
    ),
    (
        "followEvents",
        "Events `hello`, `status`, `step`, `deploy`, `artifact`, `project` and `gap` of all builds and projects that the caller may see, without log lines, from now on or from behind a position. It ends only when the service stops.",
    ),
    (
        "openLive",
        "Send `{\"subscribe\": \"build:<id>\"}` or `{\"subscribe\": \"org\", \"projectId\": null, \"types\": null}`, each with `after` to begin behind a position, and `{\"unsubscribe\": \"<channel>\"}`. What comes is `{channel, id, event, data}`: the events of `GET /builds/{id}/events` and `GET /events`, and `error` for what is refused. At most 64 subscriptions.",
    ),
    (
        "createStreamTicket",
        "For pages that cannot send a header when they open a stream: good for one stream, within 60 seconds, as far as its maker may see.",
    ),
    (
        "testNotifications",
        "Sends a message to every chat that is configured, and a mail to the caller, and answers what came of each, once all have answered or taken too long. What is not configured is `skipped`. Nothing is tried twice.",
    ),
    (
        "getStorage",
        "What the builds of the organization take, by project and build setting. On a disk below its floor no builds are started.",
    ),
    ("getBuildDiagnostics", "What the compilers and the engine's tools reported: how many, and the first 50 with file and line."),
    (
        "getBuildDownload",
        "The link needs no header and is valid for 24 hours; ask again for a new one. 404 `not_found` when there is no artifact: not finished, never produced, or deleted by retention; the message says which.",
    ),
    (
        "downloadArtifact",
        "What `GET /builds/{id}/download` links to. The signature is the permission. Ranges work, so a download can be resumed.",
    ),
    (
        "cancelBuild",
        "A waiting build fails at once, a running one when its processes have ended; `failure.code` is `cancelled`. Final builds are 409 `build_finished`.",
    ),
    ("retryBuild", "A new build of the same setting and the same revision. It has `retryOf`."),
    (
        "listBuildDeploys",
        "Every attempt that was ever made, whatever the build's own `deployments` say by now. An attempt that the end of the service cut short failed as `interrupted`.",
    ),
    (
        "deployBuild",
        "Sends the artifact of a complete build to its setting's targets once more, as they are configured now. `autoDeployStatus` tells how it goes.",
    ),
    ("listRepositories", "What the installation can see. `uprojectDetected` tells whether the default branch holds a project file."),
    ("listBranches", "At most 100; `q` finds the others by a part of their name."),
    (
        "getUproject",
        "Finds the only `.uproject` file at most three directories deep and reads it. None: 404 `uproject_not_found`. Several: 409 `multiple_uprojects`, and the details list them.",
    ),
    ("listGithostRepositories", "What the installation can see. `uprojectDetected` tells whether the default branch holds a project file."),
    ("findGithostBranches", "At most 100; `q` finds the others by a part of their name."),
    (
        "findGithostUproject",
        "Finds the only `.uproject` file at most three directories deep and reads it. None: 404 `uproject_not_found`. Several: 409 `multiple_uprojects`, and the details list them.",
    ),
    (
        "acceptInvitation",
        "With the token from the invitation's address. The account is made with the password, and signed in. It works once, within seven days.",
    ),
    ("listMembers", "Oldest first, those who are invited among them."),
    (
        "inviteMember",
        "The answer is the only place where `invitationUrl` is shown: hand it on to whom it is for. It works once, within seven days.",
    ),
    ("getMember", "Anybody may see who else is in the organization."),
    ("changeMember", "What their tokens may do shrinks with their role at once. The last admin stays one: 409 `last_admin`."),
    ("removeMember", "They cannot sign in any more, and their tokens end. The last admin cannot go: 409 `last_admin`."),
    (
        "receiveDelivery",
        "For the git host's webhook: its content type is `application/json`, its secret the `webhookSecret` of the connection. The answer is given as soon as the delivery is on disk; what it comes to is decided afterwards, and shown by `GET /hooks/deliveries`. A push starts the build settings with `trigger: push` that track its branch; each commit once.",
    ),
    ("listDeliveries", "What the git host told in the last 30 days, and what came of it."),
    ("listWebhooks", "Oldest first. Secrets are never shown again."),
    (
        "createWebhook",
        "The answer is the only place where `secret` is shown: store it now. Messages are signed as Standard Webhooks 1.0 (<https://www.standardwebhooks.com>) says: `webhook-id`, `webhook-timestamp` and `webhook-signature` with `v1,` and base64; any of its libraries verifies them with the secret. The body is `{type, timestamp, data: {build, project, organization}}`, less than 20 kB, with the state at the moment of the event. Messages to one endpoint come in the order of the events, and one that is not answered with 2xx within 15 seconds is tried again after 5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 hours, or later if `Retry-After` asks for it; what comes behind it waits. A message may come more than once: compare `webhook-id`. Redirects are not followed. After the tenth try, or an answer of 410, the endpoint is switched off. An organization has at most 50 endpoints.",
    ),
    ("getWebhook", "`waiting` and `nextAttemptAt` tell how its queue stands, `disabled` why the service switched it off."),
    (
        "changeWebhook",
        "Switching it on, or giving it another address, sends what waits at once. While it is off nothing is queued for it, and what was queued before waits.",
    ),
    ("deleteWebhook", "What waits for it is never sent. Its ledger is not shown any more, and ends with time."),
    (
        "rotateWebhookSecret",
        "The answer is the only place where the new `secret` is shown. For `overlapHours` messages carry a signature of each secret, so that receivers can change over.",
    ),
    (
        "pingWebhook",
        "Sends a message of the type `ping` at once, past the queue, once, also to an endpoint that is switched off. The ledger tells what came of it; if it is taken, what waits in the queue is tried at once.",
    ),
    (
        "listWebhookDeliveries",
        "The ledger of an endpoint, kept for 30 days (`retention.delivery_days`): one entry for each message, with every try.",
    ),
    ("getWebhookDelivery", "With the message as it was sent, and the first kilobyte of the last answer."),
    (
        "redeliverWebhook",
        "Sends the same message at once, past the queue, once, under the same `webhook-id` with a new timestamp and signature: a new entry of the ledger.",
    ),
    ("replayDelivery", "As if it came again. A commit that was built already is not built again by it."),
    (
        "listAudit",
        "Every change of the organization and every refused one: who, from where, what, when. Each entry holds the hash of the one before, so nothing can be taken out unnoticed. With several filters a page may be short, or empty, and still have a `nextCursor`.",
    ),
    (
        "listBuildNotifications",
        "One entry for each mail and each chat, with what came of it. A build has some when its setting says `notifyOnComplete` and it ended `complete` or `failed`; `notificationStatus` of the build sums them up. Kept for 30 days.",
    ),
    ("getQueue", "Of one's own organization. `draining` is the whole host's: an administrator is about to restart it."),
    ("pauseQueue", "Builds are still accepted, and wait. What runs goes on to its end. Pausing again changes nothing."),
    ("resumeQueue", "Waiting builds are started again, in their order. Resuming again changes nothing."),
    ("getOrganization", "Only one's own; any other id is 404."),
    ("changeOrganization", "`slug` and `plan` never change."),
    (
        "connectGithost",
        "The token is tried at the git host before it is stored, and never shown again. Connecting again replaces the connection.",
    ),
    (
        "connectStreamvc",
        "Server, user and ticket are tried at the server before anything is stored; 400 `streamvc_check_failed` says in its details what failed: \
         `auth_failed`, `unreachable` or `untrusted_certificate`. The first key that an encrypted server shows is trusted and shown as \
         `fingerprint`; from then on the server has to have it. Fields that are not named stay; the ticket does only while neither \
         server nor user changes.",
    ),
    ("disconnectGithost", "The token is forgotten. Builds of git-hosted projects fail until somebody connects again."),
    ("listPlatforms", "Every platform that a build setting may name, with the engines that build it here, or the reason why none does."),
];

/// The prose of an operation.
pub(super) fn text_of(operation_id: &str) -> Option<&'static str> {
    TEXTS.iter().find(|(name, _)| *name == operation_id).map(|(_, text)| *text)
}

/// The section of a path.
pub(super) fn tag_of(path: &str) -> Option<&'static str> {
    let fits = |beginning: &str| path.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let all = TAGS.iter().flat_map(|(name, _, beginnings)| beginnings.iter().map(move |beginning| (*name, *beginning)));
    all.filter(|(_, beginning)| fits(beginning)).max_by_key(|(_, beginning)| beginning.len()).map(|(name, _)| name)
}

/// Meaning and example of a path parameter that is no id.
pub(super) fn path_parameter(name: &str) -> Option<(&'static str, &'static str)> {
    PATH_PARAMETERS.iter().find(|(known, _, _)| *known == name).map(|(_, text, example)| (*text, *example))
}

/// What nobody wrote yet about these rows: sentences that say what to do.
pub fn missing(routes: &[Route]) -> Vec<String> {
    let mut missing = Vec::new();
    for route in routes {
        let name = route.operation_id;
        if text_of(name).is_none() {
            missing.push(format!("{name}: say in TEXTS of src/api/openapi/guide.rs what a client should know of it"));
        }
        if tag_of(route.path).is_none() {
            missing.push(format!("{name}: give {} a section in TAGS of src/api/openapi/guide.rs", route.path));
        }
    }
    missing
}

/// Headers of requests, as components.
pub(super) fn header_parameters() -> Value {
    let header = |name: &str, text: &str, schema: Value| json!({"name": name, "in": "header", "required": false, "description": text, "schema": schema});
    json!({
        "IfNoneMatch": header("If-None-Match", "An `ETag` that you have: 304 when it is still current.", json!({"type": "string"})),
        "IfMatch": header("If-Match", "The `ETag` that you read: 412 when somebody changed the resource since.", json!({"type": "string"})),
        "Range": header("Range", "`bytes=N-M`, `bytes=N-` or `bytes=-N`: only a part. Anything else is ignored.", json!({"type": "string", "examples": ["bytes=0-1023"]})),
        "IdempotencyKey": header(
            "Idempotency-Key",
            "Makes repeating this request safe for 24 hours: choose a new one, such as a UUID, for each thing to be made.",
            json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]{1,255}$", "examples": ["8f14e45f-ceea-467f-a9d5-91c5b6a2f1d3"]}),
        ),
        "LastEventId": header("Last-Event-ID", "Begin behind this position. Browsers send it by themselves when they connect again.", json!({"type": "string"})),
        "Ticket": json!({
            "name": "ticket", "in": "query", "required": false, "schema": {"type": "string"},
            "description": "From `POST /auth/stream-ticket`: in place of a token, for pages, which cannot send headers here. Works once.",
        }),
        "HookEvent": json!({
            "name": "X-GitHub-Event", "in": "header", "required": true, "schema": {"type": "string", "pattern": "^[A-Za-z0-9_]{1,100}$", "examples": ["push"]},
            "description": "What kind of event it is. `X-Forgejo-Event`, `X-Gitea-Event` and `X-Gogs-Event` are read as well.",
        }),
        "HookDelivery": json!({
            "name": "X-GitHub-Delivery", "in": "header", "required": true, "schema": {"type": "string", "pattern": "^[!-~]{1,100}$"},
            "description": "The git host's own name for the delivery: one that came before is taken and not dealt with again. `X-Forgejo-Delivery`, `X-Gitea-Delivery` and `X-Gogs-Delivery` are read as well.",
        }),
        "HookSignature": json!({
            "name": "X-Hub-Signature-256", "in": "header", "required": true, "schema": {"type": "string", "pattern": "^sha256=[0-9a-fA-F]{64}$"},
            "description": "`sha256=` and the HMAC-SHA256 of the raw body with the webhook secret, in hex. `X-Forgejo-Signature`, `X-Gitea-Signature` and `X-Gogs-Signature` with the digits alone are read as well.",
        }),
        "Prefer": header("Prefer", "`handling=strict`: unknown fields are refused.", json!({"type": "string", "examples": ["handling=strict"]})),
    })
}

/// Headers of answers, as components; each also as one that is not always there.
pub(super) fn headers() -> Value {
    let texts = [
        ("X-Request-Id", "Names the request in the service's log; your own, if you sent a valid one."),
        ("API-Version", "The version of the API."),
        ("RateLimit-Policy", "The limits that this request counts against: `q` requests in `w` seconds."),
        ("RateLimit", "Of each of them, how many requests `r` are left, and in how many seconds `t` there are more."),
        ("ETag", "Names this state of the resource, for `If-Match` and `If-None-Match`."),
        ("Location", "Where the new resource is."),
        ("Idempotent-Replayed", "`true`: the answer to an earlier request with the same key."),
        ("Set-Cookie", "The cookie `session`."),
        ("WWW-Authenticate", "`Bearer`."),
        ("Retry-After", "Seconds to wait."),
        ("Accept-Ranges", "`bytes`."),
        ("Content-Range", "Which bytes these are, and of how many."),
        ("Content-Disposition", "A name for the file."),
        ("Last-Modified", "When it was made."),
        ("Upgrade", "`websocket`."),
        ("Sec-WebSocket-Accept", "The proof that the handshake was understood (RFC 6455)."),
        ("Sec-WebSocket-Version", "`13`."),
        ("Content-Security-Policy", "What the page may do: nothing but show itself."),
    ];
    let mut headers = serde_json::Map::new();
    for (name, text) in texts {
        headers.insert(name.into(), json!({"description": text, "required": true, "schema": {"type": "string"}}));
        headers.insert(format!("{name}-sometimes"), json!({"description": text, "required": false, "schema": {"type": "string"}}));
    }
    Value::Object(headers)
}
