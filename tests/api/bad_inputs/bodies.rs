//! Bodies: every field of every request with everything that is bad for it, and JSON that is none.

use super::Case;
use super::values::Takes::{self, *};

/// One endpoint with a body.
struct Endpoint {
    name: &'static str,
    method: &'static str,
    path: &'static str,
    /// A body that would be accepted, as the inside of an object.
    good: &'static str,
    is_public: bool,
    /// Field, what it takes, whether `null` is refused, whether it has to be there.
    fields: &'static [(&'static str, Takes, Null, Presence)],
}

/// What `null` means for a field.
#[derive(PartialEq, Clone, Copy)]
enum Null {
    Refused,
    Clears,
}

#[derive(PartialEq, Clone, Copy)]
enum Presence {
    Required,
    Optional,
}
use Null::{Clears, Refused};
use Presence::{Optional, Required};

const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "logIn",
        method: "POST",
        path: "/auth/login",
        good: r#""email": "a@example.com", "password": "correct horse battery""#,
        is_public: true,
        fields: &[("email", Text(254), Refused, Required), ("password", Secret(1024), Refused, Required)],
    },
    Endpoint {
        name: "createToken",
        method: "POST",
        path: "/auth/tokens",
        good: r#""name": "script", "scopes": ["read"]"#,
        is_public: false,
        fields: &[
            ("name", Name(80), Refused, Required),
            ("scopes", Scopes, Refused, Required),
            ("projectIds", Ids, Clears, Optional),
            ("buildSettingIds", Ids, Clears, Optional),
            ("expiresAt", Time, Clears, Optional),
        ],
    },
    Endpoint {
        name: "addRepo",
        method: "POST",
        path: "/projects/add-repo",
        good: r#""name": "Other", "installationId": "studio", "repoFullName": "studio/kitchen", "defaultBranch": "main", "uprojectPath": "Other.uproject""#,
        is_public: false,
        fields: &[
            ("name", Name(100), Refused, Required),
            ("installationId", Name(200), Refused, Required),
            ("repoFullName", Repository, Refused, Required),
            ("defaultBranch", Branch, Refused, Required),
            ("uprojectPath", ProjectFile, Clears, Optional),
        ],
    },
    Endpoint {
        name: "changeProject",
        method: "PATCH",
        path: "{project}",
        good: r#""name": "Kitchen""#,
        is_public: false,
        fields: &[("name", Name(100), Refused, Optional), ("description", Prose(4000), Clears, Optional)],
    },
    Endpoint {
        name: "createBuildSetting",
        method: "POST",
        path: "{project}/build-settings",
        good: r#""platform": "Win64", "buildType": "Development", "ueVersion": "5.4", "trigger": "manual", "branch": "main""#,
        is_public: false,
        fields: &[
            ("platform", Word, Refused, Required),
            ("buildType", Word, Refused, Required),
            ("ueVersion", Version, Refused, Required),
            ("trigger", Word, Refused, Required),
            ("branch", Branch, Refused, Required),
            ("name", Text(80), Clears, Optional),
            ("targetType", Word, Clears, Optional),
            ("streamPath", Stream, Clears, Optional),
            ("uprojectPath", ProjectFile, Clears, Optional),
            ("schedule", Object, Clears, Optional),
            ("notifyOnComplete", Flag, Clears, Optional),
            ("autoDeploy", Flag, Clears, Optional),
            ("uploadBuildUrl", Url, Clears, Optional),
            ("uploadBuildAuthHeader", Header, Clears, Optional),
            ("deployTargets", Targets, Clears, Optional),
            ("timeoutMinutes", Number(5, 2880), Clears, Optional),
            ("supersede", Word, Clears, Optional),
            ("cleanBuild", Flag, Clears, Optional),
            ("extraUatArgs", Arguments, Clears, Optional),
        ],
    },
    Endpoint {
        name: "changeBuildSetting",
        method: "PATCH",
        path: "{setting}",
        good: r#""name": "x""#,
        is_public: false,
        fields: &[
            ("platform", Word, Refused, Optional),
            ("buildType", Word, Refused, Optional),
            ("ueVersion", Version, Refused, Optional),
            ("trigger", Word, Refused, Optional),
            ("branch", Branch, Refused, Optional),
            ("autoDeploy", Flag, Clears, Optional),
            ("uploadBuildUrl", Url, Clears, Optional),
            ("timeoutMinutes", Number(5, 2880), Clears, Optional),
            ("extraUatArgs", Arguments, Clears, Optional),
        ],
    },
    Endpoint {
        name: "triggerBuild",
        method: "POST",
        path: "{setting}/trigger",
        good: "",
        is_public: false,
        fields: &[("branch", Branch, Clears, Optional), ("commit", Commit, Clears, Optional), ("changelist", Text(64), Clears, Optional)],
    },
    Endpoint {
        name: "changeBuild",
        method: "PATCH",
        path: "{build}",
        good: "",
        is_public: false,
        fields: &[("pinned", Flag, Refused, Optional)],
    },
    Endpoint {
        name: "changeOrganization",
        method: "PATCH",
        path: "{organization}",
        good: r#""name": "Studio""#,
        is_public: false,
        fields: &[("name", Name(80), Refused, Optional), ("defaultProjectSettings", Object, Clears, Optional)],
    },
    Endpoint {
        name: "connectGithost",
        method: "PUT",
        path: "{organization}/integrations/githost",
        good: r#""token": "token-of-the-git-host""#,
        is_public: false,
        fields: &[("token", Header, Refused, Required), ("apiBaseUrl", Url, Clears, Optional)],
    },
    Endpoint {
        name: "connectStreamvc",
        method: "PATCH",
        path: "{organization}/streamvc",
        good: r#""serverUrl": "ssl:vcs.studio.example:1666", "userName": "builder", "ticket": "a-ticket""#,
        is_public: false,
        fields: &[
            ("serverUrl", Server, Refused, Required),
            ("userName", VcsUser, Refused, Required),
            ("ticket", Secret(1024), Clears, Optional),
            ("fingerprint", Word, Clears, Optional),
        ],
    },
    Endpoint {
        name: "addStreamvc",
        method: "POST",
        path: "/projects/add-streamvc",
        good: r#""name": "Other", "depot": "depot", "streamPath": "//depot/main", "uprojectPath": "Other.uproject""#,
        is_public: false,
        fields: &[
            ("name", Name(100), Refused, Required),
            ("depot", Depot, Refused, Required),
            ("streamPath", Stream, Refused, Required),
            ("uprojectPath", ProjectFile, Refused, Required),
        ],
    },
    Endpoint {
        name: "inviteMember",
        method: "POST",
        path: "/members",
        good: r#""email": "grace@example.com", "name": "Grace", "role": "member""#,
        is_public: false,
        fields: &[("email", Email, Refused, Required), ("name", Name(80), Refused, Required), ("role", Word, Refused, Required)],
    },
    Endpoint {
        name: "changeMember",
        method: "PATCH",
        path: "{member}",
        good: r#""role": "admin""#,
        is_public: false,
        fields: &[("role", Word, Refused, Optional)],
    },
    Endpoint {
        name: "acceptInvitation",
        method: "POST",
        path: "/auth/accept-invitation",
        good: r#""token": "invite_none", "name": "Grace", "password": "correct horse battery""#,
        is_public: true,
        fields: &[
            ("token", Secret(256), Refused, Required),
            ("name", Name(80), Clears, Optional),
            ("password", Secret(1024), Refused, Required),
        ],
    },
    Endpoint {
        name: "createWebhook",
        method: "POST",
        path: "/webhooks",
        good: r#""url": "https://hooks.studio.example/x", "events": ["build.failed"]"#,
        is_public: false,
        fields: &[
            ("url", Url, Refused, Required),
            ("events", Events, Refused, Required),
            ("projectIds", Ids, Clears, Optional),
            ("description", Prose(1000), Clears, Optional),
            ("enabled", Flag, Refused, Optional),
        ],
    },
    Endpoint {
        name: "changeWebhook",
        method: "PATCH",
        path: "{webhook}",
        good: r#""description": "x""#,
        is_public: false,
        fields: &[
            ("url", Url, Refused, Optional),
            ("events", Events, Refused, Optional),
            ("projectIds", Ids, Clears, Optional),
            ("description", Prose(1000), Clears, Optional),
            ("enabled", Flag, Refused, Optional),
        ],
    },
    Endpoint {
        name: "rotateWebhookSecret",
        method: "POST",
        path: "{webhook}/rotate-secret",
        good: "",
        is_public: false,
        fields: &[("overlapHours", Number(0, 168), Refused, Optional)],
    },
];

/// An object inside a body: name, method, path, what stands around the field, the fields.
type Nested = (&'static str, &'static str, &'static str, &'static str, &'static [(&'static str, Takes)]);

const NESTED: &[Nested] = &[
    (
        "createBuildSetting",
        "POST",
        "{project}/build-settings",
        r#"{"platform": "Win64", "buildType": "Development", "ueVersion": "5.4", "trigger": "scheduled", "branch": "main", "schedule": {"cron": "0 3 * * *", FIELD}}"#,
        &[("timezone", Zone), ("enabled", Flag), ("onlyIfChanged", Flag), ("catchUp", Flag)],
    ),
    (
        "createBuildSetting",
        "POST",
        "{project}/build-settings",
        r#"{"platform": "Win64", "buildType": "Development", "ueVersion": "5.4", "trigger": "scheduled", "branch": "main", "schedule": {FIELD}}"#,
        &[("cron", Cron)],
    ),
    (
        "changeOrganization",
        "PATCH",
        "{organization}",
        r#"{"defaultProjectSettings": {FIELD}}"#,
        &[
            ("ueVersion", DefaultVersion),
            ("platform", Word),
            ("buildType", Word),
            ("timeoutMinutes", Number(5, 2880)),
            ("artifactRetentionDays", Number(1, 36_500)),
            ("keepLastArtifacts", Number(0, 1000)),
            ("notifyOnComplete", Flag),
            ("supersede", Word),
        ],
    ),
    (
        "changeOrganization",
        "PATCH",
        "{organization}",
        r#"{"integrationSettings": {FIELD}}"#,
        &[("notificationEmails", Emails), ("slackWebhookUrl", Url), ("discordWebhookUrl", Url), ("teamsWebhookUrl", Url), ("smtp", Object)],
    ),
    (
        "changeOrganization",
        "PATCH",
        "{organization}",
        r#"{"integrationSettings": {"smtp": {"host": "mail.studio.example", "from": "builds@studio.example", FIELD}}}"#,
        &[("port", Number(1, 65535)), ("security", Word), ("username", Text(256)), ("password", Secret(1024))],
    ),
    (
        "changeOrganization",
        "PATCH",
        "{organization}",
        r#"{"integrationSettings": {"smtp": {"from": "builds@studio.example", FIELD}}}"#,
        &[("host", MailHost)],
    ),
    (
        "changeOrganization",
        "PATCH",
        "{organization}",
        r#"{"integrationSettings": {"smtp": {"host": "mail.studio.example", FIELD}}}"#,
        &[("from", Email)],
    ),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for endpoint in ENDPOINTS {
        let case = |what: String| {
            let case = Case::new(format!("{} {what}", endpoint.name), endpoint.method, endpoint.path);
            if endpoint.is_public { case.stranger() } else { case }
        };
        for (field, takes, null, presence) in endpoint.fields {
            let without = without(endpoint.good, field);
            let separator = if without.is_empty() { "" } else { ", " };
            if *presence == Required {
                cases.push(case(format!("{field}: missing")).json(format!("{{{without}}}")));
            }
            let mut bad = takes.bad();
            if *null == Refused {
                bad.push(("null", "null".to_owned()));
            }
            for (name, value) in bad {
                cases.push(case(format!("{field}: {name}")).json(format!("{{{without}{separator}\"{field}\": {value}}}")));
            }
        }
        cases.push(case("unknown field, strictly".into()).header("Prefer", "handling=strict").json(format!(
            "{{{}{}\"surprise\": 1}}",
            endpoint.good,
            if endpoint.good.is_empty() { "" } else { ", " }
        )));
        cases.push(case("a list for a body".into()).json("[]"));
        cases.push(case("a body of another kind".into()).header("Content-Type", "text/plain").body("{\"x\": 1}"));
    }
    for (name, method, path, around, fields) in NESTED {
        let parents = ["schedule", "smtp", "integrationSettings", "defaultProjectSettings"];
        let parent = parents.into_iter().find(|parent| around.contains(&format!("\"{parent}\": {{"))).expect("a parent");
        for (field, takes) in *fields {
            for (what, value) in takes.bad() {
                let body = around.replace("FIELD", &format!("\"{field}\": {value}"));
                cases.push(Case::new(format!("{name} {parent}.{field}: {what}"), method_of(method), *path).json(body));
            }
        }
    }
    cases.extend(together());
    cases.extend(no_json());
    cases
}

fn method_of(text: &str) -> &'static str {
    if text == "PATCH" { "PATCH" } else { "POST" }
}

/// The inside of an object without one of its fields.
fn without(object: &str, field: &str) -> String {
    let whole: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&format!("{{{object}}}")).expect("JSON");
    let kept = whole.into_iter().filter(|(key, _)| key != field).map(|(key, value)| format!("\"{key}\": {value}"));
    kept.collect::<Vec<_>>().join(", ")
}

/// Fields that are good alone and bad together.
fn together() -> Vec<Case> {
    let setting = |name: &str, fields: &str| {
        let base = r#""platform": "Win64", "buildType": "Development", "ueVersion": "5.4""#;
        Case::new(format!("createBuildSetting {name}"), "POST", "{project}/build-settings").json(format!("{{{base}, {fields}}}"))
    };
    let change = |name: &str, body: &str| Case::new(format!("changeBuildSetting {name}"), "PATCH", "{setting}").json(body);
    let trigger = |name: &str, body: &str| Case::new(format!("triggerBuild {name}"), "POST", "{setting}/trigger").json(body);
    let repository = |name: &str, body: &str| Case::new(format!("addRepo {name}"), "POST", "/projects/add-repo").json(body);
    let githost =
        |name: &str, body: &str| Case::new(format!("connectGithost {name}"), "PUT", "{organization}/integrations/githost").json(body);
    vec![
        Case::new("createBuildSetting nothing at all", "POST", "{project}/build-settings").json("{}"),
        setting("scheduled without a schedule", r#""branch": "main", "trigger": "scheduled""#),
        setting("scheduled with null for a schedule", r#""branch": "main", "trigger": "scheduled", "schedule": null"#),
        setting("scheduled with an empty schedule", r#""branch": "main", "trigger": "scheduled", "schedule": {}"#),
        setting("manual with a schedule", r#""branch": "main", "trigger": "manual", "schedule": {"cron": "@daily"}"#),
        setting("push with a schedule", r#""branch": "main", "trigger": "push", "schedule": {"cron": "@daily"}"#),
        setting("a stream for a git project", r#""branch": "main", "trigger": "manual", "streamPath": "//depot/main""#),
        setting("deploy to nowhere", r#""branch": "main", "trigger": "manual", "autoDeploy": true"#),
        setting("a header for nowhere", r#""branch": "main", "trigger": "manual", "uploadBuildAuthHeader": "Bearer x""#),
        change("scheduled without a schedule", r#"{"trigger": "scheduled"}"#),
        change("a schedule for a manual setting", r#"{"schedule": {"cron": "@daily"}}"#),
        change("deploy to nowhere", r#"{"autoDeploy": true}"#),
        change("a header for nowhere", r#"{"uploadBuildAuthHeader": "Bearer x"}"#),
        change("everything cleared", r#"{"platform": null, "buildType": null, "ueVersion": null, "trigger": null, "branch": null}"#),
        trigger("a changelist for a git project", r#"{"changelist": "123"}"#),
        trigger("all overrides bad", r#"{"branch": "a..b", "commit": "x", "changelist": "y"}"#),
        repository("nothing at all", "{}"),
        repository("everything wrong", r#"{"name": 1, "installationId": 2, "repoFullName": 3, "defaultBranch": 4, "uprojectPath": 5}"#),
        repository(
            "unknown installation",
            r#"{"name": "x", "installationId": "nobody", "repoFullName": "studio/kitchen", "defaultBranch": "main"}"#,
        ),
        repository(
            "unknown repository",
            r#"{"name": "x", "installationId": "studio", "repoFullName": "studio/none", "defaultBranch": "main"}"#,
        ),
        repository(
            "unknown branch",
            r#"{"name": "x", "installationId": "studio", "repoFullName": "studio/kitchen", "defaultBranch": "none"}"#,
        ),
        repository(
            "unknown project file",
            r#"{"name": "x", "installationId": "studio", "repoFullName": "studio/kitchen", "defaultBranch": "main", "uprojectPath": "B.uproject"}"#,
        ),
        repository(
            "no project file",
            r#"{"name": "x", "installationId": "studio", "repoFullName": "studio/empty", "defaultBranch": "main"}"#,
        ),
        repository(
            "two project files",
            r#"{"name": "x", "installationId": "studio", "repoFullName": "studio/two", "defaultBranch": "main"}"#,
        ),
        repository(
            "broken project file",
            r#"{"name": "x", "installationId": "studio", "repoFullName": "studio/broken", "defaultBranch": "main"}"#,
        ),
        repository(
            "linked already",
            r#"{"name": "x", "installationId": "studio", "repoFullName": "studio/kitchen", "defaultBranch": "main"}"#,
        ),
        githost("a token that the host refuses", r#"{"token": "another-token"}"#),
        githost("gitBaseUrl alone", r#"{"token": "token-of-the-git-host", "gitBaseUrl": "https://git.example"}"#),
        githost("a query in a base", r#"{"token": "token-of-the-git-host", "apiBaseUrl": "https://git.example/api?x=1"}"#),
        Case::new("logIn wrong password", "POST", "/auth/login")
            .stranger()
            .json(r#"{"email": "a@example.com", "password": "wrong password"}"#),
        Case::new("setUp when it is done", "POST", "/setup").stranger().json(
            r#"{"setupToken": "x", "email": "a@example.com", "name": "A", "password": "correct horse battery", "organizationName": "O"}"#,
        ),
        Case::new("setUp nothing at all", "POST", "/setup").stranger().json("{}"),
        Case::new("setUp everything wrong", "POST", "/setup")
            .stranger()
            .json(r#"{"setupToken": 1, "email": "", "name": " ", "password": [], "organizationName": {}}"#),
    ]
}

/// What is no JSON object, or could be read in two ways.
fn no_json() -> Vec<Case> {
    let deep = format!("{{\"name\": {}1{}}}", "[".repeat(33), "]".repeat(33));
    let deep_objects = format!("{{\"name\": {}1{}}}", "{\"a\":".repeat(33), "}".repeat(33));
    let bottomless = "[".repeat(100_000);
    let texts: &[(&str, &[u8])] = &[
        ("empty", b""),
        ("blank", b"  \n"),
        ("brace", b"{"),
        ("no closing", b"{\"name\": \"x\""),
        ("too much closing", b"{}}"),
        ("two documents", b"{} {}"),
        ("a document and letters", b"{}x"),
        ("number", b"5"),
        ("text", b"\"name\""),
        ("null", b"null"),
        ("true", b"true"),
        ("single quotes", b"{'name': 'x'}"),
        ("no quotes", b"{name: \"x\"}"),
        ("comma behind", b"{\"name\": \"x\",}"),
        ("comment", b"{/* */}"),
        ("line comment", b"// x\n{}"),
        ("colon missing", b"{\"name\" \"x\"}"),
        ("key of a number", b"{1: \"x\"}"),
        ("NaN", b"{\"name\": NaN}"),
        ("Infinity", b"{\"name\": Infinity}"),
        ("hexadecimal", b"{\"name\": 0x10}"),
        ("zero before", b"{\"name\": 010}"),
        ("plus", b"{\"name\": +1}"),
        ("dot behind", b"{\"name\": 1.}"),
        ("number beyond all", b"{\"name\": 1e999}"),
        ("key twice", b"{\"name\": \"x\", \"name\": \"y\"}"),
        ("key twice by an escape", b"{\"name\": \"x\", \"n\\u0061me\": \"y\"}"),
        ("key twice inside", b"{\"name\": {\"a\": 1, \"a\": 2}}"),
        ("lone surrogate", b"{\"name\": \"\\ud800\"}"),
        ("surrogates backwards", b"{\"name\": \"\\udc00\\ud800\"}"),
        ("unknown escape", b"{\"name\": \"\\x41\"}"),
        ("short escape", b"{\"name\": \"\\u12\"}"),
        ("raw control", b"{\"name\": \"a\nb\"}"),
        ("raw NUL", b"{\"name\": \"a\0b\"}"),
        ("invalid UTF-8", b"{\"name\": \"\xff\"}"),
        ("overlong UTF-8", b"{\"name\": \"\xc0\xaf\"}"),
        ("surrogate as UTF-8", b"{\"name\": \"\xed\xa0\x80\"}"),
        ("cut UTF-8", b"{\"name\": \"\xe2\x82\"}"),
        ("byte order mark", b"\xef\xbb\xbf{\"name\": \"x\"}"),
        ("UTF-16", b"\xff\xfe{\0}\0"),
        ("form", b"name=x"),
        ("XML", b"<name>x</name>"),
        ("deep lists", deep.as_bytes()),
        ("deep objects", deep_objects.as_bytes()),
        ("bottomless", bottomless.as_bytes()),
    ];
    let mut cases: Vec<Case> =
        texts.iter().map(|(name, bytes)| Case::new(format!("JSON {name}"), "PATCH", "{project}").json(bytes.to_vec())).collect();
    let large = format!("{{\"description\": \"{}\"}}", "x".repeat(1024 * 1024));
    cases.push(Case::new("JSON larger than a mebibyte", "PATCH", "{project}").json(large));
    cases
}
