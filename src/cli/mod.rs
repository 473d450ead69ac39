//! The command line.

/// Runs the command line of this process and says how it went.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
