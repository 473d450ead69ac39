//! `cookhouse audit`

use crate::control::{Done, Order};
use crate::model::audit::Verdict;

use super::arguments::{AuditCommand, VerifyAudit};
use super::people::execute;
use super::{Exit, Failure, style};

/// Walks the audit log's chain.
pub(crate) fn run(command: AuditCommand) -> Result<(), Failure> {
    let AuditCommand::Verify(VerifyAudit { place }) = command;
    let Done::AuditVerified { verdict } = execute(&place, Order::VerifyAudit {})? else {
        return Err(Failure::new(Exit::Internal, "the server answered something else", "Restart it with this version."));
    };
    let Verdict { entries, first, last, head, broken } = verdict;
    if let Some(broken) = broken {
        let message = format!("the audit log was tampered with, or its disk is damaged: {broken}");
        return Err(Failure::new(Exit::Failed, message, format!("The {entries} entries before that hold. Compare with a backup.")));
    }
    match entries {
        0 => println!("{} the audit log is empty.", style::good("It holds:")),
        _ => println!("{} {entries} entries, {first} to {last}.", style::good("It holds:")),
    }
    println!("{} {last} {head}", style::strong("Head:"));
    Ok(())
}
