//! Where PostgreSQL's programs are, and as whom they run: never as root, which they refuse.

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

#[derive(Clone, Debug)]
pub struct Programs {
    pub directory: PathBuf,
    /// Whom root becomes; `None`: we are not root.
    owner: Option<(u32, u32)>,
}

impl Programs {
    pub fn find() -> Programs {
        static FOUND: OnceLock<Programs> = OnceLock::new();
        FOUND.get_or_init(Self::look).clone()
    }

    fn look() -> Programs {
        let directory = installed().unwrap_or_else(|| {
            install();
            installed().expect("the package `postgresql` has initdb")
        });
        Programs { directory, owner: owner() }
    }

    pub fn give(&self, directory: &Path) {
        if let Some((user, group)) = self.owner {
            chown(directory, Some(user), Some(group)).unwrap();
        }
    }

    /// `dies_with_us`: the kernel ends it when the thread that starts it ends.
    pub fn as_owner(&self, program: &str, dies_with_us: bool) -> Command {
        let mut command = Command::new("setpriv");
        if let Some((user, group)) = self.owner {
            command.args([&format!("--reuid={user}"), &format!("--regid={group}"), "--clear-groups"]);
        }
        if dies_with_us {
            command.args(["--pdeathsig", "TERM"]);
        }
        command.args(["--", program]).current_dir("/").env("LC_ALL", "C.UTF-8");
        command
    }
}

/// The newest version of Debian's, or whatever is in the path.
fn installed() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").exists())
        .collect();
    found.sort();
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|directory| directory.join("initdb").exists())
    };
    found.pop().map(|(_, bin)| bin).or_else(in_path)
}

fn install() {
    // Its own cluster is not wanted.
    let script = "set -e; mkdir -p /etc/postgresql-common; \
        [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf; \
        apt-get update -q; DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends postgresql";
    let output = Command::new("sh").args(["-c", script]).output();
    let why = match output {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    panic!("these tests need PostgreSQL, and `apt-get install postgresql` failed; install it by hand: {why}");
}

/// Root becomes the user of the package, or else nobody.
fn owner() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let id = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
        Some((fields.next()??, fields.next()??))
    };
    id("postgres").or_else(|| id("nobody")).or(Some((65534, 65534)))
}
