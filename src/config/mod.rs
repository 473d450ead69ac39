//! The configuration, read once: flag over environment over file over default.
//!
//! [`keys::KEYS`] is the one table of keys. Reading applies what was found to a [`Config`] that already holds the
//! defaults, collects everything that is wrong, and only then says so.

pub mod check;
pub mod example;
mod file;
pub mod keys;
pub mod machine;
pub mod problem;
pub mod rule;
pub mod size;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub(crate) use file::reason;
use keys::{KEYS, Key};
pub use problem::{Place, Problem, Problems};
use rule::Raw;

use crate::model::Secret;

/// Everything that an administrator decided. Paths are absolute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the keys say what the fields mean, see `keys::KEYS`")]
pub struct Config {
    pub listen: String,
    pub data_dir: PathBuf,
    pub public_url: Option<String>,
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub executor: Executor,
    pub discover_engines: bool,
    pub engines: Vec<Engine>,
    pub platforms_extra: Vec<String>,
    pub tools: Tools,
    pub outbound: Outbound,
    pub smtp: Smtp,
    pub inbound: Inbound,
    pub rate_limits: RateLimits,
    pub retention: Retention,
    pub disk: Disk,
    pub plugins: Plugins,
    pub secret_key_file: Option<PathBuf>,
    /// `COOKHOUSE_SECRET_KEY`; never in the file.
    pub secret_key: Option<Secret>,
    /// `COOKHOUSE_SMTP_PASSWORD`; never in the file.
    pub smtp_password: Option<Secret>,
    /// Where the service manager put credentials (`CREDENTIALS_DIRECTORY`).
    pub credentials_directory: Option<PathBuf>,
    pub metrics: Metrics,
    pub log: Log,
}

/// `[executor]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `keys::KEYS`")]
pub struct Executor {
    pub slots: u64,
    pub timeout_minutes: u64,
    pub silence_timeout_minutes: u64,
    pub shutdown_grace_seconds: u64,
    pub retry_interrupted: bool,
    pub environment: Vec<String>,
    pub sandbox: String,
    pub user: String,
    pub group: String,
    pub writable: Vec<PathBuf>,
}

/// One of `[[engines]]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `keys::KEYS`")]
pub struct Engine {
    pub label: String,
    pub root: PathBuf,
    pub platforms: Vec<String>,
}

/// `[tools]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `keys::KEYS`")]
pub struct Tools {
    pub git: Option<PathBuf>,
    pub git_lfs: Option<PathBuf>,
    pub p4: Option<PathBuf>,
}

/// `[outbound]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `keys::KEYS`")]
pub struct Outbound {
    pub allow_loopback: bool,
    pub ca_certificates: Vec<PathBuf>,
    pub proxy: Option<String>,
}

/// `[smtp]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `keys::KEYS`")]
pub struct Smtp {
    pub host: String,
    pub port: u64,
    pub security: String,
    pub username: String,
    pub password_file: Option<PathBuf>,
    pub from: String,
}

/// `[inbound]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `keys::KEYS`")]
pub struct Inbound {
    pub trusted_proxies: Vec<String>,
}

/// `[rate_limits]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `keys::KEYS`")]
pub struct RateLimits {
    pub enabled: bool,
    pub requests_per_minute: u64,
    pub burst: u64,
    pub trigger_per_minute: u64,
    pub login_per_minute: u64,
    pub unauthenticated_per_minute: u64,
}

/// `[metrics]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `keys::KEYS`")]
pub struct Metrics {
    pub public: bool,
}

/// `[disk]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `keys::KEYS`")]
pub struct Disk {
    pub warn_percent: u64,
    pub warn_bytes: u64,
    pub floor_percent: u64,
    pub floor_bytes: u64,
    pub first_build_bytes: u64,
    pub checkout_bytes: u64,
}

/// `[retention]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `keys::KEYS`")]
pub struct Retention {
    pub artifact_days: u64,
    pub keep_last: u64,
    pub log_days: u64,
    pub event_days: u64,
    pub delivery_days: u64,
    pub audit_days: u64,
}

/// `[plugins]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `keys::KEYS`")]
pub struct Plugins {
    pub cpu_seconds: u64,
    pub memory_mib: u64,
    pub wall_seconds: u64,
}

/// `[log]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `keys::KEYS`")]
pub struct Log {
    pub level: String,
    pub json: bool,
}

/// How many entries a list of tables may have.
const MOST_ENTRIES: usize = 64;

/// Where values may come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file somebody named; it has to exist.
    pub file: Option<PathBuf>,
    /// The environment of the process.
    pub environment: Vec<(String, String)>,
    /// Path of a key, the flag it was given with, its value.
    pub flags: Vec<(&'static str, &'static str, String)>,
}

/// A configuration in which nothing is wrong.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// Each value that is not a default, by the key's path.
    pub given: BTreeMap<String, Given>,
    /// The file that was read.
    pub file: Option<PathBuf>,
}

/// A value that somebody gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Where; the last place wins.
    pub place: Place,
    /// As it was typed.
    pub value: String,
}

impl Config {
    /// Reads all sources. Either nothing is wrong, or the error says everything that is.
    pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
        let mut reading = Reading::with_defaults();
        let here = std::env::current_dir().unwrap_or_default();
        // The data directory says where the default file lies, so it is looked for before the file is read.
        let outside = sources.value_outside_of_a_file("data_dir");
        let named = sources.file.clone().map(|path| here.join(path));
        let default = outside.map_or_else(|| reading.config.data_dir.clone(), |text| here.join(text)).join("cookhouse.toml");
        let file = named.or_else(|| default.is_file().then_some(default));
        if let Some(path) = &file {
            reading.file(path);
        }
        reading.environment(&sources.environment, &here);
        for (path, flag, text) in &sources.flags {
            reading.text(path, text, Place::Flag((*flag).to_owned()), &here);
        }
        reading.together();
        if reading.problems.is_empty() {
            Ok(Loaded { config: reading.config, given: reading.given, file })
        } else {
            Err(Problems(reading.problems))
        }
    }

    /// Where to listen.
    pub fn address(&self) -> SocketAddr {
        check::parse_address(&self.listen).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080)))
    }

    /// The entry of `[[engines]]` with this number; the ones before it come into being with it.
    fn engine(&mut self, index: usize) -> &mut Engine {
        if self.engines.len() <= index {
            self.engines.resize_with(index + 1, Engine::default);
        }
        &mut self.engines[index]
    }
}

impl Sources {
    fn value_outside_of_a_file(&self, path: &str) -> Option<&str> {
        let flag = self.flags.iter().rev().find(|(key, ..)| *key == path).map(|(_, _, value)| value.as_str());
        let variable = keys::find(path).map(|(key, _)| key.variable());
        flag.or_else(|| self.environment.iter().find(|(name, _)| Some(name) == variable.as_ref()).map(|(_, value)| value.as_str()))
    }
}

struct Reading {
    config: Config,
    given: BTreeMap<String, Given>,
    problems: Vec<Problem>,
}

impl Reading {
    fn with_defaults() -> Self {
        let mut reading = Reading { config: Config::default(), given: BTreeMap::new(), problems: Vec::new() };
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            match toml::de::DeValue::parse(key.default) {
                Ok(value) => reading.apply(key, 0, &file::raw(value.get_ref()), Place::Default, Path::new("")),
                Err(error) => reading.problem(Place::Default, format!("{}: {}", key.path, error.message())),
            }
        }
        reading.given.clear();
        reading
    }

    fn problem(&mut self, place: Place, message: String) {
        self.problems.push(Problem { place, message });
    }

    fn apply(&mut self, key: &Key, index: usize, raw: &Raw, place: Place, base: &Path) {
        if index >= MOST_ENTRIES {
            return self.problem(place, format!("{} can have at most {MOST_ENTRIES} entries", key.path));
        }
        let path = key.path.replace('*', &index.to_string());
        match key.rule.apply(&mut self.config, index, raw, base) {
            Ok(()) => drop(self.given.insert(path, Given { place, value: raw.shown() })),
            Err(message) => self.problem(place, format!("{path} {message}")),
        }
    }

    fn file(&mut self, path: &Path) {
        let (found, problems) = file::read(path);
        let base = path.parent().unwrap_or(Path::new("")).to_owned();
        self.problems.extend(problems);
        for found in found {
            let place = Place::File { path: path.to_owned(), line: found.line };
            match KEYS.iter().find(|key| key.path == found.path) {
                Some(key) => self.apply(key, found.index, &found.raw, place, &base),
                None if is_section(&found.path) => self.section(&found, place),
                None => self.unknown(&found.path, place),
            }
        }
        self.problems.sort_by_key(|problem| if let Place::File { line, .. } = problem.place { line } else { 0 });
    }

    fn section(&mut self, found: &file::Found, place: Place) {
        let is_list = KEYS.iter().any(|key| key.path.starts_with(&format!("{}.*.", found.path)));
        match &found.raw {
            Raw::List(items) if is_list && items.is_empty() => {}
            _ if is_list => self.problem(place, format!("{0} is a list of sections: write [[{0}]] before each entry", found.path)),
            Raw::Other("a section") => {}
            _ => self.problem(place, format!("{0} is a section: write [{0}] and its keys below", found.path)),
        }
    }

    fn unknown(&mut self, path: &str, place: Place) {
        let meant = problem::nearest(path, KEYS.iter().map(|key| key.path));
        let hint = meant.map_or_else(
            || "; `cookhouse check-config --example` shows all keys".to_owned(),
            |meant| format!("; did you mean {}?", meant.replace(".*", "")),
        );
        self.problem(place, format!("unknown key {}{hint}", path.replace(".*", "")));
    }

    fn environment(&mut self, variables: &[(String, String)], base: &Path) {
        let known: Vec<String> = KEYS.iter().map(Key::variable).collect();
        let value_of = |name: &str| variables.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
        self.config.secret_key = value_of("COOKHOUSE_SECRET_KEY").map(Secret::new);
        self.config.smtp_password = value_of("COOKHOUSE_SMTP_PASSWORD").map(Secret::new);
        self.config.credentials_directory = value_of("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        for (name, text) in variables {
            let Some(rest) = name.strip_prefix(keys::PREFIX) else { continue };
            if keys::OTHER_VARIABLES.iter().any(|other| name == other || name.starts_with(&format!("{other}_"))) {
                continue;
            }
            let path = rest.to_ascii_lowercase().replace("__", ".");
            match keys::find(&path) {
                Some(_) => self.text(&path, text, Place::Environment(name.clone()), base),
                None => {
                    let meant = problem::nearest(&path, KEYS.iter().map(|key| key.path));
                    let meant =
                        meant.and_then(|path| known.iter().find(|name| keys::find(path).is_some_and(|(key, _)| key.variable() == **name)));
                    let hint = meant.map_or_else(String::new, |name| format!("; did you mean {name}?"));
                    self.problem(Place::Environment(name.clone()), format!("names no key of the configuration{hint}"));
                }
            }
        }
    }

    fn text(&mut self, path: &str, text: &str, place: Place, base: &Path) {
        match keys::find(path) {
            Some((key, index)) => self.apply(key, index, &Raw::from_text(&key.rule, text), place, base),
            None => self.unknown(path, place),
        }
    }

    /// What has to fit together.
    fn together(&mut self) {
        if self.config.tls_certificate.is_some() != self.config.tls_key.is_some() {
            let place = self.given.get("tls.certificate").or(self.given.get("tls.key")).map_or(Place::Default, |given| given.place.clone());
            self.problem(place, "tls.certificate and tls.key belong together: give both or none".into());
        }
        let given = |name: &str| self.given.get(name).map(|given| given.place.clone());
        let places = ["host", "from", "password_file", "username"].map(|name| given(&format!("smtp.{name}")));
        let missing = if self.config.smtp.host.is_empty() { "host" } else { "from" };
        let is_begun = !format!("{0}{1}{2}", self.config.smtp.host, self.config.smtp.from, self.config.smtp.username).is_empty();
        let is_half = is_begun && (self.config.smtp.host.is_empty() || self.config.smtp.from.is_empty());
        // A value that was refused is no missing one.
        if let (true, true, Some(place)) = (is_half, self.problems.is_empty(), places.into_iter().flatten().next()) {
            self.problem(place, format!("a mail server needs smtp.host and smtp.from: smtp.{missing} is missing"));
        }
        for index in 0..self.config.engines.len() {
            let engine = &self.config.engines[index];
            let place = |name: &str| self.given.get(&format!("engines.{index}.{name}")).map(|given| given.place.clone());
            let place = place("label").or(place("root")).or(place("platforms")).unwrap_or(Place::Default);
            let missing = if engine.label.is_empty() { Some("label") } else { engine.root.as_os_str().is_empty().then_some("root") };
            // A value that was refused is no missing one.
            if let (Some(name), true) = (missing, self.problems.is_empty()) {
                self.problem(place, format!("entry {} of engines has no {name}", index + 1));
            } else if self.config.engines[..index].iter().any(|other| other.label == engine.label && !engine.label.is_empty()) {
                let message = format!("two engines have the label {:?}", engine.label);
                self.problem(place, message);
            }
        }
    }
}

fn is_section(path: &str) -> bool {
    let start = format!("{path}.");
    KEYS.iter().any(|key| key.path.starts_with(&start))
}
