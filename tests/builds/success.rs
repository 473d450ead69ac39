//! Builds that end well.

use std::fs;
use std::io::Read;
use std::path::Path;

use cookhouse::builds::Overrides;
use cookhouse::model::Status;
use cookhouse::model::build::{StepName, StepStatus};
use cookhouse::model::log::LogStream;
use md5::{Digest, Md5};

use crate::support::farm::{self, Farm, HEAD, TOKEN};

/// The names in a tarball, as another reader sees them.
fn names(tarball: &Path) -> Vec<String> {
    let output = std::process::Command::new("tar").arg("-tzf").arg(tarball).output().expect("tar runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_build_goes_through_its_steps_to_an_artifact() {
    let farm = Farm::start().await;
    farm::copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/projects/demo/Game"), &farm.home.path().join("source/Game"));
    let triggered = farm.trigger().await;
    assert_eq!((triggered.status, triggered.commit.as_str()), (Status::Pending, ""));
    let build = farm.finished(triggered.id).await;
    assert_eq!(build.status, Status::Complete, "{build:#?}\n{}", farm.text(build.id).await);

    let steps: Vec<_> = build.steps.iter().map(|step| (step.name, step.status)).collect();
    let wanted = [StepName::Sync, StepName::Prepare, StepName::Build, StepName::Package].map(|name| (name, StepStatus::Complete));
    assert_eq!(steps, wanted);
    assert!(build.steps.iter().all(|step| step.finished_at.is_some() && step.duration_ms.is_some()));
    assert_eq!((build.commit.as_str(), build.commit_message.as_str()), (HEAD, "Salt the soup"));
    assert!(build.started_at >= Some(build.created_at) && build.duration_ms() > Some(0));

    let artifact = build.artifact.as_ref().expect("an artifact");
    let path = farm.artifacts.path(build.id);
    let mut bytes = Vec::new();
    fs::File::open(&path).expect("it is there").read_to_end(&mut bytes).expect("readable");
    assert_eq!(artifact.size_bytes, bytes.len() as u64);
    let md5: String = Md5::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(artifact.checksum_md5, md5);
    assert_eq!(artifact.expires_at, None, "the newest of a setting has no end");
    let names = names(&path);
    assert!(names.iter().any(|name| name.ends_with("Kitchen/Binaries/Linux/Kitchen")), "{names:?}");

    let lines = farm.lines(build.id).await;
    assert_eq!(build.log_lines, lines.len() as u64);
    assert!(lines.iter().any(|line| line.stream == LogStream::Stdout && line.text.contains("BUILD SUCCESSFUL")));
    assert!(!farm.text(build.id).await.contains(TOKEN), "a known secret is masked");
    let project: Option<cookhouse::model::Project> = {
        use cookhouse::store::Read;
        farm.store.read::<_, cookhouse::store::StoreError>(|snapshot| snapshot.get(build.organization_id, build.project_id)).expect("read")
    };
    assert_eq!(project.and_then(|project| project.last_build).map(|last| (last.id, last.status)), Some((build.id, Status::Complete)));
    let workspace = farm.home.path().join("workspaces").join(build.build_setting_id.as_str());
    assert!(!workspace.join("output").exists() && workspace.join("source/Game/Kitchen.uproject").exists());
    assert_eq!(farm.processes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_second_build_is_incremental_unless_the_setting_wants_it_clean() {
    let mut farm = Farm::start().await;
    let build = farm.build().await;
    assert_eq!(build.status, Status::Complete, "{}", farm.text(build.id).await);
    let left = farm.home.path().join("workspaces").join(build.build_setting_id.as_str()).join("source/Game/Saved/left-by-hand");
    fs::create_dir_all(left.parent().expect("a parent")).expect("a directory");
    fs::write(&left, "x").expect("a file");
    assert_eq!(farm.build().await.status, Status::Complete);
    assert!(left.exists());
    farm.change_setting(|setting| setting.clean_build = true).await;
    assert_eq!(farm.build().await.status, Status::Complete);
    assert!(!left.exists());
    assert_eq!(*farm.source.checkouts.lock().expect("not poisoned"), [false, true, false]);
}

#[tokio::test]
async fn a_named_commit_is_built_and_a_retry_names_it_again() {
    let farm = Farm::start().await;
    let mut request = farm.request();
    request.overrides = Overrides { commit: Some("AAAAAAAA".into()), branch: Some("feature/soup".into()), changelist: None };
    let build = farm.builds.trigger(request).await.expect("triggered");
    let build = farm.finished(build.id).await;
    assert_eq!((build.status, build.commit.as_str(), build.branch.as_str()), (Status::Complete, HEAD, "feature/soup"));
    let by = farm.request().by;
    let retry = farm.builds.retry(build.organization_id, build.id, by.clone()).await.expect("a retry");
    assert_eq!((retry.retry_of, retry.requested_revision.as_deref(), &retry.triggered_by), (Some(build.id), Some(HEAD), &by));
    assert_eq!(farm.finished(retry.id).await.status, Status::Complete);
}

#[tokio::test]
async fn engine_4_is_called_by_its_own_words() {
    let mut farm = Farm::start().await;
    farm.change_setting(|setting| {
        setting.ue_version = "4.27".into();
        setting.platform = "Win64".into();
        setting.extra_uat_args = vec!["-allmaps".into()];
    })
    .await;
    let build = farm.build().await;
    assert_eq!(build.status, Status::Complete, "{}", farm.text(build.id).await);
    let names = names(&farm.artifacts.path(build.id));
    assert!(names.iter().any(|name| name.contains("WindowsNoEditor") && name.ends_with(".exe")), "{names:?}");
    assert!(farm.text(build.id).await.contains("-allmaps"));
}

#[tokio::test]
async fn a_million_lines_are_all_there() {
    let farm = Farm::start().await;
    farm.mischief("[Cook]\nLines=1000000\n");
    let build = farm.build().await;
    assert_eq!(build.status, Status::Complete);
    assert!(build.log_lines > 1_000_000, "{}", build.log_lines);
    let reader = farm.builds.logs().reader(build.id).await.expect("a log");
    assert_eq!(reader.line_count(), build.log_lines);
    let tail = reader.tail(200).await.expect("lines");
    assert!(tail.len() == 200 && tail.iter().any(|line| line.text.contains("BUILD SUCCESSFUL")));
}

#[tokio::test]
async fn a_build_sees_the_allowed_environment_only() {
    let farm = Farm::start_with(|settings| settings.environment = vec!["PATH".into()]).await;
    farm.mischief("[Start]\nPrintEnvironment=*\n");
    let build = farm.build().await;
    let text = farm.text(build.id).await;
    assert!(text.contains("\nPATH=") && text.contains("\nuebp_LogFolder=") && text.contains("\nTMPDIR="), "{text}");
    // A build that is isolated has a home of its own, in its workspace.
    assert!(text.lines().filter(|line| line.starts_with("HOME=")).all(|line| line.contains("/workspaces/")), "{text}");
    assert!(!text.contains("\nCARGO"), "{text}");
}
