//! Handing artifacts on.

use std::collections::BTreeMap;

use cookhouse::builds::{Refused, connections};
use cookhouse::model::build::{StepName, StepStatus};
use cookhouse::model::build_setting::DeployTargetSetting;
use cookhouse::model::deploy::{DeployAttempt, DeployFailureCode, DeployStatus};
use cookhouse::model::{Build, Status, TriggeredBy};
use cookhouse::seams::{DeployOutcome, DeployProblem};
use cookhouse::store::key::Key;
use cookhouse::store::{Order, Read, StoreError, tables};

use crate::support::farm::Farm;

const HEADER: &str = "Bearer deploy-token-81b0";

async fn deploying() -> Farm {
    let mut farm = Farm::start().await;
    let setting = farm.records.setting.id;
    let header = farm.vault.seal(&connections::upload_header_place(setting), HEADER).expect("sealed");
    let secret = farm.vault.seal(&connections::deploy_secret_place(setting, 0, "key"), "store-key-4711").expect("sealed");
    farm.change_setting(|setting| {
        setting.auto_deploy = true;
        setting.upload_build_url = Some("https://receiver.studio.test/upload".into());
        setting.upload_build_auth_header = Some(header);
        setting.deploy_targets = vec![DeployTargetSetting {
            plugin: "store".into(),
            config: serde_json::json!({"bucket": "b"}),
            secrets: BTreeMap::from([("key".to_owned(), secret)]),
        }];
    })
    .await;
    farm
}

/// Somebody.
fn cause(farm: &Farm) -> TriggeredBy {
    TriggeredBy::User(farm.clock.new_id())
}

fn is_over(build: &Build) -> bool {
    matches!(build.auto_deploy_status, Some(DeployStatus::Succeeded | DeployStatus::Failed))
}

/// Every attempt, oldest first.
fn ledger(farm: &Farm, build: &Build) -> Vec<DeployAttempt> {
    let key = Key::of_id(build.id);
    let read = farm
        .store
        .read(|snapshot| snapshot.find_all(build.organization_id, &tables::DEPLOY_ATTEMPTS_BY_BUILD, &key, Order::OldestFirst, 100));
    read.unwrap_or_else(|error: StoreError| panic!("{error}"))
}

fn refused(code: DeployFailureCode) -> DeployProblem {
    DeployProblem { code, http_status: Some(500), message: format!("no, and I heard {HEADER}") }
}

#[tokio::test]
async fn the_artifact_goes_to_each_target_once_with_its_own_secrets() {
    let farm = deploying().await;
    let build = farm.build().await;
    let build = farm.until(build.id, is_over).await;
    assert_eq!((build.status, build.auto_deploy_status), (Status::Complete, Some(DeployStatus::Succeeded)));
    assert!(build.auto_deploy_error.is_none());
    let step = build.steps.last().expect("steps");
    assert_eq!((step.name, step.status), (StepName::Deploy, StepStatus::Complete));
    let received = farm.receiver.received.lock().expect("not poisoned").clone();
    let [(custom, metadata, file), (store, ..)] = received.as_slice() else { panic!("{} attempts", received.len()) };
    assert_eq!((custom.plugin.as_str(), custom.config["url"].as_str()), ("custom-deploy", Some("https://receiver.studio.test/upload")));
    assert_eq!(custom.secrets["authorization"].reveal(), HEADER);
    assert_eq!((store.plugin.as_str(), store.secrets["key"].reveal().as_str()), ("store", "store-key-4711"));
    assert_eq!((metadata.build_id.as_str(), metadata.commit.as_str()), (build.id.as_str(), build.commit.as_str()));
    let artifact = build.artifact.as_ref().expect("an artifact");
    assert_eq!((file.size, &file.md5, &file.sha256), (artifact.size_bytes, &artifact.checksum_md5, &artifact.checksum_sha256));
    assert_eq!(file.path, farm.artifacts.path(build.id));
    assert!(build.log_lines > 0 && build.log_lines == farm.lines(build.id).await.len() as u64);
}

#[tokio::test]
async fn a_failed_deploy_says_why_and_never_touches_the_build() {
    let farm = deploying().await;
    farm.receiver.answers.lock().expect("not poisoned").extend([Err(refused(DeployFailureCode::HttpStatus)), Ok(DeployOutcome::default())]);
    let build = farm.build().await;
    let build = farm.until(build.id, is_over).await;
    assert_eq!((build.status, build.auto_deploy_status), (Status::Complete, Some(DeployStatus::Failed)));
    let error = build.auto_deploy_error.as_ref().expect("an error");
    assert_eq!((error.code, error.http_status), (DeployFailureCode::HttpStatus, Some(500)));
    let statuses: Vec<_> = build.deployments.iter().map(|deployment| deployment.status).collect();
    assert_eq!(statuses, [DeployStatus::Failed, DeployStatus::Succeeded]);
    assert!(!farm.text(build.id).await.contains(HEADER), "the header is masked");
    assert_eq!(farm.receiver.received.lock().expect("not poisoned").len(), 2, "one attempt each");

    let again = farm.builds.deploy(build.organization_id, build.id, cause(&farm)).await.expect("accepted");
    assert_eq!((again.auto_deploy_status, again.auto_deploy_error.is_none()), (Some(DeployStatus::Pending), true));
    let again = farm.until(build.id, is_over).await;
    assert_eq!(again.auto_deploy_status, Some(DeployStatus::Succeeded));
    assert_eq!(farm.receiver.received.lock().expect("not poisoned").len(), 4);

    // The ledger keeps all of it, and who asked.
    let ledger = ledger(&farm, &again);
    let outcomes: Vec<_> = ledger.iter().map(|attempt| (attempt.plugin.as_str(), attempt.status)).collect();
    let (failed, succeeded) = (DeployStatus::Failed, DeployStatus::Succeeded);
    assert_eq!(outcomes, [("custom-deploy", failed), ("store", succeeded), ("custom-deploy", succeeded), ("store", succeeded)]);
    assert_eq!(ledger[0].error, build.auto_deploy_error);
    assert!(ledger[..2].iter().all(|attempt| attempt.requested_by.is_none()));
    assert!(ledger[2..].iter().all(|attempt| matches!(attempt.requested_by, Some(TriggeredBy::User(_))) && attempt.finished_at.is_some()));
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_or_fails_with_its_reason() {
    let mut farm = deploying().await;
    *farm.receiver.hangs.lock().expect("not poisoned") = true;
    let build = farm.build().await;
    farm.until(build.id, |build| build.auto_deploy_status == Some(DeployStatus::InProgress)).await;
    assert!(matches!(farm.builds.deploy(build.organization_id, build.id, cause(&farm)).await, Err(Refused::DeployUnderWay)));
    farm.change_setting(|setting| setting.deploy_targets.clear()).await;
    farm.stop().await;
    let interrupted = farm.read(build.id);
    assert_eq!(interrupted.deployments[0].error.as_ref().map(|error| error.code), Some(DeployFailureCode::Interrupted));
    assert_eq!(interrupted.deployments[1].status, DeployStatus::Pending, "what had not begun is still wanted");

    let mut farm = farm.restart().await;
    let build = farm.until(build.id, is_over).await;
    let codes: Vec<_> = build.deployments.iter().filter_map(|deployment| deployment.error.as_ref()).map(|error| error.code).collect();
    assert_eq!(codes, [DeployFailureCode::Interrupted, DeployFailureCode::PluginError], "the second target is no more");
    assert!(farm.receiver.received.lock().expect("not poisoned").is_empty(), "the interrupted attempt is not repeated by itself");
    let ends: Vec<_> = ledger(&farm, &build).iter().map(|attempt| attempt.error.as_ref().map(|error| error.code)).collect();
    assert_eq!(ends, [Some(DeployFailureCode::Interrupted), Some(DeployFailureCode::PluginError)]);

    farm.artifacts.delete(build.id).await.expect("deleted");
    farm.builds.deploy(build.organization_id, build.id, cause(&farm)).await.expect("accepted");
    let build = farm.until(build.id, is_over).await;
    assert_eq!(build.auto_deploy_error.map(|error| error.code), Some(DeployFailureCode::ArtifactMissing));
    farm.change_setting(|setting| setting.upload_build_url = None).await;
    assert!(matches!(farm.builds.deploy(build.organization_id, build.id, cause(&farm)).await, Err(Refused::NoDeployTarget)));
    farm.mischief("[Cook]\nFail=25\n");
    let failed = farm.build().await;
    assert!(matches!(farm.builds.deploy(failed.organization_id, failed.id, cause(&farm)).await, Err(Refused::NoArtifact)));
}
