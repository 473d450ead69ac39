//! Builds that end badly, each with a failure that says what happened.

use cookhouse::builds::{Overrides, TriggerError};
use cookhouse::model::Status;
use cookhouse::model::build::{FailureCode, StepName, StepStatus};
use cookhouse::model::organization::GithostStatus;
use cookhouse::model::validation::InvalidCode;
use cookhouse::seams::SourceProblem;
use cookhouse::store::StoreError;

use crate::support::farm::{Farm, source_error};
use crate::support::small_disk::SmallDisk;

#[tokio::test]
async fn a_compile_error_is_named_with_its_place() {
    let farm = Farm::start().await;
    farm.write("Source/Kitchen.Target.cs", "public class KitchenTarget : TargetRules { Type = TargetType.Game; }");
    farm.write("Source/KitchenEditor.Target.cs", "public class KitchenEditorTarget : TargetRules { Type = TargetType.Editor; }");
    farm.write("Source/Kitchen/Kitchen.Build.cs", "public class Kitchen : ModuleRules {}");
    farm.write("Source/Kitchen/Private/Soup.cpp", "int soup() { return salt; }\n");
    let build = farm.build().await;
    Farm::assert_failed(&build, FailureCode::BuildStepFailed, "Soup.cpp(1)");
    assert_eq!(build.failure.as_ref().and_then(|failure| failure.step), Some(StepName::Build));
    assert_eq!(build.steps.last().map(|step| (step.name, step.status)), Some((StepName::Build, StepStatus::Failed)));
    let first = build.diagnostics.items.iter().find(|item| item.severity == "error").expect("an error");
    assert!(first.file.as_deref().is_some_and(|file| file.starts_with("Game/Source/")), "{first:?}");
    let line = farm.lines(build.id).await.into_iter().find(|line| line.seq == first.log_seq).expect("the line it came from");
    assert!(line.text.contains("salt"), "{line:?}");
}

#[tokio::test]
async fn the_engine_s_lies_and_failures_are_seen_through() {
    let farm = Farm::start().await;
    for (mischief, code, words) in [
        ("[Cook]\nFail=25\n", FailureCode::BuildStepFailed, "Cooking the content failed"),
        ("[Cook]\nFail=25\n[End]\nProcessExitCode=0\n", FailureCode::BuildStepFailed, "although its exit code was 0"),
        ("[End]\nMissingFinalLine=1\n", FailureCode::BuildStepFailed, "without saying"),
        ("[End]\nProcessExitCode=3\n", FailureCode::BuildStepFailed, "exit code 3"),
        ("[Archive]\nEmpty=1\n", FailureCode::StagingFailed, "empty"),
        ("[Stage]\nNoExecutable=1\n", FailureCode::StagingFailed, "nothing that Linux could start"),
        ("[Cook]\nCrash=SEGV\n", FailureCode::BuildStepFailed, ""),
        ("[Cook]\nChildCrash=SEGV\n", FailureCode::BuildStepFailed, "stage COOK"),
        ("[Stage]\nFail=103\n", FailureCode::StagingFailed, "executable to stage is missing"),
        ("[Start]\nFail=154\n", FailureCode::BuildStepFailed, "licence"),
    ] {
        farm.mischief(mischief);
        let build = farm.build().await;
        assert_eq!(build.status, Status::Failed, "{mischief}\n{}", farm.text(build.id).await);
        Farm::assert_failed(&build, code, words);
        assert_eq!(farm.processes(), Vec::<String>::new(), "{mischief}");
    }
    farm.mischief("");
    assert_eq!(farm.build().await.status, Status::Complete, "the workspace is as good as before");
}

#[tokio::test]
async fn an_engine_that_is_not_there_or_cannot_build_the_platform_is_said_before_anything_starts() {
    let mut farm = Farm::start().await;
    farm.change_setting(|setting| setting.ue_version = "5.9".into()).await;
    Farm::assert_failed(&farm.build().await, FailureCode::EngineUnavailable, "There are: 5.4 (5.4.");
    farm.change_setting(|setting| (setting.ue_version, setting.platform) = ("5.4".into(), "IOS".into())).await;
    Farm::assert_failed(&farm.build().await, FailureCode::EngineUnavailable, "IOS is built on macOS");
}

#[tokio::test]
async fn a_project_file_that_is_missing_ambiguous_or_broken_is_said() {
    let mut farm = Farm::start().await;
    farm.write("Other.uproject", "{\"FileVersion\": 3}");
    farm.change_setting(|setting| setting.uproject_path = "Nowhere.uproject".into()).await;
    Farm::assert_failed(&farm.build().await, FailureCode::UprojectNotFound, "There are Game/Kitchen.uproject, Game/Other.uproject");
    farm.change_setting(|setting| setting.uproject_path = "Game/Other.uproject".into()).await;
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain("{\"FileVersion\": 3}".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    for (content, words) in [
        ("{".as_bytes().to_vec(), "cannot be read"),
        (format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 9\n", "b".repeat(64)).into_bytes(), "LFS pointer"),
    ] {
        farm.write("Other.uproject", content);
        Farm::assert_failed(&farm.build().await, FailureCode::UprojectNotFound, words);
    }
    for content in [utf16, "\u{feff}{\"FileVersion\": 3}".as_bytes().to_vec()] {
        farm.write("Other.uproject", content);
        let build = farm.build().await;
        assert_eq!(build.status, Status::Complete, "{}", farm.text(build.id).await);
    }
    let outside = farm.home.path().join("outside.uproject");
    std::fs::write(&outside, "{\"FileVersion\": 3}").expect("a file");
    std::os::unix::fs::symlink(&outside, farm.home.path().join("source/Game/Link.uproject")).expect("a link");
    farm.change_setting(|setting| setting.uproject_path = "Game/Link.uproject".into()).await;
    Farm::assert_failed(&farm.build().await, FailureCode::UprojectNotFound, "leads out of the codebase");
}

#[tokio::test]
async fn the_source_control_s_refusals_keep_their_meaning() {
    let farm = Farm::start().await;
    let with = |overrides: Overrides| {
        let mut request = farm.request();
        request.overrides = overrides;
        farm.builds.trigger(request)
    };
    let branch = with(Overrides { branch: Some("gone".into()), ..Overrides::default() }).await.expect("triggered");
    Farm::assert_failed(&farm.finished(branch.id).await, FailureCode::SourceUnavailable, "The branch gone does not exist");
    let commit = with(Overrides { commit: Some("bbbbbbb".into()), ..Overrides::default() }).await.expect("triggered");
    Farm::assert_failed(&farm.finished(commit.id).await, FailureCode::SourceUnavailable, "The revision bbbbbbb does not exist");
    for (problem, code) in [
        (SourceProblem::Unavailable, FailureCode::SourceUnavailable),
        (SourceProblem::StorageFull, FailureCode::StorageFull),
        (SourceProblem::Broken, FailureCode::SourceUnavailable),
    ] {
        *farm.source.failure.lock().expect("not poisoned") = Some(source_error(problem, "x"));
        let build = farm.build().await;
        Farm::assert_failed(&build, code, "");
        assert_eq!(build.failure.and_then(|failure| failure.step), Some(StepName::Sync));
    }
}

#[tokio::test]
async fn a_disconnected_integration_fails_what_waits() {
    let farm = Farm::start().await;
    let mut organization = farm.records.organization.clone();
    for status in [GithostStatus::Disconnected, GithostStatus::Suspended] {
        organization.githost.as_mut().expect("connected").status = status;
        let stored = organization.clone();
        farm.store.write::<(), StoreError>(move |tx| tx.put(&stored)).await.expect("stored");
        let build = farm.build().await;
        Farm::assert_failed(&build, FailureCode::IntegrationDisconnected, "git host");
        assert!(build.started_at.is_none() && build.duration_ms() == Some(0));
    }
}

#[tokio::test]
async fn overrides_that_cannot_be_are_refused_with_their_fields() {
    let farm = Farm::start().await;
    let mut request = farm.request();
    request.overrides = Overrides { branch: Some("--upload-pack=x".into()), commit: Some("HEAD~1".into()), changelist: Some("12".into()) };
    let Err(TriggerError::Invalid(invalid)) = farm.builds.trigger(request).await else { panic!("it was taken") };
    let found: Vec<_> = invalid.iter().map(|invalid| (invalid.field.as_str(), invalid.code)).collect();
    let wanted = [("branch", InvalidCode::InvalidValue), ("commit", InvalidCode::InvalidValue), ("changelist", InvalidCode::NotAllowed)];
    assert_eq!(found, wanted);
    let mut stranger = farm.request();
    stranger.organization = farm.clock.new_id();
    assert!(matches!(farm.builds.trigger(stranger).await, Err(TriggerError::NoSuchSetting)));
}

#[tokio::test]
async fn a_full_disk_fails_the_build_and_nothing_else() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let workspaces = disk.path().join("workspaces");
    let farm = Farm::start_with(|settings| settings.workspaces = workspaces).await;
    farm.mischief("[Stage]\nRandomBytes=60000000\n");
    let build = farm.build().await;
    Farm::assert_failed(&build, FailureCode::StorageFull, "disk");
    farm.mischief("");
    let build = farm.build().await;
    assert_eq!(build.status, Status::Complete, "{}", farm.text(build.id).await);
}
