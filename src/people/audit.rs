//! What the owner of the host orders on the command line is recorded like what people do through the API.

use super::People;
use crate::model::audit::Verdict;
use crate::store::StoreError;
use crate::store::audit::{self, Origin};

impl People {
    /// Runs an order of the host's owner; what it changes is recorded under this name.
    pub async fn for_the_host<T>(&self, operation: &str, work: impl Future<Output = T>) -> T {
        audit::scope(Origin::of_host(self.clock.clone(), operation), work).await
    }

    /// Walks the audit log's whole chain and says whether it holds.
    pub async fn verify_audit(&self) -> Result<Verdict, StoreError> {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || audit::verify(&store)).await.unwrap_or(Err(StoreError::Closed))
    }
}
