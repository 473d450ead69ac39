//! EVERY key of the configuration, in the order of the example file. The file, the environment, the flags, the
//! example and `check-config` are all read from this table.

use super::check;
use super::rule::Rule;

/// One key.
pub struct Key {
    /// Its place in the file, parts joined by dots; `*` stands for any entry of a list of tables.
    pub path: &'static str,
    /// The default as the file would say it; empty: none.
    pub default: &'static str,
    /// What the example shows where there is no default.
    pub example: &'static str,
    /// For the administrator. One sentence first, then what one has to know.
    pub help: &'static str,
    /// What it may be and where it goes.
    pub rule: Rule,
}

impl Key {
    /// The environment variable of this key; entries of a list put their number, from 0, where the path has `*`.
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.path.to_ascii_uppercase().replace('.', "__"))
    }

    /// The section of the file, and the name inside it.
    pub fn section_and_name(&self) -> (&'static str, &'static str) {
        self.path.rsplit_once('.').unwrap_or(("", self.path))
    }
}

/// How the environment variables of this service begin.
pub const PREFIX: &str = "COOKHOUSE_";

/// Variables with that beginning that are no keys: the key of the vault, the password of the mail server, the file itself, and what the service tells
/// the processes it starts.
pub const OTHER_VARIABLES: [&str; 5] =
    ["COOKHOUSE_SECRET_KEY", "COOKHOUSE_SMTP_PASSWORD", "COOKHOUSE_CONFIG", "COOKHOUSE_PROCESS", "COOKHOUSE_ASKPASS"];

/// Where state lies when nobody says otherwise.
const DATA_DIR: &str = if cfg!(windows) { r"'C:\ProgramData\Cookhouse'" } else { "\"/var/lib/cookhouse\"" };

/// A key, for the table below.
const fn key(path: &'static str, default: &'static str, example: &'static str, help: &'static str, rule: Rule) -> Key {
    Key { path, default, example, help, rule }
}

/// The table. Order is meaning: a section's keys stand together.
pub static KEYS: &[Key] = &[
    key(
        "listen",
        "\"127.0.0.1:8080\"",
        "",
        "Address and port to listen on. Use \"0.0.0.0:8080\" to be reached from the network, and [tls] with it.",
        Rule::Text { check: check::address, set: |c, v| c.listen = v },
    ),
    key(
        "data_dir",
        DATA_DIR,
        "",
        "Everything Cookhouse keeps: records, logs, artifacts, workspaces. Only one server at a time can use it.",
        Rule::Path(|c, v| c.data_dir = v),
    ),
    key(
        "public_url",
        "",
        "\"https://builds.studio.lan\"",
        "How people reach this server: the base of links and of signed download addresses.\nWithout it, links use the address that the request was sent to.",
        Rule::Text { check: check::base_url, set: |c, v| c.public_url = Some(v.trim_end_matches('/').to_owned()) },
    ),
    key(
        "tls.certificate",
        "",
        "\"/etc/cookhouse/certificate.pem\"",
        "Certificate chain in PEM. With it, only HTTPS is spoken. Read again when the file changes.",
        Rule::Path(|c, v| c.tls_certificate = Some(v)),
    ),
    key("tls.key", "", "\"/etc/cookhouse/key.pem\"", "Private key of the certificate in PEM.", Rule::Path(|c, v| c.tls_key = Some(v))),
    key(
        "executor.slots",
        "1",
        "",
        "How many builds run at the same time.",
        Rule::Number { range: 1..=64, set: |c, v| c.executor.slots = v },
    ),
    key(
        "executor.timeout_minutes",
        "360",
        "",
        "A build that takes longer is ended, unless its build setting says otherwise.",
        Rule::Number { range: 5..=2880, set: |c, v| c.executor.timeout_minutes = v },
    ),
    key(
        "executor.silence_timeout_minutes",
        "60",
        "",
        "A build that prints nothing for so long is ended. 0: never.",
        Rule::Number { range: 0..=2880, set: |c, v| c.executor.silence_timeout_minutes = v },
    ),
    key(
        "executor.shutdown_grace_seconds",
        "30",
        "",
        "How long a stop of the service waits for running builds before it interrupts them.",
        Rule::Number { range: 0..=86_400, set: |c, v| c.executor.shutdown_grace_seconds = v },
    ),
    key(
        "executor.retry_interrupted",
        "true",
        "",
        "Start a build once more that was interrupted by a stop or a crash of the service.",
        Rule::Flag(|c, v| c.executor.retry_interrupted = v),
    ),
    key(
        "executor.environment",
        "[\"PATH\", \"HOME\", \"LANG\", \"LC_ALL\", \"TMPDIR\", \"TZ\"]",
        "",
        "Environment variables of the service that the engine's build tool sees. All others are kept from it.",
        Rule::Texts { check: check::variable_name, set: |c, v| c.executor.environment = v },
    ),
    key(
        "executor.sandbox",
        "\"auto\"",
        "",
        "Holds builds to their workspace and what their engine writes, and keeps them from reading this service's data.\nauto: where the kernel can (Linux with Landlock). required: or the service does not start. off: builds may do\nwhat their user may. GET /queue says what is in force, and so does the log of every build.",
        Rule::Choice { allowed: &["auto", "required", "off"], set: |c, v| c.executor.sandbox = v.to_owned() },
    ),
    key(
        "executor.writable",
        "",
        "[\"/srv/ddc\"]",
        "Further directories that builds in the sandbox may change: shared caches, the home of a toolchain.",
        Rule::Paths(|c, v| c.executor.writable = v),
    ),
    key(
        "executor.user",
        "",
        "\"cookbuild\"",
        "Runs builds as this user, by name or number, with no further group and no way to more rights.\nThe service has to run as root for that, and the user must be able to use the engines.",
        Rule::Text { check: check::account_name, set: |c, v| c.executor.user = v },
    ),
    key(
        "executor.group",
        "",
        "\"cookbuild\"",
        "The group of executor.user, where it is not the user's own.",
        Rule::Text { check: check::account_name, set: |c, v| c.executor.group = v },
    ),
    key(
        "discover_engines",
        "true",
        "",
        "Also use the engines that the launcher and the engine's installer have registered on this machine.",
        Rule::Flag(|c, v| c.discover_engines = v),
    ),
    key(
        "engines.*.label",
        "",
        "\"5.4\"",
        "What build settings call this engine in `ueVersion`, besides its own version.",
        Rule::EachText(|c, i, v| c.engine(i).label = v),
    ),
    key("engines.*.root", "", "\"/opt/UE_5.4\"", "The directory that contains `Engine`.", Rule::EachPath(|c, i, v| c.engine(i).root = v)),
    key(
        "engines.*.platforms",
        "",
        "[\"Win64\"]",
        "Optional: platforms that this engine can build here although this machine normally cannot.",
        Rule::EachTexts(|c, i, v| c.engine(i).platforms = v),
    ),
    key(
        "platforms.extra",
        "[]",
        "",
        "Names of further target platforms, such as consoles, whose support your engines contain.",
        Rule::Texts { check: check::platform_name, set: |c, v| c.platforms_extra = v },
    ),
    key(
        "tools.git",
        "",
        "\"/usr/bin/git\"",
        "The git program. Without it, the first `git` in the PATH of the service.",
        Rule::Path(|c, v| c.tools.git = Some(v)),
    ),
    key(
        "tools.git_lfs",
        "",
        "\"/usr/bin/git-lfs\"",
        "The git-lfs program. Without it, the first `git-lfs` in the PATH of the service.",
        Rule::Path(|c, v| c.tools.git_lfs = Some(v)),
    ),
    key(
        "tools.p4",
        "",
        "\"/usr/local/bin/p4\"",
        "The p4 program, for projects on a Perforce server. Without it, the first `p4` in the PATH of the service.",
        Rule::Path(|c, v| c.tools.p4 = Some(v)),
    ),
    key(
        "outbound.allow_loopback",
        "false",
        "",
        "Let deploys and source control reach servers on this machine itself.\nOff: nobody who may edit a build setting can reach what listens on loopback here.",
        Rule::Flag(|c, v| c.outbound.allow_loopback = v),
    ),
    key(
        "outbound.ca_certificates",
        "[]",
        "",
        "PEM files of certificate authorities to trust besides those of the operating system.",
        Rule::Paths(|c, v| c.outbound.ca_certificates = v),
    ),
    key(
        "outbound.proxy",
        "",
        "\"http://proxy.studio.lan:3128\"",
        "HTTP proxy for outbound requests.",
        Rule::Text { check: check::base_url, set: |c, v| c.outbound.proxy = Some(v) },
    ),
    key(
        "smtp.host",
        "",
        "\"mail.studio.lan\"",
        "The mail server that notifications leave by, for organizations that have not given one of their own.\nMail never goes by outbound.proxy. A server on this machine itself needs outbound.allow_loopback.",
        Rule::Text { check: check::host_name, set: |c, v| c.smtp.host = v },
    ),
    key(
        "smtp.port",
        "587",
        "",
        "Its port: usually 587 with starttls, 465 with tls, 25 with none.",
        Rule::Number { range: 1..=65_535, set: |c, v| c.smtp.port = v },
    ),
    key(
        "smtp.security",
        "\"starttls\"",
        "",
        "How the connection is encrypted. With starttls and tls nothing is sent without encryption; none is for servers with a\nprivate address only.",
        Rule::Choice { allowed: &["starttls", "tls", "none"], set: |c, v| c.smtp.security = v.to_owned() },
    ),
    key(
        "smtp.username",
        "\"\"",
        "",
        "Who signs in there. Empty: nobody.",
        Rule::Text { check: check::one_line, set: |c, v| c.smtp.username = v },
    ),
    key(
        "smtp.password_file",
        "",
        "\"/etc/cookhouse/smtp-password\"",
        "A file that holds nothing but their password. Instead: the systemd credential `cookhouse.smtp-password`, or the\nvariable COOKHOUSE_SMTP_PASSWORD.",
        Rule::Path(|c, v| c.smtp.password_file = Some(v)),
    ),
    key(
        "smtp.from",
        "",
        "\"builds@studio.lan\"",
        "The address that notifications come from.",
        Rule::Text { check: check::mail_address, set: |c, v| c.smtp.from = v },
    ),
    key(
        "inbound.trusted_proxies",
        "[]",
        "",
        "Addresses or ranges of reverse proxies, such as [\"127.0.0.1\", \"10.0.0.0/8\"]. From them, `X-Forwarded-For` is believed:\nlimits, the audit log and the login throttle then count the client's address and not the proxy's.",
        Rule::Texts { check: check::network, set: |c, v| c.inbound.trusted_proxies = v },
    ),
    key(
        "rate_limits.enabled",
        "true",
        "",
        "Refuse with 429 whoever asks more often than the limits below. Downloads and streams never count.",
        Rule::Flag(|c, v| c.rate_limits.enabled = v),
    ),
    key(
        "rate_limits.requests_per_minute",
        "600",
        "",
        "Requests of one token or one signed-in person.",
        Rule::Number { range: 1..=1_000_000, set: |c, v| c.rate_limits.requests_per_minute = v },
    ),
    key(
        "rate_limits.burst",
        "100",
        "",
        "How many of them may come at once.",
        Rule::Number { range: 1..=1_000_000, set: |c, v| c.rate_limits.burst = v },
    ),
    key(
        "rate_limits.trigger_per_minute",
        "60",
        "",
        "Builds that one token or one signed-in person may start.",
        Rule::Number { range: 1..=1_000_000, set: |c, v| c.rate_limits.trigger_per_minute = v },
    ),
    key(
        "rate_limits.login_per_minute",
        "10",
        "",
        "Attempts to sign in from one address.",
        Rule::Number { range: 1..=1_000_000, set: |c, v| c.rate_limits.login_per_minute = v },
    ),
    key(
        "rate_limits.unauthenticated_per_minute",
        "60",
        "",
        "All other requests without a valid token or session from one address.",
        Rule::Number { range: 1..=1_000_000, set: |c, v| c.rate_limits.unauthenticated_per_minute = v },
    ),
    key(
        "retention.artifact_days",
        "30",
        "",
        "How long artifacts are kept, from the end of their build. An organization can say otherwise for itself.\nPinned builds keep theirs.",
        Rule::Number { range: 1..=36_500, set: |c, v| c.retention.artifact_days = v },
    ),
    key(
        "retention.keep_last",
        "3",
        "",
        "So many of the newest artifacts of a build setting are kept whatever their age. An organization can say otherwise\nfor itself.",
        Rule::Number { range: 0..=1000, set: |c, v| c.retention.keep_last = v },
    ),
    key(
        "retention.log_days",
        "180",
        "",
        "How long logs of builds are kept. The records of builds are kept for ever.",
        Rule::Number { range: 1..=36_500, set: |c, v| c.retention.log_days = v },
    ),
    key(
        "retention.event_days",
        "30",
        "",
        "How far back a client of the live channel can resume.",
        Rule::Number { range: 1..=3_650, set: |c, v| c.retention.event_days = v },
    ),
    key(
        "retention.delivery_days",
        "30",
        "",
        "How long the ledgers of webhooks are kept: what git hosts told, and what was told to others. A message that could\nnot be delivered for so long is let go.",
        Rule::Number { range: 4..=3_650, set: |c, v| c.retention.delivery_days = v },
    ),
    key(
        "retention.audit_days",
        "365",
        "",
        "How long entries of the audit log are kept.",
        Rule::Number { range: 1..=36_500, set: |c, v| c.retention.audit_days = v },
    ),
    key(
        "disk.warn_percent",
        "15",
        "",
        "The log of the service warns while less than this share of the disk of the data directory is free, or less than\nwarn_bytes.",
        Rule::Number { range: 0..=90, set: |c, v| c.disk.warn_percent = v },
    ),
    key("disk.warn_bytes", "\"50 GB\"", "", "See warn_percent.", Rule::Size(|c, v| c.disk.warn_bytes = v)),
    key(
        "disk.floor_percent",
        "5",
        "",
        "No build starts while less than this share of the disk of the data directory is free, or less than\nfloor_bytes. What is expired is deleted, then workspaces that were not used for longest. What runs goes on.",
        Rule::Number { range: 0..=90, set: |c, v| c.disk.floor_percent = v },
    ),
    key("disk.floor_bytes", "\"20 GB\"", "", "See floor_percent.", Rule::Size(|c, v| c.disk.floor_bytes = v)),
    key(
        "disk.first_build_bytes",
        "\"2 GiB\"",
        "",
        "A build starts only if as much is free above the floor as its artifact will probably take. Earlier builds of its\nsetting tell; this is for the first.",
        Rule::Size(|c, v| c.disk.first_build_bytes = v),
    ),
    key(
        "disk.checkout_bytes",
        "\"2 TB\"",
        "",
        "The most that the code in the workspace of a build setting may come to, what earlier builds left there included. A\nbuild whose code is larger fails, and its workspace is removed. 0: as much as fits on the disk.",
        Rule::Size(|c, v| c.disk.checkout_bytes = v),
    ),
    key(
        "plugins.cpu_seconds",
        "60",
        "",
        "Computing time that one call of a plugin may use.",
        Rule::Number { range: 1..=86_400, set: |c, v| c.plugins.cpu_seconds = v },
    ),
    key(
        "plugins.memory_mib",
        "64",
        "",
        "Memory that one call of a plugin may use.",
        Rule::Number { range: 8..=4_096, set: |c, v| c.plugins.memory_mib = v },
    ),
    key(
        "plugins.wall_seconds",
        "21600",
        "",
        "How long one call of a plugin may take, an upload included.",
        Rule::Number { range: 1..=604_800, set: |c, v| c.plugins.wall_seconds = v },
    ),
    key(
        "secrets.key_file",
        "",
        "\"/etc/cookhouse/secret.key\"",
        "The key that encrypts stored tokens and passwords of other systems. Keep a copy, and keep it away from backups of\nthe data directory. Instead: the systemd credential `cookhouse.key`, or the variable COOKHOUSE_SECRET_KEY.\nWithout any of them the key is made on the first start and lies in the data directory.",
        Rule::Path(|c, v| c.secret_key_file = Some(v)),
    ),
    key(
        "metrics.public",
        "false",
        "",
        "Tell GET /metrics to other machines too. Off: only to this one.",
        Rule::Flag(|c, v| c.metrics.public = v),
    ),
    key(
        "log.level",
        "\"info\"",
        "",
        "How much the service itself logs.",
        Rule::Choice { allowed: &["error", "warn", "info", "debug", "trace"], set: |c, v| c.log.level = v.to_owned() },
    ),
    key(
        "log.format",
        "\"text\"",
        "",
        "How it looks: text for people, json for log collectors.",
        Rule::Choice { allowed: &["text", "json"], set: |c, v| c.log.json = v == "json" },
    ),
];

/// The key of a path, with the number of the entry where the path names one (`engines.0.label`).
pub fn find(path: &str) -> Option<(&'static Key, usize)> {
    let mut index = 0;
    let parts: Vec<&str> = path
        .split('.')
        .map(|part| match part.parse::<usize>() {
            Ok(number) => {
                index = number;
                "*"
            }
            Err(_) => part,
        })
        .collect();
    let path = parts.join(".");
    KEYS.iter().find(|key| key.path == path).map(|key| (key, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_distinct_and_sections_stand_together() {
        let mut sections: Vec<&str> = KEYS.iter().map(|key| key.section_and_name().0).collect();
        sections.dedup();
        let top_level_twice = sections.iter().filter(|section| section.is_empty()).count() - 1;
        let mut unique = sections.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(sections.len() - top_level_twice, unique.len(), "a section is torn apart: {sections:?}");
        let mut paths: Vec<&str> = KEYS.iter().map(|key| key.path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), KEYS.len());
    }

    #[test]
    fn every_key_shows_a_value_and_help_in_sentences() {
        for key in KEYS {
            assert!(key.default.is_empty() != key.example.is_empty(), "{}: a default or an example", key.path);
            assert!(key.help.ends_with('.'), "{}", key.path);
            assert!(key.help.lines().all(|line| line.len() <= 118), "{}", key.path);
        }
        assert_eq!(find("engines.3.root").map(|(key, index)| (key.path, index)), Some(("engines.*.root", 3)));
    }
}
