//! The command line: one file per command, the same exit codes and the same shape of error everywhere.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "commands speak to people")]

mod arguments;
mod audit;
mod check_config;
mod demo;
mod drain;
mod failure;
mod key;
mod log_file;
mod logging;
mod openapi;
mod people;
mod serve;
mod style;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
pub use failure::{Exit, Failure};

/// Runs the command line of this process and says how it went.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // clap prints help and versions to stdout, mistakes to stderr, in colours where they are wanted.
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
        }
    };
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit.into()
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Admin(command) => people::admin(command),
        Command::Token(command) => people::token(command),
        Command::Drain(arguments) => drain::run(&arguments),
        Command::Audit(command) => audit::run(command),
        Command::Key(command) => key::run(command),
        Command::CheckConfig(arguments) => check_config::run(&arguments),
        Command::Openapi => openapi::run(),
        Command::Version => {
            println!("cookhouse {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
    }
}
