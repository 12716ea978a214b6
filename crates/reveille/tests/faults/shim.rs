//! `shim.c`, built once and put before the server.

use crate::support::process::{BINARY, Daemon, Home};
use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::Duration,
};
use tokio::io::{AsyncBufReadExt, BufReader};

fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("shim-{}.so", std::process::id()));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-o"]).arg(&library).arg(source).arg("-ldl");
        let output = compiler.output().unwrap_or_else(|error| panic!("{error}; this test needs a C compiler, `cc`"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        library
    })
}

/// What the server's system does, see `shim.c`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub first: i64,
    pub count: i64,
    pub errno: i64,
    pub clock: i64,
}

pub struct Shim {
    file: PathBuf,
}

impl Shim {
    pub fn new(home: &Home, faults: Faults) -> Self {
        let shim = Self { file: home.dir.path().join("shim") };
        fs::write(&shim.file, [0; 64]).unwrap();
        shim.set(faults);
        shim
    }

    pub fn set(&self, faults: Faults) {
        let file = fs::OpenOptions::new().write(true).open(&self.file).unwrap();
        for (place, value) in [(1, faults.first), (2, faults.count), (3, faults.errno), (4, faults.clock)] {
            file.write_all_at(&value.to_ne_bytes(), place * 8).unwrap();
        }
    }

    /// Operations so far.
    pub fn operations(&self) -> i64 {
        let mut bytes = [0; 8];
        fs::File::open(&self.file).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        i64::from_ne_bytes(bytes)
    }

    /// A server under it, or how it ended before it listened.
    pub async fn serve(&self, home: &Home) -> Result<Daemon, Option<i32>> {
        let log = fs::OpenOptions::new().create(true).append(true).open(home.log()).unwrap();
        let mut command = home.wrap(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0"]).stderr(log).stdout(Stdio::piped());
        command.env("LD_PRELOAD", library()).env("SHIM_STATE", &self.file);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await.expect("it starts or ends");
        match said.unwrap() {
            Some(line) => Ok(Daemon::found(child, lines, &line)),
            None => Err(child.wait().await.unwrap().code()),
        }
    }
}
