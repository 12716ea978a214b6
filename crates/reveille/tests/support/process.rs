//! The real binary, in a home of its own.

use super::{client, homes_on_postgres, id, within};
use rustix::process::{Pid, Signal, kill_process};
use scratch_postgres::Cluster;
use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    task::JoinHandle,
};

pub const BINARY: &str = env!("CARGO_BIN_EXE_reveille");

/// A user's home directory, with nothing of the real user's in it.
pub struct Home {
    pub dir: TempDir,
    /// Where its servers keep everything, unless in a file.
    pub database_url: Option<String>,
}

/// A server process. Killed when dropped.
pub struct Daemon {
    pub url: String,
    pub child: Child,
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Default for Home {
    fn default() -> Self {
        let database_url = homes_on_postgres().then(|| Cluster::shared().database());
        Self { dir: tempfile::tempdir().unwrap(), database_url }
    }
}

impl Home {
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data/reveille")
    }

    pub fn database(&self) -> PathBuf {
        self.data().join("reveille.db")
    }

    pub fn config(&self) -> PathBuf {
        self.dir.path().join("config/reveille/reveille.toml")
    }

    pub fn write_config(&self, text: &str) {
        std::fs::create_dir_all(self.config().parent().unwrap()).unwrap();
        std::fs::write(self.config(), text).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.wrap(BINARY);
        command.args(arguments);
        command
    }

    /// Any program, run in this home.
    pub fn wrap(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("XDG_DATA_HOME", self.dir.path().join("data"))
            .env("XDG_CONFIG_HOME", self.dir.path().join("config"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        if let Some(url) = &self.database_url {
            command.env("REVEILLE_DATABASE_URL", url);
        }
        command
    }

    /// Runs a command to its end.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        let output = within(&arguments.join(" "), self.command(arguments).output()).await.unwrap();
        Ran::of(&output)
    }

    /// Runs a command in the background.
    pub fn spawn(&self, arguments: &[&str]) -> JoinHandle<Ran> {
        let mut command = self.command(arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        tokio::spawn(async move { Ran::of(&within("the command ends", child.wait_with_output()).await.unwrap()) })
    }

    /// The id of a mission, made by the command line.
    pub async fn mission(&self, length: &str) -> String {
        let made = self.run(&["--json", "timer", length, "--mission", "wake up"]).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        id(&made.json())
    }

    /// What all servers of this home have logged.
    pub fn log(&self) -> PathBuf {
        self.dir.path().join("server.log")
    }

    pub async fn serve(&self) -> Daemon {
        let log = OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.stderr(log);
        Daemon::start(command).await
    }

    /// The servers that bridges have started for this home. They belong to nobody, so they are looked for.
    pub fn daemons(&self) -> Vec<i32> {
        let home = self.dir.path().as_os_str().as_encoded_bytes();
        let lives_here = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.contains(&b"serve".as_slice())
                && line.windows(home.len()).any(|part| part == home)
                && !state.contains(") Z ")
        };
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(lives_here).collect()
    }

    pub fn kill_daemons(&self) {
        let daemons = self.daemons();
        for pid in &daemons {
            let _ = kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL);
        }
        // Dead is who holds no file any more: the next server would find the database in use. A dying process loses its
        // command line before its files, so it is followed by its number.
        while !daemons.iter().all(|pid| is_gone(*pid)) {
            std::thread::yield_now();
        }
    }
}

/// Its last thread has ended.
fn is_gone(pid: i32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    state.is_empty() || state.contains(") Z ") && threads <= 1
}

impl Daemon {
    /// Starts a server and waits until it says where it listens.
    pub async fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = within("the server says where it listens", lines.next_line()).await.unwrap();
        Self::found(child, lines, &line.expect("the server starts"))
    }

    /// One that has said this line.
    pub fn found(child: Child, stdout: Lines<BufReader<ChildStdout>>, line: &str) -> Self {
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect("an address").to_owned();
        Self { url, child, _stdout: stdout }
    }

    /// Memory in use, in bytes.
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Open descriptors.
    pub fn files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id().expect("it runs")).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    /// SIGKILL: nothing of the process runs any more when this returns.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// SIGTERM; the exit code.
    pub async fn terminate(self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.ended().await
    }

    pub async fn ended(mut self) -> Option<i32> {
        within("the server stops", self.child.wait()).await.unwrap().code()
    }

    /// Until this many calls stand by. The only thing about another process that has to be asked for again and again.
    pub async fn standing(&self, wanted: u64) {
        let http = client();
        within("calls standing by", async {
            loop {
                let stats = http.get(format!("{}/api/stats", self.url)).send().await.unwrap();
                let stats: serde_json::Value = stats.json().await.unwrap();
                if stats["standby"]["now"] == wanted {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}
