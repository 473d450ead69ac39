//! `cookhouse check-config`

use crate::config::machine::{self, Weight};
use crate::config::{Place, example};

use super::arguments::CheckConfig;
use super::{Exit, Failure, style};

/// Reads the configuration, then looks at what it names.
pub(crate) fn run(arguments: &CheckConfig) -> Result<(), Failure> {
    if arguments.example {
        print!("{}", example::text());
        return Ok(());
    }
    let loaded = arguments.place.load(&[])?;
    match &loaded.file {
        Some(file) => println!("{} {}", style::strong("File:"), file.display()),
        None => println!(
            "{} none; {} would be read if it existed",
            style::strong("File:"),
            loaded.config.data_dir.join("cookhouse.toml").display()
        ),
    }
    let widest = loaded.given.keys().map(String::len).max().unwrap_or(0);
    for (path, given) in &loaded.given {
        let place = match &given.place {
            Place::File { line, .. } => format!("line {line}"),
            other => other.to_string(),
        };
        println!("  {path:widest$}  {}  {}", given.value, style::faint(place));
    }
    if loaded.given.is_empty() {
        println!("  every key has its default");
    }
    let findings = machine::look(&loaded.config);
    let mut errors = Vec::new();
    for finding in findings {
        match finding.weight {
            Weight::Error => errors.push(finding.message),
            Weight::Warning => println!("{} {}", style::warning("warning:"), finding.message),
        }
    }
    if errors.is_empty() {
        println!("{}", style::good("The configuration is fine."));
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, "the service could not start with this configuration:", errors.join("\n")))
}
