//! Builds that are ended: by people, by the clock, by the service.

use std::time::Duration;

use cookhouse::builds::Refused;
use cookhouse::model::Status;
use cookhouse::model::build::{FailureCode, StepName};
use tokio_util::sync::CancellationToken;

use crate::support::farm::Farm;

const NOTHING: Vec<String> = Vec::new();

#[tokio::test]
async fn a_build_that_hangs_ends_at_its_limit() {
    let farm = Farm::start_with(|settings| settings.timeout = Duration::from_secs(3)).await;
    farm.mischief("[Cook]\nHang=noisy\n");
    let build = farm.build().await;
    Farm::assert_failed(&build, FailureCode::TimedOut, "its limit of 3 seconds");
    assert_eq!(build.failure.and_then(|failure| failure.step), Some(StepName::Build));
    assert_eq!(farm.processes(), NOTHING);
}

#[tokio::test]
async fn a_build_that_says_nothing_ends_too() {
    let farm = Farm::start_with(|settings| settings.silence_timeout = Duration::from_secs(2)).await;
    farm.mischief("[Cook]\nHang=silent\n");
    Farm::assert_failed(&farm.build().await, FailureCode::TimedOut, "printed nothing for 2 seconds");
    assert_eq!(farm.processes(), NOTHING);
    farm.mischief("[Cook]\nSleep=1\nPrint=still here\nSleep=1\nPrint=still here\nSleep=1\n");
    assert_eq!(farm.build().await.status, Status::Complete, "whoever says something now and then is left alone");
}

#[tokio::test]
async fn a_cancelled_build_ends_with_everything_it_started() {
    let farm = Farm::start().await;
    farm.mischief("[Cook]\nDaemons=5\nIgnoreTerm=1\nPrint=deaf now\nHang=silent\n");
    let build = farm.trigger().await;
    farm.said(build.id, "deaf now").await;
    assert!(farm.processes().len() > 5);
    let answer = farm.builds.cancel(build.organization_id, build.id).await.expect("accepted");
    assert!(answer.status == Status::Running && answer.cancel_requested);
    let build = farm.finished(build.id).await;
    Farm::assert_failed(&build, FailureCode::Cancelled, "cancelled");
    assert_eq!(farm.processes(), NOTHING);
    assert!(matches!(farm.builds.cancel(build.organization_id, build.id).await, Err(Refused::Finished)));
    assert!(matches!(farm.builds.cancel(farm.clock.new_id(), build.id).await, Err(Refused::NotFound)));
}

#[tokio::test]
async fn daemons_of_a_successful_build_do_not_stay() {
    let farm = Farm::start().await;
    farm.mischief("[Stage]\nDaemons=3\n[Archive]\nDaemons=1\nDaemonOutput=held\n");
    let build = farm.build().await;
    assert_eq!(build.status, Status::Complete, "{}", farm.text(build.id).await);
    assert_eq!(farm.processes(), NOTHING);
}

#[tokio::test]
async fn a_checkout_and_a_waiting_build_can_be_cancelled() {
    let farm = Farm::start().await;
    *farm.source.gate.lock().expect("not poisoned") = Some(CancellationToken::new());
    let first = farm.trigger().await;
    farm.until(first.id, |build| build.status == Status::Running && !build.commit.is_empty()).await;
    let second = farm.trigger().await;
    let answer = farm.builds.cancel(second.organization_id, second.id).await.expect("accepted");
    Farm::assert_failed(&answer, FailureCode::Cancelled, "");
    assert_eq!(answer.duration_ms(), Some(0));
    farm.builds.cancel(first.organization_id, first.id).await.expect("accepted");
    let first = farm.finished(first.id).await;
    Farm::assert_failed(&first, FailureCode::Cancelled, "");
    *farm.source.gate.lock().expect("not poisoned") = None;
    assert_eq!(farm.build().await.status, Status::Complete);
    let checkouts = farm.source.checkouts.lock().expect("not poisoned").clone();
    assert_eq!(checkouts, [false, false], "what a cancelled checkout left is not built upon");
}

#[tokio::test]
async fn a_graceful_stop_interrupts_what_runs_and_keeps_what_waits() {
    let mut farm = Farm::start().await;
    farm.mischief("[Cook]\nPrint=cooking\nHang=silent\n");
    let running = farm.trigger().await;
    farm.said(running.id, "cooking").await;
    let waiting = farm.trigger().await;
    farm.stop().await;
    assert_eq!(farm.processes(), NOTHING);
    Farm::assert_failed(&farm.read(running.id), FailureCode::Interrupted, "service ended");
    assert_eq!(farm.read(waiting.id).status, Status::Pending);
    farm.mischief("");
    let farm = farm.restart().await;
    assert!(farm.recovered.interrupted.is_empty(), "the stop has recorded it already");
    assert_eq!(farm.finished(waiting.id).await.status, Status::Complete);
    let successors: Vec<_> = crate::builds::recovery::all(&farm).into_iter().filter(|build| build.retry_of == Some(running.id)).collect();
    assert_eq!(successors.len(), 1);
    assert_eq!(successors[0].triggered_by, running.triggered_by);
    assert_eq!(farm.finished(successors[0].id).await.status, Status::Complete);
}

#[tokio::test]
async fn a_build_that_is_done_within_the_grace_completes() {
    let mut farm = Farm::start_with(|settings| settings.shutdown_grace = Duration::from_secs(60)).await;
    farm.mischief("[Cook]\nPrint=cooking\nSleep=1\n");
    let running = farm.trigger().await;
    farm.said(running.id, "cooking").await;
    let waiting = farm.trigger().await;
    farm.stop().await;
    assert_eq!(farm.read(running.id).status, Status::Complete);
    assert_eq!(farm.read(waiting.id).status, Status::Pending, "nothing new is started while the service stops");
}

#[tokio::test]
async fn deleting_the_setting_ends_its_builds_and_its_workspace() {
    let farm = Farm::start().await;
    farm.mischief("[Cook]\nPrint=cooking\nHang=silent\n");
    let running = farm.trigger().await;
    farm.said(running.id, "cooking").await;
    let waiting = farm.trigger().await;
    let (builds, setting) = (farm.builds.clone(), farm.records.setting.clone());
    let delete = move |tx: &cookhouse::store::Change| {
        tx.remove::<cookhouse::model::BuildSetting>(setting.organization_id, setting.id)?;
        builds.setting_deleted_in(tx, setting.organization_id, setting.id)
    };
    farm.store.write(delete).await.expect("deleted");
    Farm::assert_failed(&farm.read(waiting.id), FailureCode::Cancelled, "deleted");
    Farm::assert_failed(&farm.finished(running.id).await, FailureCode::Cancelled, "");
    let workspace = farm.home.path().join("workspaces").join(running.build_setting_id.as_str());
    while workspace.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
