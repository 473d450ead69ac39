//! The binary: hands the command line to the library and leaves with its exit code.

fn main() -> std::process::ExitCode {
    // git calls this binary to ask for a password; nothing else may happen then.
    if let Some(code) = cookhouse::plugins::askpass::run_if_asked() {
        return code;
    }
    cookhouse::cli::main()
}
