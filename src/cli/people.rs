//! `cookhouse admin` and `cookhouse token`: on the data directory while no server runs, through the server while one does.

use std::io::Read;
use std::path::Path;

use crate::appliance::{self, StartError};
use crate::config::Config;
use crate::control::client::{self, ClientError};
use crate::control::{Done, Order, Refusal, carry_out};
use crate::platform::lock::{LockError, lock};

use super::arguments::{AdminCommand, CreateAdmin, CreateToken, Password, ResetPassword, TokenCommand, Where};
use super::{Exit, Failure, style};

/// A password is not longer; a file that is, is another file.
const LONGEST_PASSWORD_FILE: u64 = 4096;

/// `cookhouse admin ...`
pub(crate) fn admin(command: AdminCommand) -> Result<(), Failure> {
    let (place, order) = match command {
        AdminCommand::Create(CreateAdmin { place, email, name, organization, password }) => {
            let password = password.read("Password for the new admin")?;
            let name = name.unwrap_or_else(|| email.split('@').next().unwrap_or_default().to_owned());
            (place, Order::CreateAdmin { email, name, password, organization })
        }
        AdminCommand::ResetPassword(ResetPassword { place, email, password }) => {
            let password = password.read("New password")?;
            (place, Order::ResetPassword { email, password })
        }
    };
    match execute(&place, order)? {
        Done::AdminCreated { email, organization } => {
            println!("{} {email} is an admin of {organization}.", style::good("Done:"));
        }
        Done::PasswordReset { email } => {
            println!("{} {email} has a new password, and has to sign in again everywhere.", style::good("Done:"));
        }
        Done::TokenCreated { .. } | Done::Draining { .. } | Done::DrainEnded | Done::AuditVerified { .. } => {}
    }
    Ok(())
}

/// `cookhouse token ...`: the token alone goes to standard output, so that a script can take it.
pub(crate) fn token(command: TokenCommand) -> Result<(), Failure> {
    let TokenCommand::Create(CreateToken { place, email, name, scopes }) = command;
    if let Done::TokenCreated { token } = execute(&place, Order::CreateToken { email, name, scopes })? {
        eprintln!("{}", style::faint("This token is not shown again. Keep it where other passwords are kept."));
        println!("{token}");
    }
    Ok(())
}

/// Does what is ordered: directly while no server runs, through the server while one does.
pub(super) fn execute(place: &Where, order: Order) -> Result<Done, Failure> {
    let config = place.load(&[])?.config;
    runtime()?.block_on(async {
        match order {
            // The first admin may be there before the first start.
            Order::CreateAdmin { .. } => appliance::prepare_directory(&config.data_dir)?,
            _ => appliance::expect_directory(&config.data_dir)?,
        }
        match lock(&config.data_dir) {
            Ok(_lock) => directly(&config, order).await,
            Err(LockError::Held { .. }) => through_the_server(&config.data_dir, order).await,
            Err(error @ LockError::Io { .. }) => Err(StartError::from(error).into()),
        }
    })
}

/// The runtime of a short command.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map_err(|error| Failure::new(Exit::Internal, format!("the runtime did not start: {error}"), ""))
}

/// The caller holds the lock.
async fn directly(config: &Config, order: Order) -> Result<Done, Failure> {
    let (people, setup_token) = appliance::open_people(config)?;
    carry_out(&people, &setup_token, order).await.map_err(Failure::from)
}

async fn through_the_server(data_dir: &Path, order: Order) -> Result<Done, Failure> {
    client::ask(data_dir, order).await.map_err(|error| match error {
        ClientError::Refused(refusal) => refusal.into(),
        ClientError::Unreachable(_) => {
            Failure::new(Exit::Unavailable, error.to_string(), "Try again in a moment, or stop the server and try then.")
        }
    })
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::new(Exit::Failed, refusal.message, "Nothing was changed.")
    }
}

impl Password {
    /// From the file, or asked for twice; never from the command line, where every user of the machine can read it.
    fn read(&self, prompt: &str) -> Result<String, Failure> {
        let failed =
            |what: String| Failure::new(Exit::Usage, what, "Give the password with --password-file FILE, or - for standard input.");
        let Some(path) = &self.password_file else {
            return ask_twice(prompt).map_err(failed);
        };
        let mut text = String::new();
        let read = if path.as_os_str() == "-" {
            std::io::stdin().take(LONGEST_PASSWORD_FILE).read_to_string(&mut text)
        } else {
            std::fs::File::open(path).and_then(|file| file.take(LONGEST_PASSWORD_FILE).read_to_string(&mut text))
        };
        read.map_err(|error| failed(format!("{} cannot be read: {}", path.display(), crate::config::reason(&error))))?;
        // Editors end a file with a line end; nobody means it.
        let password = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
        Ok(password.to_owned())
    }
}

fn ask_twice(prompt: &str) -> Result<String, String> {
    let terminal = console::Term::stderr();
    if !terminal.is_term() || !console::user_attended() && !console::user_attended_stderr() {
        return Err("there is no terminal to ask for the password".into());
    }
    let ask = |prompt: &str| {
        terminal
            .write_str(&format!("{prompt}: "))
            .and_then(|()| terminal.read_secure_line())
            .map_err(|error| format!("no password was read: {error}"))
    };
    let first = ask(prompt)?;
    if ask("Once more")? == first { Ok(first) } else { Err("the two passwords differ".into()) }
}
