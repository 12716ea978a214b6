//! Servers as processes of their own, as users run them.

use anyhow::Context;
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

pub struct Server {
    child: Child,
    pub address: String,
    pub began: std::time::Instant,
    /// Microseconds since 1970.
    pub began_at: i64,
}

impl Server {
    /// The real binary on this directory.
    pub fn reveille(dir: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(beside("reveille")?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir).env("REVEILLE_LOG", "warn");
        Self::start(command)
    }

    /// The real binary as a node on this PostgreSQL.
    pub fn node(dir: &Path, database_url: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(beside("reveille")?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--database-url", database_url, "--data-dir"]).arg(dir);
        command.env("REVEILLE_LOG", "warn");
        Self::start(command)
    }

    /// The real binary as a gateway to this upstream.
    pub fn gateway(dir: &Path, upstream: &str) -> anyhow::Result<Self> {
        Self::gateway_with(dir, upstream, "")
    }

    /// The same with these settings of the gateway.
    pub fn gateway_with(dir: &Path, upstream: &str, settings: &str) -> anyhow::Result<Self> {
        let file = dir.join("reveille.toml");
        let protocols = "protocols = [\"chat\", \"responses\", \"messages\"]";
        let entry = format!(
            "[gateway]\n{settings}[[gateway.upstream]]\nname = \"canned\"\nbase_url = \"http://{upstream}\"\n{protocols}\n"
        );
        std::fs::write(&file, entry)?;
        let mut command = Command::new(beside("reveille")?);
        command.arg("--config").arg(&file).args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir);
        Self::start({
            command.env("REVEILLE_LOG", "warn");
            command
        })
    }

    /// The real binary with this configuration; what it has to complain of goes into the log.
    pub fn configured(config: &Path, dir: &Path, log: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(beside("reveille")?);
        command.arg("--config").arg(config).args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir);
        command.env("REVEILLE_LOG", "warn").stderr(std::fs::File::create(log)?);
        Self::start(command)
    }

    /// A part of this program.
    pub fn part(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments);
        Self::start(command)
    }

    pub fn baseline(kind: &str, dir: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", kind]).arg(dir);
        Self::start(command)
    }

    fn start(mut command: Command) -> anyhow::Result<Self> {
        let (began, began_at) = (std::time::Instant::now(), crate::seed::micros());
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.split_once("http://").context("the server did not start")?.1;
        let address = address.split_whitespace().next().context("no address")?.to_owned();
        Ok(Self { child, address, began, began_at })
    }

    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Resident memory in KiB.
    pub fn resident_kib(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
        Ok(line.split_whitespace().nth(1).context("no figure")?.parse()?)
    }

    /// Open descriptors.
    pub fn files(&self) -> anyhow::Result<u64> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count() as u64)
    }

    /// Processor time spent so far, in milliseconds.
    pub fn cpu_ms(&self) -> anyhow::Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit_once(')').context("no fields")?.1.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        const TICK_MS: u64 = 10;
        Ok(ticks * TICK_MS)
    }
}

impl Server {
    /// Finer than the ticks of `cpu_ms`.
    pub fn cpu_us(&self) -> anyhow::Result<f64> {
        cpu_us(self.child.id())
    }
}

/// Processor time of all threads of a process so far, in microseconds.
pub fn cpu_us(pid: u32) -> anyhow::Result<f64> {
    let mut nanoseconds = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        nanoseconds += text.split_whitespace().next().context("no figure")?.parse::<u64>()?;
    }
    Ok(nanoseconds as f64 / 1000.0)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// A program that was built with this one.
pub fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    anyhow::ensure!(path.exists(), "{} is missing; run `cargo build --release` first", path.display());
    Ok(path)
}
