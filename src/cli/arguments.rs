//! What can be typed. Every help text is here.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand};

use crate::config::{Config, Loaded, Sources};

use super::Failure;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER_HELP: &str = "\
Start here:
  cookhouse demo                   One build from source to download, all on this machine
  cookhouse serve --data DIR       Run the service; it says how to make the first account
  cookhouse check-config           Try the configuration without starting anything

Exit codes:
   0  success
   1  it was tried and failed
   2  wrong command line or configuration
  69  an address or a server cannot be had
  70  a mistake of the program
  75  another server uses the data directory";

/// A self-hosted build service for Unreal Engine projects: one binary, one machine.
#[derive(Debug, Parser)]
#[command(name = "cookhouse", version, styles = STYLES, after_help = AFTER_HELP, max_term_width = 100)]
#[command(disable_help_subcommand = true, propagate_version = false)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the service until it is told to stop
    Serve(Serve),
    /// Show a build from source to download, with everything it needs on this machine
    Demo(Demo),
    /// Make an account, or a new password for one
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Make a token for scripts
    #[command(subcommand)]
    Token(TokenCommand),
    /// Start no more builds and wait for those that run, before an update
    Drain(Drain),
    /// Look at the record of who changed what
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Change the key that stored secrets are sealed with
    #[command(subcommand)]
    Key(KeyCommand),
    /// Say everything that is wrong with the configuration, without starting anything
    CheckConfig(CheckConfig),
    /// Print the description of the API, OpenAPI 3.1 as JSON
    Openapi,
    /// Say which version this is
    Version,
}

/// Where the configuration comes from; the same for every command that reads it.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Where {
    /// The configuration file [default: cookhouse.toml in the data directory, if there is one]
    #[arg(long, value_name = "FILE", env = "COOKHOUSE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The data directory: records, logs, artifacts, workspaces [default: /var/lib/cookhouse]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

const SERVE_HELP: &str = "\
Examples:
  cookhouse serve --data /var/lib/cookhouse
  cookhouse serve --config /etc/cookhouse/cookhouse.toml
  COOKHOUSE_EXECUTOR__SLOTS=2 cookhouse serve --data ~/cookhouse --listen 0.0.0.0:8080

The first start prints a one-time token with which the first account is made.
SIGTERM or Ctrl-C stops it: running builds get executor.shutdown_grace_seconds to finish.
A second one stops it at once; nothing that was accepted is lost either way.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) place: Where,
    /// Address and port to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// How people reach this server: the base of links [default: as the request was addressed]
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Certificate chain in PEM; with it only HTTPS is spoken
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_certificate: Option<String>,
    /// Private key of the certificate in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<String>,
    /// How many builds run at the same time [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) slots: Option<String>,
    /// How much the service logs: error, warn, info, debug, trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
    /// How the log looks: text, json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

impl Serve {
    /// The configuration with these flags.
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        self.place.load(&[
            ("listen", "--listen", self.listen.clone()),
            ("public_url", "--public-url", self.public_url.clone()),
            ("tls.certificate", "--tls-certificate", self.tls_certificate.clone()),
            ("tls.key", "--tls-key", self.tls_key.clone()),
            ("executor.slots", "--slots", self.slots.clone()),
            ("log.level", "--log-level", self.log_level.clone()),
            ("log.format", "--log-format", self.log_format.clone()),
        ])
    }
}

const DEMO_HELP: &str = "\
Examples:
  cookhouse demo                       Watch one build, then try the API yourself; Ctrl-C ends it
  cookhouse demo --exit                Leave when everything was shown; the exit code tells whether it worked
  cookhouse demo --data ~/demo         Keep everything; a second run builds incrementally
  cookhouse demo --streamvc            The project is in a Perforce stream; a submit starts the build

It needs git, git-lfs, bash and a C++ compiler; for a stream instead of git curl, and p4-standin beside
this program (cargo build --bin p4-standin). Nothing leaves this machine: the git server, the
receiver of the finished build and the service itself listen on loopback. A stand-in takes the
engine's place: it speaks as Unreal Engine 5.4 does, and compiles and packs a small project.";

#[derive(Debug, Args)]
#[command(after_help = DEMO_HELP)]
pub(crate) struct Demo {
    /// Keep everything here [default: a temporary directory that is removed at the end]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Address and port of the service [default: 127.0.0.1 and a free port]
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", hide_default_value = true)]
    pub(crate) listen: std::net::SocketAddr,
    /// Leave when everything was shown
    #[arg(long)]
    pub(crate) exit: bool,
    /// Take the project from a stream, by a stand-in for Perforce's p4, instead of a git repository
    #[arg(long)]
    pub(crate) streamvc: bool,
}

/// Where a password comes from.
#[derive(Debug, Args)]
pub(crate) struct Password {
    /// Read the password from the first line of this file, or from standard input with - [default: ask for it]
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

const CREATE_ADMIN_HELP: &str = "\
Examples:
  cookhouse admin create --data /var/lib/cookhouse --email ada@studio.example
  cookhouse admin create --data /var/lib/cookhouse --email ada@studio.example \\
      --organization \"Big Studio\" --password-file /run/secrets/ada

It works while the service is stopped, and through it while it runs; run it as the service's user.";

/// Commands about accounts.
#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Make an account that may do everything in its organization
    Create(CreateAdmin),
    /// Give an account a new password and end its sessions
    ResetPassword(ResetPassword),
}

#[derive(Debug, Args)]
#[command(after_help = CREATE_ADMIN_HELP)]
pub(crate) struct CreateAdmin {
    #[command(flatten)]
    pub(crate) place: Where,
    /// Its e-mail address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) email: String,
    /// What the person is called [default: the e-mail address before the @]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Make a new organization of this name [default: the only one there is]
    #[arg(long, value_name = "NAME")]
    pub(crate) organization: Option<String>,
    #[command(flatten)]
    pub(crate) password: Password,
}

#[derive(Debug, Args)]
pub(crate) struct ResetPassword {
    #[command(flatten)]
    pub(crate) place: Where,
    /// Its e-mail address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) email: String,
    #[command(flatten)]
    pub(crate) password: Password,
}

const CREATE_TOKEN_HELP: &str = "\
Examples:
  TOKEN=$(cookhouse token create --data /var/lib/cookhouse --email ada@studio.example \\
      --name \"nightly script\" --scopes trigger,read)

Scopes: read (see everything the account sees), trigger (start builds and see those), write
(includes both), admin (everything). The token alone goes to standard output, and only once.";

/// Commands about tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token of an account and print it
    Create(CreateToken),
}

#[derive(Debug, Args)]
#[command(after_help = CREATE_TOKEN_HELP)]
pub(crate) struct CreateToken {
    #[command(flatten)]
    pub(crate) place: Where,
    /// Whose token it is
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) email: String,
    /// What it is for
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// What it may do
    #[arg(long, value_name = "SCOPES", value_delimiter = ',', required = true)]
    pub(crate) scopes: Vec<String>,
}

const DRAIN_HELP: &str = "\
Examples:
  cookhouse drain --data /var/lib/cookhouse && systemctl stop cookhouse
  cookhouse drain --data /var/lib/cookhouse --timeout-minutes 60
  cookhouse drain --data /var/lib/cookhouse --undo

What is triggered meanwhile is accepted and waits; the next start of the service begins with it.
The exit code is 0 when no build runs any more, 1 when some still run after the timeout (nothing
is started then either), and 69 when no server runs on this data directory.";

#[derive(Debug, Args)]
#[command(after_help = DRAIN_HELP)]
pub(crate) struct Drain {
    #[command(flatten)]
    pub(crate) place: Where,
    /// Wait no longer than this for the builds that run [default: as long as it takes]
    #[arg(long, value_name = "MINUTES")]
    pub(crate) timeout_minutes: Option<u32>,
    /// Start builds again instead
    #[arg(long, conflicts_with = "timeout_minutes")]
    pub(crate) undo: bool,
}

const VERIFY_AUDIT_HELP: &str = "\
Examples:
  cookhouse audit verify --data /var/lib/cookhouse

Each entry of the audit log holds the hash of the one before it; this walks the whole chain. The
last line names its head: kept elsewhere, it shows later whether the chain was replaced as a
whole. It works while the service is stopped, and through it while it runs. The exit code is 0
when the chain holds, else 1.";

/// Commands about the audit log.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Say whether the log is as it was written, and where not
    Verify(VerifyAudit),
}

#[derive(Debug, Args)]
#[command(after_help = VERIFY_AUDIT_HELP)]
pub(crate) struct VerifyAudit {
    #[command(flatten)]
    pub(crate) place: Where,
}

const ROTATE_KEY_HELP: &str = "\
Examples:
  systemctl stop cookhouse
  cookhouse key rotate --data /var/lib/cookhouse
  systemctl start cookhouse

Every stored secret is sealed anew with a new key. Stop the service first. The former key stays
beside the new one, because backups made before now open with nothing else. Links to artifacts
that are under way end, and cursors of lists begin again.";

/// Commands about the key.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a new key and seal every stored secret with it
    Rotate(RotateKey),
}

#[derive(Debug, Args)]
#[command(after_help = ROTATE_KEY_HELP)]
pub(crate) struct RotateKey {
    #[command(flatten)]
    pub(crate) place: Where,
}

const CHECK_CONFIG_HELP: &str = "\
Examples:
  cookhouse check-config --config /etc/cookhouse/cookhouse.toml
  COOKHOUSE_EXECUTOR__SLOTS=2 cookhouse check-config
  cookhouse check-config --example > cookhouse.toml

It lists every mistake at once, with file and line, then looks at what the configuration
names: engines, tools, certificates. The exit code is 0 when the service can start, else 2.";

#[derive(Debug, Args)]
#[command(after_help = CHECK_CONFIG_HELP)]
pub(crate) struct CheckConfig {
    #[command(flatten)]
    pub(crate) place: Where,
    /// Print a commented file with every key and its default instead
    #[arg(long)]
    pub(crate) example: bool,
}

impl Where {
    /// Reads the configuration with these flags and more of them (path of the key, flag, value).
    pub(crate) fn load(&self, more: &[(&'static str, &'static str, Option<String>)]) -> Result<Loaded, Failure> {
        let data = self.data.as_ref().map(|path| path.to_string_lossy().into_owned());
        let all = [("data_dir", "--data", data)].into_iter().chain(more.iter().cloned());
        let flags = all.filter_map(|(path, flag, value)| Some((path, flag, value?))).collect();
        // A variable that is not UTF-8 is not one of ours: ours are names, numbers and paths that people type.
        let environment = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Ok(Config::load(&Sources { file: self.config.clone(), environment: environment.collect(), flags })?)
    }
}
