//! Links in a workspace that lead out of it. p4 looks at the names of files only: through such a link it would write
//! wherever the link leads.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use tokio_util::sync::CancellationToken;

/// Deepest directory that is entered; nothing that a build leaves is deeper.
const DEEPEST: usize = 128;

/// Removes every link below `workspace` that leads out of it, and counts them. Links are not followed.
///
/// # Errors
/// When one could not be removed, or the workspace cannot be read.
pub(crate) fn remove_leading_out(workspace: &Dir, cancel: &CancellationToken) -> io::Result<u64> {
    let mut removed = 0;
    let mut directories = vec![(workspace.try_clone()?, PathBuf::new(), 0)];
    while let Some((directory, path, depth)) = directories.pop() {
        for entry in directory.entries()? {
            if cancel.is_cancelled() {
                return Err(io::Error::other("given up"));
            }
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name();
            if kind.is_symlink() {
                let target = directory.read_link_contents(&name)?;
                if leads_out(&path, &target) {
                    directory.remove_file(&name)?;
                    removed += 1;
                }
            } else if kind.is_dir() {
                if depth == DEEPEST {
                    return Err(io::Error::other("the directories of the workspace are nested too deeply"));
                }
                directories.push((entry.open_dir()?, path.join(&name), depth + 1));
            }
        }
    }
    Ok(removed)
}

/// By the names alone: a link through another link is judged by each of them.
fn leads_out(folder: &Path, target: &Path) -> bool {
    use std::path::Component;
    let mut depth = folder.components().count();
    for component in target.components() {
        match component {
            Component::Prefix(_) | Component::RootDir => return true,
            Component::CurDir => {}
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
        }
    }
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_leads_out_is_removed_and_what_stays_inside_is_kept() {
        let (place, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(place.path().join("Game/Content")).unwrap();
        let link = |target: &Path, name: &str| std::os::unix::fs::symlink(target, place.path().join(name)).unwrap();
        link(outside.path(), "absolute");
        link(Path::new("../x"), "up");
        link(Path::new("../../.."), "Game/Content/far");
        link(Path::new("../../Game"), "Game/Content/near");
        link(Path::new("Game"), "within");
        link(Path::new("missing"), "dangling");
        let workspace = Dir::open_ambient_dir(place.path(), cap_std::ambient_authority()).unwrap();
        assert_eq!(remove_leading_out(&workspace, &CancellationToken::new()).unwrap(), 3);
        for (name, is_kept) in [
            ("absolute", false),
            ("up", false),
            ("Game/Content/far", false),
            ("Game/Content/near", true),
            ("within", true),
            ("dangling", true),
        ] {
            assert_eq!(std::fs::symlink_metadata(place.path().join(name)).is_ok(), is_kept, "{name}");
        }
    }
}
