//! What there is to say of a build's end, gathered once and already fit to be shown; each format only lays it out.

use std::io;

use super::links::Links;
use super::text::{self, cut, line, log_line};
use crate::builds::logs::Logs;
use crate::model::build::{Diagnostic, FailureCode, StepName};
use crate::model::{ApiToken, Build, Notice, Notification, Status, Timestamp, TriggeredBy, User};
use crate::store::{Read, StoreError};

/// How many errors are told.
pub(super) const ERRORS: usize = 5;
/// How many of the last lines of the log are told.
pub(super) const LINES: usize = 20;
/// How many builds one digest lists.
pub(super) const LISTED: usize = 20;
const LONGEST_LINE: usize = 240;
const LONGEST_NAME: usize = 60;
const LONGEST_MESSAGE: usize = 200;
const LONGEST_REASON: usize = 400;

/// How it ended, which is what colours and words go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Bad,
    /// Somebody wanted it so.
    Neutral,
}

impl Tone {
    /// `0xRRGGBB`, readable on white and on black.
    pub(super) fn colour(self) -> u32 {
        match self {
            Tone::Good => 0x001a_7f37,
            Tone::Bad => 0x00cf_222e,
            Tone::Neutral => 0x006e_7781,
        }
    }
}

/// A line of the table of facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) label: &'static str,
    pub(super) value: String,
}

/// Somewhere to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) label: &'static str,
    pub(super) url: String,
}

/// An error of the log: where, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) place: String,
    pub(super) message: String,
}

/// One message. Every text in it went through [`text`]: no control characters, bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) tone: Tone,
    /// `Build failed`.
    pub(super) status: &'static str,
    /// `Kitchen, Win64, main`.
    pub(super) subject: String,
    /// Why, or how long it took.
    pub(super) reason: String,
    pub(super) facts: Vec<Fact>,
    pub(super) errors: Vec<Finding>,
    /// How many errors there are in all.
    pub(super) error_count: u64,
    /// The last lines of the log.
    pub(super) log: Vec<String>,
    /// Builds of a digest.
    pub(super) builds: Vec<Listed>,
    /// How many more there are.
    pub(super) more_builds: usize,
    pub(super) links: Vec<Link>,
    pub(super) at: Timestamp,
    /// For rules of mail programs: `failed`, or what it is.
    pub(super) keyword: &'static str,
    /// The project's id and name, where it is about one.
    pub(super) project: Option<(String, String)>,
    /// Why somebody gets this, and how to be told no more.
    pub(super) footer: &'static str,
}

/// A build in a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) subject: String,
    pub(super) reason: String,
    pub(super) url: String,
}

impl Report {
    /// `Build failed: Kitchen, Win64, main`.
    pub(super) fn title(&self) -> String {
        format!("{}: {}", self.status, self.subject)
    }

    /// Everything that counts, on one line of at most `longest` characters.
    pub(super) fn first_line(&self, longest: usize) -> String {
        cut(format!("{}. {}", self.title(), self.reason), longest)
    }
}

const FOOTER: &str = "You are told because you started this build or are on the organization's list, and its build setting has \
                      notifyOnComplete switched on.";

/// What is said of one build.
pub(super) fn of_build(
    rows: &impl Read,
    links: &Links,
    notification: &Notification,
    build: &Build,
    log: Vec<String>,
) -> Result<Report, StoreError> {
    let (tone, status, keyword) = tone(build);
    let mut facts = vec![
        Fact { label: "Project", value: name(&notification.project_name, "(deleted)") },
        Fact { label: "Platform", value: platform(build) },
        Fact { label: "Branch", value: branch(build) },
    ];
    if !build.commit_message.trim().is_empty() {
        facts.push(Fact { label: "Commit", value: line(&build.commit_message, LONGEST_MESSAGE) });
    }
    facts.push(Fact { label: "Started by", value: starter(rows, build)? });
    if let Some(took) = build.duration_ms().filter(|_| build.started_at.is_some()) {
        facts.push(Fact { label: "Took", value: text::duration(took) });
    }
    if let Some(finished) = build.finished_at {
        facts.push(Fact { label: "Ended", value: text::moment(finished) });
    }
    if let Some(step) = build.failure.as_ref().and_then(|failure| failure.step) {
        facts.push(Fact { label: "Step", value: step_name(step).to_owned() });
    }
    if let Some(artifact) = build.kept_artifact() {
        facts.push(Fact { label: "Artifact", value: text::bytes(artifact.size_bytes) });
    }
    let found = &build.diagnostics;
    if found.errors + found.warnings > 0 {
        let count = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        facts.push(Fact { label: "Found", value: format!("{}, {}", count(found.errors, "error"), count(found.warnings, "warning")) });
    }
    facts.retain(|fact| !fact.value.is_empty());
    let has_failed = tone == Tone::Bad;
    let errors = found.items.iter().filter(|item| has_failed && item.severity == "error").map(finding);
    let errors = errors.filter(|finding| !finding.message.is_empty()).take(ERRORS).collect();
    Ok(Report {
        tone,
        status,
        subject: subject(notification, build),
        reason: reason(build),
        facts,
        errors,
        error_count: if has_failed { found.errors } else { 0 },
        log: if has_failed { log.iter().map(|text| log_line(text, LONGEST_LINE)).collect() } else { Vec::new() },
        builds: Vec::new(),
        more_builds: 0,
        links: links.of_build(build),
        at: build.finished_at.unwrap_or(notification.created_at),
        keyword,
        project: Some((notification.project_id.to_string(), name(&notification.project_name, "(deleted)"))),
        footer: FOOTER,
    })
}

/// What is said of several builds that failed within a short time.
pub(super) fn digest(links: &Links, builds: &[(Notification, Build)]) -> Report {
    let listed = builds.iter().take(LISTED).map(|(notification, build)| Listed {
        subject: subject(notification, build),
        reason: cut(reason(build), LONGEST_MESSAGE),
        url: links.build(build.id),
    });
    let mut projects: Vec<String> = builds.iter().map(|(notification, _)| name(&notification.project_name, "(deleted)")).collect();
    projects.sort();
    projects.dedup();
    let ended = |(_, build): &(Notification, Build)| build.finished_at;
    let (first, last) = (builds.iter().filter_map(ended).min(), builds.iter().filter_map(ended).max());
    let mut facts = vec![Fact { label: "Projects", value: line(&projects.join(", "), LONGEST_MESSAGE) }];
    if let (Some(first), Some(last)) = (first, last) {
        facts.push(Fact { label: "From", value: text::moment(first) });
        facts.push(Fact { label: "To", value: text::moment(last) });
    }
    Report {
        tone: Tone::Bad,
        status: "Builds failed",
        subject: format!("{} builds, {}", builds.len(), cut(projects.join(", "), LONGEST_NAME)),
        reason: "Many builds failed within a short time; they are told together.".to_owned(),
        facts,
        errors: Vec::new(),
        error_count: 0,
        log: Vec::new(),
        builds: listed.collect(),
        more_builds: builds.len().saturating_sub(LISTED),
        links: links.of_builds(),
        at: last.unwrap_or_default(),
        keyword: "digest",
        project: None,
        footer: FOOTER,
    }
}

/// What an administrator is sent who tries the settings.
pub(super) fn trial(links: &Links, organization: &str, asked_by: &str, now: Timestamp) -> Report {
    Report {
        tone: Tone::Neutral,
        status: "Test",
        subject: format!("notifications of {}", name(organization, "the organization")),
        reason: "This is how Cookhouse will tell you of builds.".to_owned(),
        facts: vec![
            Fact { label: "Asked for by", value: name(asked_by, "an administrator") },
            Fact { label: "At", value: text::moment(now) },
        ],
        errors: Vec::new(),
        error_count: 0,
        log: Vec::new(),
        builds: Vec::new(),
        more_builds: 0,
        links: links.of_builds(),
        at: now,
        keyword: "test",
        project: None,
        footer: "An administrator of the organization asked for this message.",
    }
}

/// What administrators are told without asking.
pub(super) fn notice(links: &Links, notice: &Notice) -> Report {
    Report {
        tone: Tone::Bad,
        status: "Webhook switched off",
        subject: line(&notice.subject, LONGEST_MESSAGE),
        reason: line(&notice.reason, LONGEST_REASON),
        facts: vec![Fact { label: "At", value: text::moment(notice.at) }],
        errors: Vec::new(),
        error_count: 0,
        log: Vec::new(),
        builds: Vec::new(),
        more_builds: 0,
        links: links.of_builds(),
        at: notice.at,
        keyword: "webhook",
        project: None,
        footer: "Administrators of the organization get this message.",
    }
}

/// The last lines of a failed build's log. They were masked before they were stored.
pub(super) async fn last_lines(logs: &Logs, build: &Build) -> io::Result<Vec<String>> {
    if build.status != Status::Failed || build.log_deleted_at.is_some() {
        return Ok(Vec::new());
    }
    let lines = logs.reader(build.id).await?.tail(LINES).await?;
    Ok(lines.into_iter().map(|line| line.text).collect())
}

fn tone(build: &Build) -> (Tone, &'static str, &'static str) {
    match (build.status, build.failure.as_ref().map(|failure| failure.code)) {
        (Status::Complete, _) => (Tone::Good, "Build complete", "complete"),
        (_, Some(FailureCode::Cancelled)) => (Tone::Neutral, "Build cancelled", "cancelled"),
        _ => (Tone::Bad, "Build failed", "failed"),
    }
}

fn name(given: &str, otherwise: &str) -> String {
    let name = line(given, LONGEST_NAME);
    if name.is_empty() { otherwise.to_owned() } else { name }
}

fn subject(notification: &Notification, build: &Build) -> String {
    let project = name(&notification.project_name, "(deleted project)");
    let parts = [project, line(&build.platform, 32), line(&build.branch, LONGEST_NAME)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn platform(build: &Build) -> String {
    let target = if build.target_type == "Game" { String::new() } else { format!(" {}", line(&build.target_type, 20)) };
    format!("{} {}{target}, engine {}", line(&build.platform, 32), line(&build.build_type, 20), line(&build.ue_version, 32))
}

/// `main @ 1a2b3c4d5e`, or the stream with its changelist.
fn branch(build: &Build) -> String {
    let revision = match &build.changelist {
        Some(changelist) => line(changelist, 20),
        None => line(&build.commit, 40).chars().take(10).collect(),
    };
    let branch = line(&build.branch, LONGEST_MESSAGE);
    if revision.is_empty() { branch } else { format!("{branch} @ {revision}") }
}

fn starter(rows: &impl Read, build: &Build) -> Result<String, StoreError> {
    let organization = build.organization_id;
    Ok(match &build.triggered_by {
        TriggeredBy::User(id) => match rows.get::<User>(organization, *id)? {
            Some(user) => name(&user.name, &line(&user.email, LONGEST_NAME)),
            None => "somebody who has left".to_owned(),
        },
        TriggeredBy::ApiToken(id) => match rows.get::<ApiToken>(organization, *id)? {
            Some(token) => format!("the token {}", name(&token.name, id.as_str())),
            None => "a token".to_owned(),
        },
        TriggeredBy::Push(_) => "a push".to_owned(),
        TriggeredBy::Cron => "its schedule".to_owned(),
    })
}

fn reason(build: &Build) -> String {
    match &build.failure {
        Some(failure) => match line(&failure.message, LONGEST_REASON) {
            reason if reason.is_empty() => "It failed.".to_owned(),
            reason => reason,
        },
        None => {
            let took = build.duration_ms().map(|took| format!("It took {}", text::duration(took)));
            let size = build.kept_artifact().map(|artifact| format!("the artifact has {}", text::bytes(artifact.size_bytes)));
            let parts: Vec<String> = took.into_iter().chain(size).collect();
            if parts.is_empty() { "It ended well.".to_owned() } else { format!("{}.", parts.join("; ")) }
        }
    }
}

fn step_name(step: StepName) -> &'static str {
    match step {
        StepName::Sync => "sync",
        StepName::Prepare => "prepare",
        StepName::Build => "build",
        StepName::Package => "package",
        StepName::Deploy => "deploy",
    }
}

fn finding(item: &Diagnostic) -> Finding {
    let file = item.file.as_deref().map(|file| line(file, LONGEST_MESSAGE)).unwrap_or_default();
    let place = match item.line {
        Some(number) if !file.is_empty() => format!("{file}:{number}"),
        _ => file,
    };
    let code = item.code.as_deref().map(|code| line(code, 40)).filter(|code| !code.is_empty());
    let code = code.map(|code| format!("{code}: ")).unwrap_or_default();
    Finding { place, message: cut(format!("{code}{}", line(&item.message, LONGEST_REASON)), LONGEST_REASON) }
}
