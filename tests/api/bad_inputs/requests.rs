//! Everything about a request besides its body: query, headers, paths, credentials, and the state of what it names.

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(lists());
    cases.extend(filters());
    cases.extend(proxy());
    cases.extend(headers());
    cases.extend(credentials());
    cases.extend(ids());
    cases.extend(paths());
    cases.extend(states());
    cases
}

fn lists() -> Vec<Case> {
    let mut cases = Vec::new();
    for (operation, path) in [
        ("listProjects", "/projects"),
        ("listBuildSettings", "{project}/build-settings"),
        ("listScheduleSlots", "{setting}/schedule-slots"),
        ("listBuilds", "/builds"),
        ("listTokens", "/auth/tokens"),
        ("listMembers", "/members"),
        ("listAudit", "/audit"),
        ("listWebhooks", "/webhooks"),
        ("listWebhookDeliveries", "{webhook}/deliveries"),
        ("listDeliveries", "/hooks/deliveries"),
        ("listRepositories", "/gitghost/repos/studio"),
    ] {
        for (name, query) in [
            ("limit 0", "limit=0"),
            ("limit negative", "limit=-1"),
            ("limit fraction", "limit=1.5"),
            ("limit word", "limit=ten"),
            ("limit with a sign", "limit=%2B5"),
            ("limit blank", "limit=%20"),
            ("limit hexadecimal", "limit=0x10"),
            ("limit twice", "limit=5&limit=6"),
            ("limit of other digits", "limit=%D9%A5"),
            ("cursor word", "cursor=next"),
            ("cursor no base64", "cursor=%21%21"),
            ("cursor forged", "cursor=AXBhZ2Vvbm9uZW9ub25lb25vbmVvbm9uZW9ub25lb25vbmVvbm9uZW9ub25l"),
            ("cursor twice", "cursor=a&cursor=b"),
            ("cursor long", &format!("cursor={}", "A".repeat(4000))),
        ] {
            cases.push(Case::new(format!("{operation} {name}"), "GET", format!("{path}?{query}")));
        }
    }
    cases
}

fn filters() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, query) in [
        ("status unknown", "status=done"),
        ("status in other case", "status=Failed"),
        ("status list", "status=failed,complete"),
        ("status twice", "status=failed&status=complete"),
        ("platform unknown", "platform=Amiga"),
        ("platform in other case", "platform=win64"),
        ("platform twice", "platform=Win64&platform=Linux"),
        ("buildType unknown", "buildType=fast"),
        ("buildType in other case", "buildType=shipping"),
        ("buildType twice", "buildType=Test&buildType=Test"),
        ("branch twice", "branch=main&branch=dev"),
        ("projectId twice", "projectId=a&projectId=b"),
        ("buildSettingId twice", "buildSettingId=a&buildSettingId=b"),
        ("all filters wrong", "status=x&platform=y&buildType=z"),
        ("status and limit wrong", "status=x&limit=0"),
    ] {
        cases.push(Case::new(format!("listBuilds {name}"), "GET", format!("/builds?{query}")));
    }
    for (name, query) in [
        ("sourceControl unknown", "sourceControl=svn"),
        ("sourceControl in other case", "sourceControl=Githost"),
        ("sourceControl twice", "sourceControl=githost&sourceControl=streamvc"),
    ] {
        cases.push(Case::new(format!("listProjects {name}"), "GET", format!("/projects?{query}")));
    }
    for (name, query) in
        [("status unknown", "status=sent"), ("status in other case", "status=Pending"), ("status twice", "status=failed&status=failed")]
    {
        cases.push(Case::new(format!("listWebhookDeliveries {name}"), "GET", format!("{{webhook}}/deliveries?{query}")));
    }
    for (name, query) in [
        ("outcome unknown", "outcome=maybe"),
        ("from word", "from=yesterday"),
        ("to without a zone", "to=2030-01-01T00:00:00"),
        ("actor long", &*format!("actor={}", "x".repeat(65))),
    ] {
        cases.push(Case::new(format!("listAudit {name}"), "GET", format!("/audit?{query}")));
    }
    for (name, query) in [("after word", "after=nowhere"), ("types unknown", "types=smoke")] {
        cases.push(Case::new(format!("followEvents {name}"), "GET", format!("/events?{query}")));
    }
    for (name, query) in [
        ("after negative", "after=-1"),
        ("after word", "after=x"),
        ("after beyond all", "after=99999999999999999999"),
        ("after twice", "after=1&after=2"),
        ("limit 0", "limit=0"),
    ] {
        cases.push(Case::new(format!("listBuildLogLines {name}"), "GET", format!("{{build}}/log/lines?{query}")));
    }
    cases
}

fn proxy() -> Vec<Case> {
    let mut cases = Vec::new();
    for (operation, path) in [("listBranches", "branches"), ("getUproject", "uproject")] {
        for (name, query) in [
            ("no repository", ""),
            ("empty repository", "?repoFullName="),
            ("repository without an owner", "?repoFullName=kitchen"),
            ("repository twice", "?repoFullName=studio/kitchen&repoFullName=studio/two"),
            ("repository above", "?repoFullName=../.."),
            ("repository of an option", "?repoFullName=--x/y"),
            ("repository with a NUL", "?repoFullName=studio/kit%00chen"),
            ("unknown repository", "?repoFullName=studio/none"),
        ] {
            cases.push(Case::new(format!("{operation} {name}"), "GET", format!("/gitghost/{path}/studio{query}")));
        }
        let other = format!("/gitghost/{path}/nobody?repoFullName=studio/kitchen");
        cases.push(Case::new(format!("{operation} unknown installation"), "GET", other));
    }
    for (name, query) in [("q with a line end", "q=a%0Ab"), ("q long", &*format!("q={}", "x".repeat(251))), ("q twice", "q=a&q=b")] {
        cases.push(Case::new(
            format!("listBranches {name}"),
            "GET",
            format!("/gitghost/branches/studio?repoFullName=studio/kitchen&{query}"),
        ));
    }
    for (name, query) in [
        ("unknown branch", "repoFullName=studio/kitchen&branch=none"),
        ("branch of an option", "repoFullName=studio/kitchen&branch=--upload-pack=x"),
        ("branch with dots", "repoFullName=studio/kitchen&branch=a..b"),
        ("both wrong", "repoFullName=x&branch=-"),
        ("no project file", "repoFullName=studio/empty"),
        ("two project files", "repoFullName=studio/two"),
        ("broken project file", "repoFullName=studio/broken"),
    ] {
        cases.push(Case::new(format!("getUproject {name}"), "GET", format!("/gitghost/uproject/studio?{query}")));
    }
    cases.push(Case::new("listRepositories unknown installation", "GET", "/gitghost/repos/nobody"));
    cases
}

fn headers() -> Vec<Case> {
    let mut cases = Vec::new();
    let patch = |name: &str| Case::new(format!("header {name}"), "PATCH", "{project}");
    for (name, kind) in [
        ("Content-Type of a form", "application/x-www-form-urlencoded"),
        ("Content-Type of parts", "multipart/form-data; boundary=x"),
        ("Content-Type of text", "text/plain"),
        ("Content-Type of other JSON", "text/json"),
        ("Content-Type of another charset", "application/json; charset=utf-16"),
        ("Content-Type empty", ""),
        ("Content-Type of several", "application/json, text/plain"),
        ("Content-Type of a pattern", "application/*"),
    ] {
        cases.push(patch(name).header("Content-Type", kind).body("{\"name\": \"x\"}"));
    }
    cases.push(patch("Content-Type missing").body("{\"name\": \"x\"}"));
    for coding in ["gzip", "br", "identity", "deflate, gzip"] {
        cases.push(patch(&format!("Content-Encoding {coding}")).header("Content-Encoding", coding).json("{\"name\": \"x\"}"));
    }
    for (name, accept) in [
        ("HTML", "text/html"),
        ("none", "*/*;q=0"),
        ("no JSON", "application/json;q=0"),
        ("XML", "application/xml"),
        ("an image", "image/*"),
    ] {
        cases.push(Case::new(format!("header Accept {name}"), "GET", "/projects").header("Accept", accept));
    }
    for (name, tag) in [
        ("stale", "\"0-000000000000000000000000\""),
        ("weak", "W/\"1-000000000000000000000000\""),
        ("word", "x"),
        ("empty tag", "\"\""),
        ("other versions", "\"7-a\", \"8-b\""),
    ] {
        cases.push(patch(&format!("If-Match {name}")).header("If-Match", tag).json("{\"name\": \"x\"}"));
        cases.push(Case::new(format!("header If-Match {name} on a DELETE"), "DELETE", "{setting}").header("If-Match", tag));
    }
    for (name, key) in [("empty", String::new()), ("with a space", "a b".into()), ("long", "x".repeat(256)), ("with a tab", "a\tb".into())]
    {
        cases.push(Case::new(format!("header Idempotency-Key {name}"), "POST", "{setting}/trigger").header("Idempotency-Key", key));
    }
    cases.push(
        Case::new("header Idempotency-Key twice", "POST", "{setting}/trigger")
            .header("Idempotency-Key", "a")
            .header("Idempotency-Key", "b"),
    );
    for (name, host) in [
        ("with a space", "a b"),
        ("of markup", "<script>"),
        ("with a path", "a/b"),
        ("with a user", "user@a"),
        ("empty", ""),
        ("with a comma", "a, b"),
    ] {
        cases.push(Case::new(format!("header Host {name}"), "GET", "/projects").header("Host", host));
    }
    cases.push(Case::new("header Host twice", "GET", "/projects").header("host", "b"));
    cases.push((0..110).fold(Case::new("header too many", "GET", "/projects"), |case, _| case.header("X-Many", "x")));
    cases.push(Case::new("header too large", "GET", "/projects").header("X-Large", "x".repeat(40_000)));
    cases.push(Case::new("query too long", "GET", format!("/projects?x={}", "x".repeat(9000))));
    for (name, range) in [("beyond", "bytes=999999-"), ("nothing", "bytes=-0")] {
        cases.push(Case::new(format!("header Range {name}"), "GET", "{build}/log").header("Range", range));
    }
    cases
}

fn credentials() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, value) in [
        ("empty", ""),
        ("scheme alone", "Bearer"),
        ("no token", "Bearer "),
        ("token alone", "{token}"),
        ("basic", "Basic YTpi"),
        ("other scheme", "Token {token}"),
        ("garbage", "Bearer garbage"),
        ("of the right form", "Bearer ckh_000000000000000000000000000000000000"),
        ("changed at the end", "Bearer {token}x"),
        ("changed at the beginning", "Bearer x{token}"),
        ("upper case prefix", "Bearer CKH_000000000000000000000000000000000000"),
        ("two tokens", "Bearer {token} {token}"),
        ("quoted", "Bearer \"{token}\""),
        ("comma", "Bearer {token}, Bearer {token}"),
        ("a session's form", "Bearer cks_000000000000000000000000000000000000"),
        ("long", &format!("Bearer {}", "x".repeat(8000))),
    ] {
        cases.push(Case::new(format!("Authorization {name}"), "GET", "/projects").stranger().header("Authorization", value));
    }
    cases.push(Case::new("Authorization missing", "GET", "/projects").stranger());
    cases.push(Case::new("Authorization twice", "GET", "/projects").header("Authorization", "Bearer {token}"));
    cases.push(Case::new("Authorization in the query", "GET", "/projects?access_token={token}").stranger());
    for (name, cookie) in [
        ("empty", "session="),
        ("garbage", "session=x"),
        ("a token", "session={token}x"),
        ("other name", "sid={token}"),
        ("quoted", "session=\"x\""),
    ] {
        cases.push(Case::new(format!("Cookie {name}"), "GET", "/projects").stranger().header("Cookie", cookie));
    }
    for (name, path) in [
        ("no signature", "/artifacts/0000000000000000000000zz.tar.gz"),
        ("empty signature", "/artifacts/0000000000000000000000zz.tar.gz?expires=99999999999&key=&signature="),
        ("wrong signature", "/artifacts/0000000000000000000000zz.tar.gz?expires=99999999999&key=x&signature=AAAA"),
        ("no time", "/artifacts/0000000000000000000000zz.tar.gz?expires=soon&key=x&signature=AAAA"),
        ("no id", "/artifacts/x.tar.gz?expires=99999999999&key=x&signature=AAAA"),
        ("other suffix", "/artifacts/0000000000000000000000zz.zip?expires=99999999999&key=x&signature=AAAA"),
        ("above", "/artifacts/..%2f..%2fsecret.key"),
    ] {
        cases.push(Case::new(format!("downloadArtifact {name}"), "GET", path).stranger());
    }
    cases
}

fn ids() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, id) in [
        ("unknown", "0000000000000000000000zz"),
        ("short", "0000000000000000000000z"),
        ("long", "0000000000000000000000zzz"),
        ("upper case", "0000000000000000000000ZZ"),
        ("letter that is none", "0000000000000000000000uu"),
        ("encoded NUL", "0000000000000000000000%00z"),
        ("encoded blank", "%20000000000000000000000z"),
        ("star", "*"),
        ("minus one", "-1"),
        ("quote", "'%20or%201=1--"),
        ("other digits", "%D9%A0000000000000000000000"),
        ("invalid UTF-8", "%ff"),
        ("broken escape", "%zz"),
    ] {
        for (operation, path) in [
            ("getProject", format!("/projects/{id}")),
            ("getBuild", format!("/builds/{id}")),
            ("getBuildSetting", format!("{{project}}/build-settings/{id}")),
            ("getOrganization", format!("/organizations/{id}")),
        ] {
            cases.push(Case::new(format!("{operation} id {name}"), "GET", path));
        }
    }
    cases
}

fn paths() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, path) in [
        ("unknown", "/nothing"),
        ("root", "/"),
        ("version alone", "/v1"),
        ("version twice", "/v1/v1/projects"),
        ("other version", "/v2/projects"),
        ("slash before", "//projects"),
        ("slashes inside", "/projects//x"),
        ("slash behind", "/projects/"),
        ("dot", "/./projects"),
        ("dots", "/x/../projects"),
        ("encoded dots", "/%2e%2e/projects"),
        ("encoded dots in upper case", "/%2E%2E/projects"),
        ("half encoded dots", "/.%2e/projects"),
        ("twice encoded dots", "/%252e%252e/projects"),
        ("encoded slash", "/projects%2fx"),
        ("encoded backslash", "/projects%5cx"),
        ("backslash", "/projects\\x"),
        ("encoded NUL", "/projects%00"),
        ("NUL behind an extension", "/projects%00.json"),
        ("parameter", "/projects;a=b"),
        ("parameter that leads away", "/projects/..;/builds"),
        ("upper case", "/Projects"),
        ("extension", "/projects.json"),
        ("overlong slash", "/projects%c0%afx"),
        ("wide slash", "/projects%ef%bc%8fx"),
        ("host in the path", "/http://cookhouse.example/projects"),
        ("wildcard", "/projects/*"),
        ("braces", "/projects/%7Bid%7D"),
    ] {
        cases.push(Case::new(format!("path {name}"), "GET", path));
    }
    for (name, method, path) in [
        ("DELETE of a list", "DELETE", "/projects"),
        ("PUT of a project", "PUT", "{project}"),
        ("POST of a project", "POST", "{project}"),
        ("GET of an action", "GET", "{build}/cancel"),
        ("GET of the trigger", "GET", "{setting}/trigger"),
        ("GET of adding", "GET", "/projects/add-repo"),
        ("DELETE of a build", "DELETE", "{build}"),
        ("TRACE", "TRACE", "/projects"),
        ("a method of other servers", "PROPFIND", "/projects"),
        ("a method in lower case", "get", "/projects"),
        ("a method that is none", "BREW", "/projects"),
    ] {
        cases.push(Case::new(format!("method {name}"), method, path));
    }
    cases
}

fn states() -> Vec<Case> {
    [
        ("cancelBuild that is finished", "POST", "{finished}/cancel"),
        ("retryBuild that is waiting", "POST", "{build}/retry"),
        ("deployBuild that is waiting", "POST", "{build}/deploy"),
        ("deployBuild without an artifact", "POST", "{finished}/deploy"),
        ("getBuildDownload of a waiting build", "GET", "{build}/download"),
        ("getBuildDownload of a failed build", "GET", "{finished}/download"),
        ("logOut of a token", "POST", "/auth/logout"),
        ("revokeToken unknown", "DELETE", "/auth/tokens/0000000000000000000000zz"),
        ("rotateToken unknown", "POST", "/auth/tokens/0000000000000000000000zz/rotate"),
        ("deleteProject unknown", "DELETE", "/projects/0000000000000000000000zz"),
        ("deleteBuildSetting unknown", "DELETE", "{project}/build-settings/0000000000000000000000zz"),
        ("triggerBuild of an unknown setting", "POST", "{project}/build-settings/0000000000000000000000zz/trigger"),
        ("cancelBuild unknown", "POST", "/builds/0000000000000000000000zz/cancel"),
        ("retryBuild unknown", "POST", "/builds/0000000000000000000000zz/retry"),
        ("getToken unknown", "GET", "/auth/tokens/0000000000000000000000zz"),
        ("listBuildNotifications unknown", "GET", "/builds/0000000000000000000000zz/notifications"),
        ("getWebhook unknown", "GET", "/webhooks/0000000000000000000000zz"),
        ("deleteWebhook unknown", "DELETE", "/webhooks/0000000000000000000000zz"),
        ("pingWebhook unknown", "POST", "/webhooks/0000000000000000000000zz/ping"),
        ("getWebhookDelivery unknown", "GET", "{webhook}/deliveries/0000000000000000000000zz"),
        ("redeliverWebhook unknown", "POST", "{webhook}/deliveries/0000000000000000000000zz/redeliver"),
        ("testNotifications of another organization", "POST", "/organizations/0000000000000000000000zz/notifications/test"),
        ("removeMember the last admin", "DELETE", "{member}"),
        ("removeMember unknown", "DELETE", "/members/0000000000000000000000zz"),
        ("openLive without an upgrade", "GET", "/live"),
    ]
    .into_iter()
    .map(|(name, method, path)| Case::new(name, method, path))
    .collect()
}
