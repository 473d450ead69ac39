//! Builds that look where they must not: at the service's key and store, at other builds, at the machine.
//!
//! Each attempt is a line of shell in the engine's own tool. The same attempts without isolation show that they would
//! get what they want.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use cookhouse::builds::isolation::Sandbox;
use cookhouse::model::{Build, Status};
use cookhouse::platform::{accounts, confinement};

use crate::support::farm::{Farm, isolation};

/// `$H` holds everything the service keeps, `$O` is the workspace of another setting, `$S` the process of the service.
const ATTEMPTS: &[&str] = &[
    "cat $H/secret.key",
    "cp $H/store.redb stolen",
    "ls $H/artifacts",
    "cat $H/artifacts/decoy",
    "cat $H/logs/decoy",
    "cat $O/decoy",
    "ls $O",
    "ls $H/workspaces",
    "ln -s $H/secret.key link && cat link",
    "ln -s $H/workspaces everyone && cat everyone/*/decoy",
    "ln $H/artifacts/decoy hard && cat hard",
    "cat ../../../secret.key",
    "cat /proc/self/root$H/secret.key",
    "cat /proc/$S/root$H/secret.key",
    "cat /proc/$S/environ",
    "cat /proc/$S/maps",
    "ls -l /proc/$S/fd/0",
    "echo forged > $H/artifacts/forged",
    "echo forged >> $H/artifacts/decoy",
    "truncate -s 0 $H/logs/decoy",
    "touch $O/planted",
    "mv $O/movable stolen",
    "rm $H/logs/removable",
    "mkdir $H/artifacts/planted",
    "chmod 777 $H/workspaces && ls $H/workspaces",
    "echo planted > $E/Engine/Binaries/planted",
    "echo planted > $E/Engine/Build/BatchFiles/planted",
    "touch $H/planted",
    "touch /etc/cookhouse-was-here && rm /etc/cookhouse-was-here",
    "kill -CONT $S",
    "(setsid bash -c 'cat $H/secret.key >daemon'; test -s daemon)",
    "env -i H=$H /bin/bash -c 'cat $H/secret.key'",
];

/// What a build must be able to do all the same.
const NEEDS: &[&str] = &[
    "echo x > made && cat made && mv made moved && rm moved",
    "mkdir -p deep/er && mv deep/er er && rmdir er",
    "echo x > $HOME/.config && cat $HOME/.config",
    "mktemp",
    "echo x > /dev/null && head -c 4 /dev/urandom",
    "touch /dev/shm/cookhouse-$$ && rm /dev/shm/cookhouse-$$",
    "cat /etc/passwd && ls /usr/bin",
    "cat $E/Engine/Build/Build.version",
    "echo x > $E/Engine/Saved/made && rm $E/Engine/Saved/made",
    "mkdir -p $E/Engine/Intermediate/Build",
    "cat /proc/self/status && ls /proc/self/fd",
    "sleep 60 & kill $!",
    "test $HOME != /root && test -n $HOME",
    "bash -c 'cat <<< here'",
];

/// What became of each line, as the build's log tells.
struct Told {
    build: Build,
    text: String,
}

impl Told {
    fn got(&self, line: &str) -> bool {
        let (got, held) = (self.text.contains(&format!("GOT {line}\n")), self.text.contains(&format!("HELD {line}\n")));
        assert!(got != held, "the build did not try {line}:\n{}", self.text);
        got
    }
}

impl Told {
    /// A line, whatever the space in it.
    fn shows(&self, wanted: &str) -> bool {
        self.text.lines().any(|line| line.split_whitespace().collect::<String>() == wanted)
    }
}

/// Runs all lines in one build.
async fn try_all(farm: &Farm) -> Told {
    let home = farm.home.path();
    let other = home.join("workspaces/otherotherotherotherother");
    fs::create_dir_all(&other).expect("made");
    for decoy in ["artifacts/decoy", "logs/decoy", "logs/removable"].map(|name| home.join(name)) {
        fs::write(decoy, "a secret").expect("written");
    }
    fs::write(other.join("decoy"), "a secret").expect("written");
    fs::write(other.join("movable"), "a secret").expect("written");
    let engine = home.join("engines/UE_5.4");
    let mut script = format!(
        "#!/bin/bash\nH={} O={} E={} S={}\nexport H O E S\ncd \"$TMPDIR/../source\" || exit 9\n",
        home.display(),
        other.display(),
        engine.display(),
        std::process::id()
    );
    for line in ATTEMPTS.iter().chain(NEEDS) {
        script += &format!(
            "if ( {line} ) >/dev/null 2>why; then echo 'GOT {0}'; else echo 'HELD {0}'; cat why; fi\n",
            line.replace('\'', "'\\''")
        );
    }
    script += "id; grep -E 'Groups|NoNewPrivs' /proc/self/status\nexit 1\n";
    fs::write(engine.join("Engine/Build/BatchFiles/RunUAT.sh"), script).expect("written");
    let build = farm.build().await;
    Told { text: farm.text(build.id).await, build }
}

/// Only root can start programs as somebody else; the farm is reachable for `nobody` then.
fn as_nobody(settings: &mut cookhouse::builds::Settings, sandbox: Sandbox) {
    let home = settings.workspaces.parent().expect("a farm").to_owned();
    settings.isolation = isolation(&home, |wish| (wish.user, wish.sandbox) = ("nobody".into(), sandbox));
    for directory in [&home, &settings.workspaces] {
        fs::create_dir_all(directory).expect("made");
        settings.isolation.admit(directory).expect("opened");
    }
    settings.isolation.probe(&settings.workspaces).expect("reachable");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_reaches_its_workspace_and_its_engine_and_nothing_of_the_service() {
    if confinement::landlock_version().is_none() {
        eprintln!("NOT TRIED: this kernel has no Landlock");
        return;
    }
    let farm = Farm::start().await;
    let told = try_all(&farm).await;
    assert!(told.text.contains("by Landlock"), "{}", told.text);
    let reached: Vec<_> = ATTEMPTS.iter().filter(|line| told.got(line)).collect();
    assert!(reached.is_empty(), "{reached:#?}\n{}", told.text);
    let missing: Vec<_> = NEEDS.iter().filter(|line| !told.got(line)).collect();
    assert!(missing.is_empty(), "{missing:#?}\n{}", told.text);
    assert!(told.shows("NoNewPrivs:1"), "{}", told.text);
    assert_eq!(fs::read(farm.home.path().join("artifacts/decoy")).expect("there"), b"a secret");
    assert_eq!(told.build.status, Status::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_isolation_the_same_attempts_get_what_they_want() {
    let farm = Farm::start_with(|settings| {
        let home = settings.workspaces.parent().expect("a farm").to_owned();
        settings.isolation = isolation(&home, |wish| wish.sandbox = Sandbox::Off);
    })
    .await;
    let told = try_all(&farm).await;
    assert!(told.text.contains("not held to its workspace"), "{}", told.text);
    // The few that a test's own surroundings may refuse aside.
    let reached = ATTEMPTS.iter().filter(|line| told.got(line)).count();
    assert!(reached + 4 >= ATTEMPTS.len(), "{reached} of {}: the attempts are no good\n{}", ATTEMPTS.len(), told.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_its_own_keeps_a_build_out_without_the_kernels_walls() {
    if !accounts::may_act_as_others() {
        eprintln!("NOT TRIED: only root can run builds as another user");
        return;
    }
    let nobody = accounts::find("nobody", "").expect("every system has it");
    let farm = Farm::start_with(|settings| as_nobody(settings, Sandbox::Off)).await;
    let told = try_all(&farm).await;
    // All workspaces belong to that user: what keeps them apart is Landlock alone.
    let reached: Vec<_> = ATTEMPTS.iter().filter(|line| !line.contains("$O") && told.got(line)).collect();
    assert!(reached.is_empty(), "{reached:#?}\n{}", told.text);
    assert!(told.text.contains(&format!("uid={}(nobody) gid={}", nobody.user, nobody.group)), "{}", told.text);
    assert!(told.shows("Groups:") && told.shows("NoNewPrivs:1"), "{}", told.text);
    assert!(told.text.contains("runs as the user nobody"), "{}", told.text);
    for need in &NEEDS[..5] {
        assert!(told.got(need), "{need}\n{}", told.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_build_passes_as_another_user_again_and_again() {
    if !accounts::may_act_as_others() {
        eprintln!("NOT TRIED: only root can run builds as another user");
        return;
    }
    let nobody = accounts::find("nobody", "").expect("every system has it");
    let farm = Farm::start_with(|settings| as_nobody(settings, Sandbox::Auto)).await;
    for round in 0..2 {
        farm.write("Content/New.umap", format!("round {round}"));
        farm.mischief("[Cook]\nDaemons=2\nDaemonEnvironment=clean\n");
        let build = farm.build().await;
        assert_eq!(build.status, Status::Complete, "{build:#?}\n{}", farm.text(build.id).await);
        assert_eq!(farm.processes(), Vec::<String>::new());
        let workspace = farm.home.path().join("workspaces").join(farm.records.setting.id.as_str());
        let owner = |path: &str| fs::symlink_metadata(workspace.join(path)).map(|found| (found.uid(), found.gid())).expect("there");
        for path in ["", "source", "source/Game/Kitchen.uproject", "source/Game/Saved", "home"] {
            assert_eq!(owner(path), (nobody.user, nobody.group), "{path}");
        }
        let mode = |path: &std::path::Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
        assert_eq!((mode(&workspace), mode(&farm.home.path().join("workspaces"))), (0o700, 0o710));
    }
}
