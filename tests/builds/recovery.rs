//! What a start makes of what the last run left in the middle. The real thing, with a killed server, is `tests/kill`.

use cookhouse::builds::lifecycle;
use cookhouse::model::build::FailureCode;
use cookhouse::model::deploy::{DeployFailureCode, DeployStatus, Deployment};
use cookhouse::model::{Artifact, Build, Status};
use cookhouse::store::{Read, StoreError};

use crate::support::farm::Farm;
use crate::support::studio;

/// Every build there is, oldest first.
pub(crate) fn all(farm: &Farm) -> Vec<Build> {
    let mut builds = Vec::new();
    farm.store
        .read::<_, StoreError>(|snapshot| {
            snapshot.every(|build: Build| {
                builds.push(build);
                Ok(true)
            })
        })
        .expect("read");
    builds
}

#[tokio::test]
async fn a_start_settles_everything_that_was_in_the_middle() {
    let mut farm = Farm::start().await;
    farm.stop().await;
    let (organization, setting, clock) = (farm.records.organization.id, farm.records.setting.clone(), farm.clock.clone());
    // As a killed service leaves it: one build running, two waiting, one complete that was being handed on.
    let new = |_| studio::build(&setting, clock.new_id(), clock.now());
    let [delivering, running, first, second]: [Build; 4] = [0, 1, 2, 3].map(new);
    let ids = [delivering.id, running.id, first.id, second.id];
    let artifact = Artifact {
        size_bytes: 3,
        checksum_md5: String::new(),
        checksum_sha256: String::new(),
        expires_at: None,
        deleted_at: None,
        deleted_reason: None,
    };
    let deployments = vec![
        Deployment { plugin: "custom-deploy".into(), status: DeployStatus::InProgress, error: None },
        Deployment { plugin: "store".into(), status: DeployStatus::Pending, error: None },
    ];
    let now = clock.now();
    let leave = move |tx: &cookhouse::store::Change| {
        let mut delivering = delivering.moved_to(Status::Running, now)?.moved_to(Status::Complete, now)?;
        delivering.artifact = Some(artifact);
        (delivering.auto_deploy_status, delivering.deployments) = (Some(DeployStatus::InProgress), deployments);
        tx.put(&delivering)?;
        for build in [&running, &first, &second] {
            tx.put(build)?;
        }
        lifecycle::claim(tx, organization, running.id, now).map(|_| ())
    };
    farm.store.write(leave).await.expect("left");
    let home = farm.home.path();
    let stray = farm.artifacts.path(ids[1]);
    for file in [&farm.artifacts.path(ids[0]), &stray] {
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
        std::fs::write(file, "tar").expect("a file");
    }
    std::fs::write(home.join("temporary/x.artifact-part"), "half").expect("a file");
    let workspaces = home.join("workspaces");
    std::fs::create_dir_all(workspaces.join(".discarded-1/deep")).expect("a directory");
    std::fs::create_dir_all(workspaces.join(studio::build(&setting, clock.new_id(), now).id.as_str())).expect("a directory");

    let farm = farm.restart().await;
    let interrupted = farm.read(ids[1]);
    Farm::assert_failed(&interrupted, FailureCode::Interrupted, "repeated by itself");
    let [(id, Some(successor))] = farm.recovered.interrupted[..] else { panic!("{:?}", farm.recovered) };
    assert_eq!(id, ids[1]);
    for id in [ids[2], ids[3], successor] {
        let build = farm.finished(id).await;
        assert_eq!(build.status, Status::Complete, "{}", farm.text(id).await);
    }
    let started = [ids[2], ids[3], successor].map(|id| farm.read(id).started_at);
    assert!(started.is_sorted(), "those that waited keep their order: {started:?}");
    assert_eq!(farm.read(successor).retry_of, Some(ids[1]));

    assert_eq!(farm.recovered.interrupted_deploys, [ids[0]]);
    let delivered = farm.until(ids[0], |build| build.auto_deploy_status == Some(DeployStatus::Failed)).await;
    let codes: Vec<_> = delivered.deployments.iter().filter_map(|deployment| deployment.error.as_ref()).map(|error| error.code).collect();
    assert_eq!(codes, [DeployFailureCode::Interrupted, DeployFailureCode::PluginError]);
    assert!(farm.receiver.received.lock().expect("not poisoned").is_empty());

    assert_eq!((farm.recovered.artifacts.temporaries, farm.recovered.artifacts.quarantined.len()), (1, 1));
    assert!(farm.artifacts.path(ids[0]).exists() && !stray.exists());
    let left: Vec<_> = std::fs::read_dir(&workspaces).expect("readable").flatten().map(|entry| entry.file_name()).collect();
    // Of the last build's output something may still be on its way out.
    let of_settings: Vec<_> = left.iter().filter(|name| !name.to_string_lossy().starts_with(".discarded-")).collect();
    assert_eq!(of_settings, [setting.id.as_str()], "only the workspace of the setting that exists");
    assert!(!workspaces.join(".discarded-1").exists());
    let all = all(&farm);
    assert_eq!(all.iter().filter(|build| build.retry_of.is_some()).count(), 1);
}

#[tokio::test]
async fn a_wish_to_cancel_outlives_the_service() {
    let mut farm = Farm::start().await;
    farm.stop().await;
    let (organization, clock) = (farm.records.organization.id, farm.clock.clone());
    let build = studio::build(&farm.records.setting, clock.new_id(), clock.now());
    let id = build.id;
    let now = clock.now();
    let leave = move |tx: &cookhouse::store::Change| {
        tx.put(&build)?;
        lifecycle::claim(tx, organization, id, now)?;
        lifecycle::cancel(tx, organization, id, "", now).map(|_| ())
    };
    farm.store.write(leave).await.expect("left");
    let farm = farm.restart().await;
    Farm::assert_failed(&farm.read(id), FailureCode::Cancelled, "");
    assert_eq!(all(&farm).len(), 1, "nobody wants a successor");
}

#[cfg(unix)]
#[tokio::test]
async fn what_a_build_that_was_cut_off_compiled_is_compiled_anew() {
    let farm = Farm::start().await;
    farm.mischief("[Cook]\nTouch=Saved/cooking\nHang=silent\n");
    let build = farm.trigger().await;
    let project = farm.home.path().join("workspaces").join(farm.records.setting.id.as_str()).join("source/Game");
    while !project.join("Saved/cooking").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    // As a power cut leaves it: an object that is newer than its source, and torn, before anything was linked from it.
    std::fs::remove_dir_all(project.join("Binaries")).expect("removed");
    let objects = objects_below(&project.join("Intermediate"));
    assert!(!objects.is_empty(), "nothing was compiled");
    for object in objects {
        std::fs::File::options().write(true).open(object).and_then(|file| file.set_len(7)).expect("torn");
    }
    farm.mischief("");
    let farm = farm.restart().await;
    let successor = all(&farm).into_iter().find(|other| other.retry_of == Some(build.id)).expect("a successor");
    let ended = farm.finished(successor.id).await;
    assert_eq!(ended.status, Status::Complete, "{}", farm.text(successor.id).await);
    assert!(farm.text(successor.id).await.contains("The last build here was cut off"));
    let next = farm.build().await;
    assert!(!farm.text(next.id).await.contains("cut off"), "only once");
}

#[cfg(unix)]
fn objects_below(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).expect("there").map(|entry| entry.expect("an entry").path());
    let (directories, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let objects = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "o"));
    directories.iter().flat_map(|path| objects_below(path)).chain(objects).collect()
}
