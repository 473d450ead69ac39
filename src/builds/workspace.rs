//! The directory in which a setting's builds work: `<workspaces>/<settingId>/` with
//!
//! - `source/` the code, kept from build to build unless the setting wants it clean or it is broken,
//! - `home/` the home directory of isolated builds, kept from build to build: their tools' caches,
//! - `output/`, `logs/`, `temporary/` of the present build, emptied before and after it,
//! - `syncing` a file that is there while `source/` is being changed: whoever finds it at the start of a build finds a
//!   broken workspace.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Inner;
use crate::model::{BuildSetting, Id, Organization};
use crate::platform::files;

const DISCARDED: &str = ".discarded-";
/// Beside a file of these, the engine's tools keep what they compiled in this directory.
const UNITS: [&str; 2] = [".uproject", ".uplugin"];
const INTERMEDIATE: &str = "Intermediate";

/// A setting's workspace.
#[derive(Debug, Clone)]
pub(super) struct Workspace {
    all: PathBuf,
    root: PathBuf,
}

impl Workspace {
    pub(super) fn of(workspaces: &Path, setting: Id<BuildSetting>) -> Workspace {
        Workspace { all: workspaces.to_owned(), root: workspaces.join(setting.as_str()) }
    }

    /// The code.
    pub(super) fn source(&self) -> PathBuf {
        self.root.join("source")
    }

    /// Where the engine's tool archives.
    pub(super) fn output(&self) -> PathBuf {
        self.root.join("output")
    }

    /// Where the engine's tool writes its own logs.
    pub(super) fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// What programs of the build take for the machine's temporary directory.
    pub(super) fn temporary(&self) -> PathBuf {
        self.root.join("temporary")
    }

    /// What programs of the build take for their user's home.
    pub(super) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// All of it.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn syncing(&self) -> PathBuf {
        self.root.join("syncing")
    }

    /// Makes it ready for a sync. The answer is whether what lies in it may be built upon.
    ///
    /// The last build may have left anything under these names, links to elsewhere too: what is not what it should be is
    /// removed, never followed.
    pub(super) fn begin(&self, wants_clean: bool) -> io::Result<bool> {
        let is_directory = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        if !is_directory(&self.root) {
            discard(&self.all, &self.root)?;
            files::create_private_directory(&self.root)?;
        }
        let is_marked = std::fs::symlink_metadata(self.syncing()).is_ok();
        let is_usable = !wants_clean && !is_marked && is_directory(&self.source());
        if !is_usable {
            discard(&self.all, &self.source())?;
        }
        discard(&self.all, &self.syncing())?;
        files::create_private_file(&self.syncing())?;
        files::create_private_directory(&self.source())?;
        if !is_directory(&self.home()) {
            discard(&self.all, &self.home())?;
            files::create_private_directory(&self.home())?;
        }
        self.empty_outputs()?;
        Ok(is_usable)
    }

    /// Removes what the engine's tools keep to compile less the next time. A build that was cut off may have left half an
    /// object file there, newer than its source, and the tools go by that.
    pub(super) fn forget_compiled(&self) -> io::Result<()> {
        let mut waiting = vec![self.source()];
        while let Some(directory) = waiting.pop() {
            let (mut is_unit, mut below) = (false, Vec::new());
            for entry in std::fs::read_dir(&directory)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
                match entry.file_type()?.is_dir() {
                    true if name != ".git" => below.push(entry.path()),
                    true => {}
                    false => is_unit |= UNITS.iter().any(|end| name.ends_with(end)),
                }
            }
            if is_unit {
                discard(&self.all, &directory.join(INTERMEDIATE))?;
                below.retain(|path| path.file_name().is_none_or(|name| name != INTERMEDIATE));
            }
            waiting.extend(below);
        }
        Ok(())
    }

    /// What a sync left is whole.
    pub(super) fn synced(&self) -> io::Result<()> {
        std::fs::remove_file(self.syncing())
    }

    /// Fresh, empty directories for what the build writes beside the code.
    fn empty_outputs(&self) -> io::Result<()> {
        for directory in [self.output(), self.logs(), self.temporary()] {
            discard(&self.all, &directory)?;
            files::create_private_directory(&directory)?;
        }
        Ok(())
    }

    /// Removes what only the build that ended needed. A failure costs disk space until the next build.
    pub(super) fn end(&self) {
        for directory in [self.output(), self.temporary()] {
            if let Err(error) = discard(&self.all, &directory) {
                tracing::warn!(%error, "a build's output could not be removed from its workspace");
            }
        }
    }

    /// What it takes on the disk, in bytes.
    pub(super) fn size(&self) -> u64 {
        files::tree_size(&self.root)
    }

    /// Takes it out of the way; the answer is what [`remove`] has to remove.
    pub(super) fn bury(&self) -> io::Result<Option<PathBuf>> {
        bury(&self.all, &self.root)
    }

    /// Removes all of it.
    pub(super) fn discard(&self) -> io::Result<()> {
        discard(&self.all, &self.root)
    }
}

impl Inner {
    /// Removes workspaces of deleted settings once no build works in them. What fails here is done by the next start.
    pub(super) fn discard_when_idle(&self, organization: Id<Organization>, settings: &[Id<BuildSetting>]) {
        for setting in settings {
            let is_busy = || self.running().values().any(|running| running.setting == *setting);
            for _ in 0..600 {
                if !is_busy() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(200));
            }
            if is_busy() {
                continue;
            }
            self.forget_on_server(organization, *setting);
            if let Err(error) = Workspace::of(&self.settings.workspaces, *setting).discard() {
                tracing::warn!(%error, build_setting.id = %setting, "the workspace of a deleted build setting could not be removed");
            }
        }
    }
}

/// Removes what a build wrote, or what lies in its place. It is renamed out of the way first, so that a crash in the middle leaves
/// nothing half removed under its name; [`sweep`] finishes that.
fn discard(workspaces: &Path, directory: &Path) -> io::Result<()> {
    bury(workspaces, directory)?.map_or(Ok(()), |grave| remove(&grave))
}

fn bury(workspaces: &Path, directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut random = [0u8; 8];
    let _ = getrandom::fill(&mut random);
    let grave = workspaces.join(format!("{DISCARDED}{:016x}", u64::from_ne_bytes(random)));
    match files::rename(directory, &grave) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(()) => Ok(Some(grave)),
    }
}

/// Removes a tree; links in it are removed, never followed. Directories that its maker closed are opened first.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    if !std::fs::symlink_metadata(path)?.is_dir() {
        return std::fs::remove_file(path);
    }
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            files::open_directories(path)?;
            std::fs::remove_dir_all(path)
        }
        result => result,
    }
}

/// The settings that have a workspace. Empty where that cannot be read.
pub(super) fn present(workspaces: &Path) -> Vec<Id<BuildSetting>> {
    let entries = std::fs::read_dir(workspaces).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// At a start: finishes removals that a crash cut short, and removes the workspaces of settings that are no more.
pub(super) fn sweep(workspaces: &Path, exists: impl Fn(Id<BuildSetting>) -> bool) -> io::Result<usize> {
    let mut removed = 0;
    for entry in std::fs::read_dir(workspaces)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let setting = name.parse::<Id<BuildSetting>>();
        if name.starts_with(DISCARDED) {
            remove(&entry.path())?;
            removed += 1;
        } else if setting.is_ok_and(|setting| !exists(setting)) {
            discard(workspaces, &entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_kept_unless_it_is_unwanted_or_broken() {
        let place = tempfile::tempdir().unwrap();
        let workspace = Workspace::of(place.path(), Id::from_parts(1, 1));
        let kept = workspace.source().join("kept");
        assert!(!workspace.begin(false).unwrap(), "a new one has nothing to build upon");
        std::fs::write(&kept, "x").unwrap();
        std::fs::write(workspace.output().join("old"), "x").unwrap();
        workspace.synced().unwrap();
        assert!(workspace.begin(false).unwrap() && kept.exists() && !workspace.output().join("old").exists());
        assert!(!workspace.begin(false).unwrap() && !kept.exists(), "nobody said that the last sync ended well");
        std::fs::write(&kept, "x").unwrap();
        workspace.synced().unwrap();
        assert!(!workspace.begin(true).unwrap() && !kept.exists());
    }

    #[test]
    fn what_was_compiled_is_forgotten_beside_projects_and_plugins_only() {
        let place = tempfile::tempdir().unwrap();
        let workspace = Workspace::of(place.path(), Id::from_parts(1, 1));
        workspace.begin(false).unwrap();
        let source = workspace.source();
        for directory in
            ["Game/Intermediate/Build", "Game/Plugins/Soup/Intermediate/Build", "Game/Content/Intermediate", ".git/Intermediate"]
        {
            std::fs::create_dir_all(source.join(directory)).unwrap();
        }
        for file in ["Game/A.uproject", "Game/Plugins/Soup/Soup.uplugin", ".git/x.uproject"] {
            std::fs::write(source.join(file), "{}").unwrap();
        }
        workspace.forget_compiled().unwrap();
        for (directory, is_there) in [
            ("Game/Intermediate", false),
            ("Game/Plugins/Soup/Intermediate", false),
            ("Game/Content/Intermediate", true),
            (".git/Intermediate", true),
        ] {
            assert_eq!(source.join(directory).exists(), is_there, "{directory}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_that_a_build_left_in_place_of_the_workspace_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("precious"), "x").unwrap();
        let workspace = Workspace::of(&place.path().join("workspaces"), Id::from_parts(1, 1));
        std::fs::create_dir(place.path().join("workspaces")).unwrap();
        for (link, target) in [
            (workspace.syncing(), outside.join("precious")),
            (workspace.source(), outside.clone()),
            (workspace.output(), outside.clone()),
            (workspace.home(), outside.clone()),
            (workspace.root.clone(), outside.clone()),
        ] {
            workspace.begin(false).unwrap();
            workspace.synced().unwrap();
            discard(&workspace.all, &link).unwrap();
            std::os::unix::fs::symlink(target, &link).unwrap();
            workspace.begin(false).unwrap();
            assert!(std::fs::symlink_metadata(workspace.source()).unwrap().is_dir(), "{}", link.display());
            assert_eq!(std::fs::read(outside.join("precious")).unwrap(), b"x", "{}", link.display());
            assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1, "{}", link.display());
        }
    }

    #[test]
    fn removing_never_leaves_the_workspace_and_is_finished_after_a_crash() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("precious"), "x").unwrap();
        let all = place.path().join("workspaces");
        let half_removed = all.join(format!("{DISCARDED}1"));
        std::fs::create_dir_all(&half_removed).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&outside, half_removed.join("link")).unwrap();
        let (gone, kept) = (Id::from_parts(1, 1), Id::from_parts(2, 2));
        for setting in [gone, kept] {
            std::fs::create_dir_all(Workspace::of(&all, setting).source()).unwrap();
        }
        std::fs::create_dir(all.join("somebody's")).unwrap();
        assert_eq!(sweep(&all, |setting| setting == kept).unwrap(), 2);
        assert!(all.join(kept.as_str()).exists() && !all.join(gone.as_str()).exists() && all.join("somebody's").exists());
        assert!(outside.join("precious").exists() && !half_removed.exists());
    }
}
