//! How large the code of a build may be. Nobody knows beforehand: a repository of a few megabytes can come to terabytes. So what
//! lies in the workspace is measured while it is fetched, and once more when it is there.

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::run::Job;
use crate::platform::files;
use crate::seams::{SourceError, SourceProblem};

/// Between two measurements, at the least.
const PAUSE: Duration = Duration::from_secs(2);
/// Measuring takes no more than one part in so many of the time: a workspace may have a million files.
const PARTS: u32 = 20;
/// [`SourceError::reason`] of code that is too large.
pub(super) const TOO_LARGE: &str = "checkout-size";

impl Job {
    /// Fetches, as long as what comes stays within the limit. `work` ends soon after `cancel`.
    pub(super) async fn within_size<T>(
        &self,
        cancel: &CancellationToken,
        work: impl Future<Output = Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        let limit = self.builds.0.settings.marks.checkout_bytes;
        if limit == 0 {
            return work.await;
        }
        let (place, mut work) = (self.workspace.source(), pin!(work));
        tokio::select! {
            outcome = &mut work => {
                let outcome = outcome?;
                if size(place).await <= limit {
                    return Ok(outcome);
                }
            }
            () = exceeds(&place, limit) => {
                cancel.cancel();
                let _ = work.await;
            }
        }
        let message = format!("it comes to more than the {limit} bytes that disk.checkout_bytes allows on this host");
        Err(SourceError { problem: SourceProblem::TooLarge, message, retry_after: None, reason: Some(TOO_LARGE.to_owned()) })
    }
}

/// Ends when there is more than that.
async fn exceeds(place: &std::path::Path, limit: u64) {
    let mut pause = PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        let began = Instant::now();
        if size(place.to_owned()).await > limit {
            return;
        }
        pause = PAUSE.max(began.elapsed().saturating_mul(PARTS));
    }
}

async fn size(place: PathBuf) -> u64 {
    tokio::task::spawn_blocking(move || files::tree_size(&place)).await.unwrap_or(0)
}
