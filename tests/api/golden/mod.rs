//! One file for each resource: a real answer, made while the clock stands still, compared to the letter; and the tables of the
//! specification, field by field. `UPDATE=1` writes the files anew; every line of the difference is then read by a person.

mod scene;

use std::path::Path;
use std::sync::LazyLock;

use regex_lite::{Captures, Regex};
use serde_json::Value;

/// What chance decides, by its form: ids get numbers in the order in which a file names them.
static CHANCE: LazyLock<Regex> = LazyLock::new(|| {
    let secrets = r"(ckh|cks|ckt|invite)_[0-9A-Za-z]{36}|whsec_[0-9A-Za-z+/=]{44}";
    Regex::new(&format!(r"\b(?<id>0[0-9a-hjkmnp-tv-z]{{23}})\b|{secrets}|key=[^&]+&signature=[\w-]+|\b[0-9a-f]{{64}}\b|127\.0\.0\.1:\d+"))
        .expect("a pattern")
});

/// An answer without chance.
fn fixed(answer: &Value) -> String {
    let text = serde_json::to_string_pretty(answer).expect("JSON");
    let mut ids: Vec<String> = Vec::new();
    let fixed = CHANCE.replace_all(&text, |found: &Captures<'_>| {
        let whole = &found[0];
        if found.name("id").is_none() {
            return match whole {
                url if url.starts_with("key=") => "key=KEY&signature=SIGNATURE".to_owned(),
                host if host.starts_with("127.") => "127.0.0.1:PORT".to_owned(),
                secret => secret.split_once('_').map_or("HASH".to_owned(), |(kind, _)| format!("{kind}_SECRET")),
            };
        }
        let place = ids.iter().position(|id| id == whole).unwrap_or_else(|| {
            ids.push(whole.to_owned());
            ids.len() - 1
        });
        format!("ID{}", place + 1)
    });
    format!("{fixed}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_resource_is_shown_as_its_file_has_it() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/golden");
    let answers = scene::answers().await;
    let mut differing = Vec::new();
    for (name, answer) in &answers {
        let (path, text) = (directory.join(format!("{name}.json")), fixed(answer));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &text).expect("written");
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != text {
            differing.push(format!("{name}: {text}"));
        }
    }
    assert!(differing.is_empty(), "UPDATE=1 writes them anew:\n{}", differing.join("\n"));
    let mut names: Vec<String> = std::fs::read_dir(&directory)
        .expect("the directory")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
        .collect();
    names.sort();
    let mut made: Vec<&str> = answers.iter().map(|(name, _)| *name).collect();
    made.sort_unstable();
    assert_eq!(names, made, "a file that nothing is compared with");
    for (name, fields) in SPECIFIED {
        let answer = &answers.iter().find(|(made, _)| made == name).unwrap_or_else(|| panic!("no {name}")).1;
        for (field, kind) in *fields {
            let value = answer.pointer(&format!("/{}", field.replace('.', "/")));
            assert!(value.is_some_and(|value| kind.fits(value)), "{name}.{field} is {value:?}");
        }
    }
}

/// The types of the specification's tables.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    TextOrNull,
    Id,
    Time,
    Whole,
    Flag,
    List,
    Object,
}

impl Kind {
    fn fits(self, value: &Value) -> bool {
        let text = value.as_str();
        match self {
            Kind::Text => text.is_some(),
            Kind::TextOrNull => text.is_some() || value.is_null(),
            Kind::Id => text.is_some_and(|text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())),
            Kind::Time => text.is_some_and(|text| {
                text.len() == 24
                    && text.ends_with('Z')
                    && cookhouse::model::Timestamp::parse(text).is_some_and(|time| time.to_string() == text)
            }),
            Kind::Whole => value.is_u64(),
            Kind::Flag => value.is_boolean(),
            Kind::List => value.is_array(),
            Kind::Object => value.is_object(),
        }
    }
}

/// The specification's tables ("Resources and their fields", "Endpoints"), each against an answer in which every field is set.
#[rustfmt::skip]
const SPECIFIED: &[(&str, &[(&str, Kind)])] = {
    use Kind::*;
    const BUILD: &[(&str, Kind)] = &[
        ("id", Id), ("projectId", Id), ("buildSettingId", Id), ("status", Text), ("platform", Text), ("buildType", Text), ("branch", Text),
        ("commit", Text), ("commitMessage", Text), ("ueVersion", Text), ("triggeredBy", Text), ("createdAt", Time), ("finishedAt", Time),
        ("durationMs", Whole), ("autoDeployStatus", Text),
    ];
    const SETTING: &[(&str, Kind)] = &[
        ("id", Id), ("projectId", Id), ("platform", Text), ("buildType", Text), ("branch", Text), ("streamPath", TextOrNull),
        ("ueVersion", Text), ("uprojectPath", Text), ("trigger", Text), ("notifyOnComplete", Flag), ("autoDeploy", Flag),
        ("uploadBuildUrl", TextOrNull),
    ];
    const SUMMARY: &[(&str, Kind)] = &[
        ("id", Id), ("name", Text), ("description", Text), ("sourceControl", Text), ("repoLink", Text), ("lastBuildAt", Time),
        ("lastBuildStatus", Text),
    ];
    &[
        ("organization", &[("id", Id), ("name", Text), ("slug", Text), ("plan", Text)]),
        ("me", &[
            ("user.id", Id), ("user.email", Text), ("user.name", Text), ("organization.id", Id), ("organization.name", Text),
            ("organization.slug", Text), ("organization.plan", Text), ("membership.role", Text),
        ]),
        ("project-summary", SUMMARY),
        ("project", SUMMARY),
        ("project", &[
            ("buildSettings", List), ("uproject.path", Text), ("uproject.projectName", Text), ("uproject.engineVersion", Text),
            ("uproject.modules.0.name", Text), ("uproject.modules.0.type", Text), ("uproject.modules.0.loadingPhase", Text),
            ("uproject.plugins.0.name", Text), ("uproject.plugins.0.enabled", Flag),
        ]),
        ("build-setting", SETTING),
        ("build-setting-streamvc", SETTING),
        ("build-listed", BUILD),
        ("build", BUILD),
        ("build", &[("recentLogs", List)]),
        ("download", &[("url", Text), ("expiresAt", Time), ("sizeBytes", Whole), ("checksumMd5", Text)]),
        ("repository", &[("id", Whole), ("fullName", Text), ("private", Flag), ("defaultBranch", Text), ("uprojectDetected", Flag)]),
        ("branch", &[("name", Text), ("commit.sha", Text), ("commit.message", Text), ("commit.author", Text), ("isDefault", Flag)]),
        ("uproject", &[("path", Text), ("projectName", Text), ("engineVersion", Text), ("modules", List), ("plugins", List)]),
        ("started-build", &[("buildId", Id), ("projectId", Id), ("buildSettingId", Id), ("status", Text)]),
        ("page", &[("items", List), ("nextCursor", TextOrNull)]),
        ("streamvc-connection", &[("serverUrl", Text), ("userName", Text)]),
        ("error", &[("error", Object)]),
    ]
};
