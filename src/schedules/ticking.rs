//! What wakes the schedules: tokio-cron-scheduler, with one job that is due every second.
//!
//! It knows no schedule and no time zone, and decides nothing: which start is due is read from the store at each tick. It
//! goes by the wall clock, so a clock that is put back would keep it silent until the same time comes again. Whoever
//! waits for a tick therefore waits a few seconds at the most, by a clock that nobody can set, and then puts the job in
//! anew.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};

/// Every second, in the six fields of that library.
const EVERY_SECOND: &str = "* * * * * *";
/// A tick that did not come for so long does not come.
const MISSING: Duration = Duration::from_secs(5);

/// A source of ticks. Where the library fails, they come more seldom, and nothing is lost.
pub(super) struct Ticking {
    ticked: Arc<Notify>,
    scheduler: Option<JobScheduler>,
    job: Option<Job>,
}

impl Ticking {
    /// Ticks from now on.
    pub(super) async fn start() -> Ticking {
        let mut ticking = Ticking { ticked: Arc::new(Notify::new()), scheduler: None, job: None };
        if let Err(error) = ticking.wind_up().await {
            tracing::warn!(%error, "the scheduler does not start; schedules are looked at every few seconds");
        }
        ticking
    }

    async fn wind_up(&mut self) -> Result<(), JobSchedulerError> {
        let scheduler = JobScheduler::new().await?;
        self.job = Some(put_in(&scheduler, &self.ticked).await?);
        scheduler.start().await?;
        self.scheduler = Some(scheduler);
        Ok(())
    }

    /// Waits for a tick that nobody waited for yet, or for a few seconds.
    pub(super) async fn next(&mut self) {
        if tokio::time::timeout(MISSING, self.ticked.notified()).await.is_ok() {
            return;
        }
        let Some(scheduler) = &self.scheduler else { return };
        if let Some(job) = self.job.take()
            && let Err(error) = scheduler.remove(&job.guid()).await
        {
            tracing::debug!(%error, "a job that is silent could not be taken out");
        }
        match put_in(scheduler, &self.ticked).await {
            Ok(job) => self.job = Some(job),
            Err(error) => tracing::warn!(%error, "the scheduler takes no job; schedules are looked at every few seconds"),
        }
    }

    /// No more ticks.
    pub(super) async fn stop(mut self) {
        if let Some(scheduler) = &mut self.scheduler
            && let Err(error) = scheduler.shutdown().await
        {
            tracing::debug!(%error, "the scheduler did not stop");
        }
    }
}

async fn put_in(scheduler: &JobScheduler, ticked: &Arc<Notify>) -> Result<Job, JobSchedulerError> {
    let ticked = ticked.clone();
    let job = Job::new_async(EVERY_SECOND, move |_, _| {
        ticked.notify_one();
        Box::pin(async {})
    })?;
    scheduler.add(job.clone()).await?;
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[tokio::test(flavor = "multi_thread")]
    async fn it_ticks_and_goes_on_when_its_job_was_lost() {
        let mut ticking = Ticking::start().await;
        let began = Instant::now();
        for _ in 0..3 {
            ticking.next().await;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        // As after a clock that went back: the job is there, and silent.
        let job = ticking.job.clone().expect("a job");
        ticking.scheduler.as_ref().expect("a scheduler").remove(&job.guid()).await.expect("taken out");
        let began = Instant::now();
        for _ in 0..6 {
            ticking.next().await;
        }
        assert!(ticking.job.as_ref().is_some_and(|new| new.guid() != job.guid()), "a new one was put in");
        assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
        ticking.stop().await;
    }
}
