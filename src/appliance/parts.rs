//! What each part is set up with: the configuration and the data directory, in the part's own words.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::StartError;
use crate::api;
use crate::app;
use crate::artifacts;
use crate::builds;
use crate::builds::isolation::{Isolation, Sandbox, Wish};
use crate::builds::room::Marks;
use crate::config::Config;
use crate::config::machine::find_program;
use crate::model::Secret;
use crate::model::organization::SmtpSecurity;
use crate::model::retention::Keep;
use crate::notifications;
use crate::outbound;
use crate::plugins;
use crate::retention;
use crate::store;
use crate::vault;

/// Memory for pages of the store.
const STORE_CACHE_BYTES: usize = 32 << 20;
/// No disk of a studio takes a larger artifact; it bounds what a runaway build can fill.
const LARGEST_ARTIFACT: u64 = 1 << 40;

pub(super) fn store(config: &Config) -> store::Settings {
    store::Settings { path: config.data_dir.join("store.redb"), cache_bytes: STORE_CACHE_BYTES }
}

pub(super) fn vault(config: &Config) -> vault::Settings {
    vault::Settings {
        key: config.secret_key.clone(),
        credentials_directory: config.credentials_directory.clone(),
        key_file: config.secret_key_file.clone().unwrap_or_else(|| config.data_dir.join("secret.key")),
    }
}

pub(super) fn artifacts(config: &Config) -> artifacts::Settings {
    // Both below the data directory: a finished artifact is renamed into place, which crosses no file system.
    artifacts::Settings {
        directory: config.data_dir.join("artifacts"),
        temporary: config.data_dir.join("temporary"),
        largest: LARGEST_ARTIFACT,
    }
}

pub(super) fn logs(config: &Config) -> builds::logs::Settings {
    builds::logs::Settings { directory: config.data_dir.join("logs"), limits: builds::logs::Limits::default() }
}

pub(super) fn outbound(config: &Config) -> outbound::Settings {
    let config = &config.outbound;
    outbound::Settings {
        allow_loopback: config.allow_loopback,
        ca_certificates: config.ca_certificates.clone(),
        proxy: config.proxy.clone(),
    }
}

pub(super) fn plugins(config: &Config) -> plugins::Settings {
    plugins::Settings {
        directory: config.data_dir.join("plugins"),
        git: config.tools.git.clone().or_else(|| find_program("git")),
        git_lfs: config.tools.git_lfs.clone().or_else(|| find_program("git-lfs")),
        p4: config.tools.p4.clone().or_else(|| find_program("p4")),
        askpass: std::env::current_exe().unwrap_or_default(),
        ca_certificates: config.outbound.ca_certificates.clone(),
        proxy: config.outbound.proxy.clone(),
        cpu: Duration::from_secs(config.plugins.cpu_seconds),
        memory: usize::try_from(config.plugins.memory_mib << 20).unwrap_or(usize::MAX),
        wall: Duration::from_secs(config.plugins.wall_seconds),
    }
}

/// What of the machine builds are kept from: everything that this service keeps, and its keys.
pub(super) fn isolation(config: &Config) -> Wish {
    let executor = &config.executor;
    let keys = [&config.secret_key_file, &config.credentials_directory, &config.tls_key];
    Wish {
        sandbox: match executor.sandbox.as_str() {
            "off" => Sandbox::Off,
            "required" => Sandbox::Required,
            _ => Sandbox::Auto,
        },
        user: executor.user.clone(),
        group: executor.group.clone(),
        hidden: keys.into_iter().flatten().chain([&config.data_dir]).cloned().collect(),
        writable: executor.writable.clone(),
    }
}

pub(super) fn builds(config: &Config, isolation: Isolation) -> builds::Settings {
    let executor = &config.executor;
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let engines = config.engines.iter().map(|engine| builds::engines::EngineSetting {
        label: engine.label.clone(),
        root: engine.root.clone(),
        platforms: engine.platforms.clone(),
    });
    builds::Settings {
        slots: usize::try_from(executor.slots).unwrap_or(1),
        timeout: minutes(executor.timeout_minutes),
        silence_timeout: minutes(executor.silence_timeout_minutes),
        shutdown_grace: Duration::from_secs(executor.shutdown_grace_seconds),
        retry_interrupted: executor.retry_interrupted,
        environment: executor.environment.clone(),
        engines: builds::engines::Settings { engines: engines.collect(), discover_engines: config.discover_engines },
        workspaces: config.data_dir.join("workspaces"),
        marker: marker(&config.data_dir),
        keep: Keep { days: number(config.retention.artifact_days), last: number(config.retention.keep_last) },
        marks: Marks {
            warn_percent: config.disk.warn_percent,
            warn_bytes: config.disk.warn_bytes,
            floor_percent: config.disk.floor_percent,
            floor_bytes: config.disk.floor_bytes,
            first_build_bytes: config.disk.first_build_bytes,
            checkout_bytes: config.disk.checkout_bytes,
        },
        isolation,
    }
}

pub(super) fn app(config: &Config, deploy_plugins: Vec<String>) -> app::Settings {
    let limits = &config.rate_limits;
    app::Settings {
        public_url: config.public_url.clone(),
        extra_platforms: config.platforms_extra.clone(),
        deploy_plugins,
        rate_limits: limits.enabled.then(|| app::RateLimits {
            requests_per_minute: number(limits.requests_per_minute),
            burst: number(limits.burst),
            trigger_per_minute: number(limits.trigger_per_minute),
            login_per_minute: number(limits.login_per_minute),
            unauthenticated_per_minute: number(limits.unauthenticated_per_minute),
        }),
        trusted_proxies: config.inbound.trusted_proxies.iter().filter_map(|network| network.parse().ok()).collect(),
        metrics_are_public: config.metrics.public,
    }
}

/// `url`: where this server listens, for links as long as nobody says how people reach it.
pub(super) fn notifications(config: &Config, url: String) -> Result<notifications::Settings, StartError> {
    let base_url = config.public_url.clone().unwrap_or(url);
    Ok(notifications::Settings { base_url, mail: mail_server(config)?, plan: notifications::Plan::default() })
}

fn mail_server(config: &Config) -> Result<Option<notifications::MailServer>, StartError> {
    let smtp = &config.smtp;
    if smtp.host.is_empty() {
        return Ok(None);
    }
    let password = mail_password(config)?;
    if !smtp.username.is_empty() && password.is_none() {
        let message =
            "smtp.username is set; give the password as smtp.password_file, as a systemd credential or as COOKHOUSE_SMTP_PASSWORD";
        return Err(StartError::MailPassword(message.to_owned()));
    }
    Ok(Some(notifications::MailServer {
        host: smtp.host.clone(),
        port: u16::try_from(smtp.port).unwrap_or(587),
        security: match smtp.security.as_str() {
            "tls" => SmtpSecurity::Tls,
            "none" => SmtpSecurity::None,
            _ => SmtpSecurity::Starttls,
        },
        username: smtp.username.clone(),
        password,
        from: smtp.from.clone(),
    }))
}

/// From the environment, the service manager or a file; the first that is there.
fn mail_password(config: &Config) -> Result<Option<Secret>, StartError> {
    if let Some(password) = config.smtp_password.clone() {
        return Ok(Some(password));
    }
    let credential = config.credentials_directory.as_ref().map(|directory| directory.join("cookhouse.smtp-password"));
    let Some(path) = credential.filter(|path| path.is_file()).or_else(|| config.smtp.password_file.clone()) else { return Ok(None) };
    let text = std::fs::read_to_string(&path).map_err(|error| StartError::MailPassword(format!("{}: {error}", path.display())))?;
    // Editors end a file with a line end, which is no part of it.
    let password = text.trim_end_matches(['\r', '\n']);
    match password.is_empty() || password.chars().any(char::is_control) {
        true => Err(StartError::MailPassword(format!("{} must hold the password on one line, and nothing else", path.display()))),
        false => Ok(Some(Secret::new(password.to_owned()))),
    }
}

pub(super) fn retention(config: &Config) -> retention::Settings {
    let config = &config.retention;
    retention::Settings {
        log_days: number(config.log_days),
        event_days: number(config.event_days),
        delivery_days: number(config.delivery_days),
        audit_days: number(config.audit_days),
    }
}

/// The table of keys bounds it.
fn number(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

pub(super) fn server(config: &Config) -> api::server::Settings {
    let tls = config.tls_certificate.clone().zip(config.tls_key.clone());
    let tls = tls.map(|(certificate, key)| api::tls::Settings { certificate, key });
    api::server::Settings { tls, ..api::server::Settings::new(config.address()) }
}

/// Every process of this data directory carries it, and those of another one do not.
fn marker(data_dir: &Path) -> String {
    let path: PathBuf = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    let name: String = digest[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("cookhouse-{name}")
}
