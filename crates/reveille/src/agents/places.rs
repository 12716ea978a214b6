//! Where files really are: every directory in which something can be changed so that a path leads to other content.
//! A file may be a link into a directory that is a link itself, which is how config maps are mounted and replaced.

use super::watch::is_agents;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Links followed before a path is taken for one that leads nowhere.
const LINKS_MAX: usize = 40;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// A change of one of these matters.
    paths: BTreeSet<PathBuf>,
    /// In this one, a change of anything.
    directory: Option<PathBuf>,
}

impl Places {
    /// Of some files, and of all files in one directory.
    pub fn of<'a>(files: impl IntoIterator<Item = &'a Path>, directory: Option<&Path>) -> Self {
        let mut places = Self::default();
        for file in files {
            places.follow(file);
        }
        if let Some(directory) = directory {
            places.directory = places.follow(directory);
            let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
            for linked in entries.filter(|path| is_agents(path) && path.is_symlink()) {
                places.follow(&linked);
            }
        }
        places
    }

    pub fn has(&self, path: &Path) -> bool {
        let inside = self.directory.as_ref().is_some_and(|directory| path.parent() == Some(directory));
        inside || self.paths.contains(path)
    }

    /// Those that exist now.
    pub fn directories(&self) -> BTreeSet<&Path> {
        let parents = self.paths.iter().filter_map(|path| path.parent());
        parents.chain(self.directory.as_deref()).filter(|directory| directory.is_dir()).collect()
    }

    /// Notes every link on the way and what is at its end, which is given back.
    fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let mut path = std::path::absolute(path).ok()?;
        for _ in 0..LINKS_MAX {
            let Some((link, rest)) = first_link(&path) else {
                // What has to be made before it can be there.
                let missing = path.ancestors().skip(1).take_while(|above| !above.exists());
                self.paths.extend(missing.map(Path::to_owned));
                self.paths.insert(path.clone());
                return Some(path);
            };
            let target = fs::read_link(&link).ok()?;
            let parent = link.parent().unwrap_or(Path::new("/")).to_owned();
            path = std::path::absolute(normal(&parent.join(target).join(rest))).ok()?;
            self.paths.insert(link);
        }
        None
    }
}

/// The first part of a path that is a link, and what comes after it.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut walked = PathBuf::new();
    let mut parts = path.components();
    while let Some(part) = parts.next() {
        walked.push(part);
        if walked.is_symlink() {
            return Some((walked, parts.as_path().to_owned()));
        }
    }
    None
}

/// Without `..`; all before it was found to be no link.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// As Kubernetes mounts a config map: `a.json` → `..data/a.json`, `..data` → `..1`.
    #[test]
    fn every_link_on_the_way_is_watched() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path().canonicalize().expect("a path");
        let mount = root.join("mount");
        fs::create_dir_all(mount.join("..1")).expect("made");
        fs::write(mount.join("..1/a.json"), "{}").expect("written");
        symlink("..1", mount.join("..data")).expect("linked");
        symlink("..data/a.json", mount.join("a.json")).expect("linked");
        symlink(&mount, root.join("agents")).expect("linked");
        let places = Places::of(None, Some(&root.join("agents")));
        for path in ["agents", "mount/..data", "mount/a.json", "mount/new.json", "mount/..1/a.json"] {
            assert!(places.has(&root.join(path)), "{path} in {places:?}");
        }
        assert!(!places.has(&root.join("another")), "{places:?}");
        let watched = places.directories();
        for directory in ["", "mount", "mount/..1"] {
            assert!(
                watched.contains(root.join(directory).as_path()) || directory.is_empty(),
                "{directory}: {watched:?}"
            );
        }
        // A circle leads nowhere.
        symlink("circle", root.join("circle")).expect("linked");
        assert!(!Places::of([root.join("circle").as_path()], None).directories().is_empty());
    }
}
