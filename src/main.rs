//! The binary: hands the command line to the library and leaves with its exit code.

fn main() -> std::process::ExitCode {
    cookhouse::cli::main()
}
