//! PostgreSQL clusters that live as long as a test: made in a directory of their own, on a free port, gone with the
//! process that made them. For tests and benchmarks; not shipped.
//!
//! The programs are those of the machine; where there are none, Debian's package is installed.

#![allow(clippy::unwrap_used, reason = "a cluster that does not start fails the test that needs it")]

mod programs;

use programs::Programs;
use std::{
    fs,
    io::Write,
    net::TcpListener,
    ops::Range,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A cluster that does not answer by then has failed.
const START_MAX: Duration = Duration::from_secs(60);
const PORTS: Range<u16> = 20_000..32_000;

/// How much a cluster cares for its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Nothing is synced: tests ask what is written, not how fast a disk is.
    None,
    /// As in production.
    Durable,
}

pub struct Cluster {
    programs: Programs,
    dir: TempDir,
    pub port: u16,
    /// The supervising shell; it ends PostgreSQL when it ends.
    running: Mutex<Option<Child>>,
    databases: AtomicUsize,
}

impl Cluster {
    /// The cluster of this process, for tests that each need a database only.
    pub fn shared() -> &'static Cluster {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| Cluster::start(Care::None, &[]))
    }

    /// A cluster of one's own; `settings` are lines of `postgresql.conf`.
    pub fn start(care: Care, settings: &[&str]) -> Cluster {
        let cluster = Self::new(care);
        cluster.run_as_owner(
            "initdb",
            &["-D", &cluster.data(), "-A", "trust", "-U", "reveille", "-N", "-E", "UTF8", "--locale=C.UTF-8"],
        );
        cluster.configure(care, settings);
        cluster.up();
        cluster
    }

    /// A standby that follows this cluster, to which `synchronous_standby_names = '*'` may refer.
    pub fn standby(&self, care: Care, settings: &[&str]) -> Cluster {
        let standby = Self::new(care);
        let port = self.port.to_string();
        let data = standby.data();
        standby.run_as_owner(
            "pg_basebackup",
            &["-h", "127.0.0.1", "-p", &port, "-U", "reveille", "-D", &data, "-R", "-X", "stream", "-c", "fast", "-N"],
        );
        standby.configure(care, settings);
        standby.up();
        standby
    }

    fn new(care: Care) -> Cluster {
        let programs = Programs::find();
        // In memory where there is such a thing, unless syncing is part of the question.
        let dir = match care {
            Care::None => tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap(),
            Care::Durable => tempfile::tempdir().unwrap(),
        };
        programs.give(dir.path());
        let port = free_port();
        Cluster { programs, dir, port, running: Mutex::new(None), databases: AtomicUsize::new(0) }
    }

    fn configure(&self, care: Care, settings: &[&str]) {
        let careless = ["fsync = off", "full_page_writes = off", "synchronous_commit = off"];
        let mut text = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = ''\nmax_connections = 300\n\
             shared_buffers = 64MB\ndynamic_shared_memory_type = mmap\nlog_min_messages = warning\n",
            self.port
        );
        let careless = careless.into_iter().filter(|_| care == Care::None);
        careless.chain(settings.iter().copied()).for_each(|line| text.push_str(&format!("{line}\n")));
        let path = Path::new(&self.data()).join("postgresql.conf");
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    pub fn data(&self) -> String {
        self.dir.path().join("data").to_str().unwrap().to_owned()
    }

    /// The directory of the programs, for `pgbench` and others.
    pub fn programs(&self) -> &Path {
        &self.programs.directory
    }

    /// Starts it (again) and waits until it answers.
    pub fn up(&self) {
        self.launch();
        let began = Instant::now();
        while !self.answers() {
            assert!(began.elapsed() < START_MAX, "PostgreSQL does not start:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
            // What it was killed with may hold its port or its memory for a moment longer.
            let ended = self.running.lock().unwrap().as_mut().is_none_or(|child| child.try_wait().unwrap().is_some());
            if ended {
                thread::sleep(Duration::from_millis(200));
                self.launch();
            }
        }
    }

    /// Starts it and does not wait.
    pub fn launch(&self) {
        let (data, log) = (self.data(), self.dir.path().join("log"));
        let postgres = self.programs.directory.join("postgres");
        // Told to end when this process has: then nobody else removes the directory.
        let script = format!(
            "trap 'kill -QUIT $pid; wait $pid; rm -rf \"{}\"; exit' TERM; \
             '{}' -D '{data}' >>'{}' 2>&1 & pid=$!; wait $pid",
            self.dir.path().display(),
            postgres.display(),
            log.display()
        );
        let mut command = self.programs.as_owner("sh", true);
        command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        *self.running.lock().unwrap() = Some(spawn_for_life(command));
    }

    fn answers(&self) -> bool {
        let ready = self.programs.directory.join("pg_isready");
        let port = self.port.to_string();
        let answer = Command::new(ready).args(["-q", "-h", "127.0.0.1", "-p", &port]).status();
        answer.unwrap().success()
    }

    /// Ends every process of it with SIGKILL, as a power cut would.
    pub fn kill(&self) {
        let pid_file = Path::new(&self.data()).join("postmaster.pid");
        if let Ok(text) = fs::read_to_string(&pid_file)
            && let Some(pid) = text.lines().next()
        {
            // Standing still it cannot start another one in between.
            let _ = Command::new("kill").args(["-STOP", pid]).status();
            let _ = Command::new("pkill").args(["-KILL", "-P", pid]).status();
            let _ = Command::new("kill").args(["-KILL", pid]).status();
        }
        self.reap();
    }

    /// A quick, orderly stop: connections are cut.
    pub fn stop(&self) {
        self.run_as_owner("pg_ctl", &["stop", "-D", &self.data(), "-m", "fast", "-w"]);
        self.reap();
    }

    pub fn restart(&self) {
        self.stop();
        self.up();
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        self.run_as_owner("pg_ctl", &["promote", "-D", &self.data(), "-w"]);
    }

    fn reap(&self) {
        if let Some(mut child) = self.running.lock().unwrap().take() {
            child.wait().unwrap();
        }
    }

    /// The URL of a new, empty database.
    pub fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgres://reveille@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs SQL and answers what it printed, unaligned.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let psql = self.programs.directory.join("psql");
        let port = self.port.to_string();
        let output = Command::new(psql)
            .args(["-h", "127.0.0.1", "-p", &port, "-U", "reveille", "-d", database, "-v", "ON_ERROR_STOP=1"])
            .args(["-qAtc", sql])
            .output()
            .unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Runs a program of PostgreSQL's as the cluster's owner.
    pub fn run_as_owner(&self, program: &str, arguments: &[&str]) -> Output {
        let program = self.programs.directory.join(program);
        let output = self.programs.as_owner(program.to_str().unwrap(), false).args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}\n{}", program.display(), self.log());
        output
    }

    /// A file beside the data that only the cluster can read, such as a key.
    pub fn file(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        self.programs.give(&path);
        path
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Below those that the system gives to connections: one of these may not take it while the cluster is down.
fn free_port() -> u16 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let first = std::process::id() as usize * 31;
    let tries = (0..PORTS.len()).map(|_| first + NEXT.fetch_add(1, Ordering::Relaxed));
    let mut ports = tries.map(|number| PORTS.start + (number % PORTS.len()) as u16);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port is free")
}

/// Starts a child that is ended when this process dies. The kernel ties that to the thread that starts it, so a thread
/// that never ends does.
fn spawn_for_life(command: Command) -> Child {
    type Wish = (Command, mpsc::Sender<Child>);
    static STARTER: OnceLock<Mutex<mpsc::Sender<Wish>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (sender, wishes) = mpsc::channel::<Wish>();
        thread::spawn(move || {
            for (mut command, answer) in wishes {
                let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
                let _ = answer.send(child);
            }
        });
        Mutex::new(sender)
    });
    let (answer, started) = mpsc::channel();
    starter.lock().unwrap().send((command, answer)).unwrap();
    started.recv().expect("PostgreSQL can be started")
}
