//! `cookhouse demo`

use crate::config::Log;
use crate::demo::{self, DemoError, Options};
use crate::platform::signals::shutdown_signals;

use super::arguments::Demo;
use super::{Exit, Failure, logging};

/// Plays the demo.
pub(crate) fn run(arguments: Demo) -> Result<(), Failure> {
    // The demo tells its own story; of the service's log only trouble is shown.
    let _ = logging::start(&Log { level: "error".into(), json: false }, None);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Internal, format!("the runtime did not start: {error}"), ""))?;
    let Demo { data, listen, exit, streamvc } = arguments;
    let ended = runtime.block_on(async {
        let mut signals = shutdown_signals().map_err(|error| Failure::new(Exit::Internal, format!("no signals: {error}"), ""))?;
        demo::run(Options { data, listen, exit, is_stream: streamvc }, &mut signals).await.map_err(Failure::from)
    });
    runtime.shutdown_background();
    ended
}

impl From<DemoError> for Failure {
    fn from(error: DemoError) -> Self {
        match error {
            DemoError::Start(error) => error.into(),
            DemoError::Missing(_) => {
                let advice = "On Debian and Ubuntu: sudo apt-get install git git-lfs g++ curl\nFrom a source tree, `cargo xtask demo` installs them itself.";
                Failure::new(Exit::Failed, error.to_string(), advice)
            }
            DemoError::Failed { .. } => Failure::new(Exit::Failed, error.to_string(), ""),
        }
    }
}
