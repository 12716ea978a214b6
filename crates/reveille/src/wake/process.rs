//! One wake command as a process: in a group of its own, with a bounded memory of what it says, killed whole when its
//! time is over.

use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    ffi::OsStr,
    future::Future,
    io::{self, PipeReader, PipeWriter},
    path::Path,
    process::Stdio,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    process::{Child, Command},
    task::JoinHandle,
};

/// Of what the command says on each of its outputs, the end is kept; that is where errors are.
const OUTPUT_BYTES_MAX: usize = 8 * 1024;
/// Asked to end, a command has this long before it is killed.
const TERMINATE: Duration = Duration::from_secs(2);
/// What is still in the pipes when the command has ended. Something it left running may hold them open for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Set by agents for the programs they start. Whoever started the server may have been one; the woken agent must not
/// take itself for its child.
const FOREIGN: [&str; 3] = ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID"];

pub struct Order<'a> {
    pub program: &'a str,
    pub arguments: Vec<String>,
    pub cwd: Option<&'a Path>,
    pub env: Vec<(String, String)>,
    pub stdin: String,
    /// Its arguments tell it something, too: it begins only when it is told its input.
    pub gated: bool,
}

/// Becomes the command when it reads a line, and ends without one: whoever started it is gone.
const GATE: [&str; 4] = ["/bin/sh", "-c", "read -r go && exec \"$@\"", "sh"];
const OPEN: &str = "go\n";

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// `None`: it could not be started, or was killed.
    pub code: Option<i32>,
    pub killed: bool,
    /// It has read all of its input.
    pub read: bool,
    /// What it said, on both outputs.
    pub output: String,
}

impl Ended {
    /// It was never begun.
    pub fn failed(output: String) -> Self {
        Self { code: None, killed: false, read: false, output }
    }
}

/// Runs the command to its end, or until `time_over` resolves.
pub async fn run(order: Order<'_>, time_over: impl Future<Output = ()>) -> Ended {
    match Running::start(order) {
        Ok(running) => running.end(time_over).await,
        Err(ended) => ended,
    }
}

/// A command that has been started and told nothing yet. Dropped, it is killed.
pub struct Running {
    child: Child,
    group: Group,
    reader: PipeReader,
    writer: PipeWriter,
    text: String,
}

impl Running {
    pub fn start(order: Order<'_>) -> Result<Self, Ended> {
        let failed = |error| Ended::failed(format!("{} could not be started: {error}", order.program));
        let (child, reader, writer) = spawn(&order).map_err(failed)?;
        let text = if order.gated { format!("{OPEN}{}", order.stdin) } else { order.stdin };
        Ok(Self { group: Group::of(&child), child, reader, writer, text })
    }

    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Tells it its message, and waits for its end, or until `time_over` resolves.
    pub async fn end(self, time_over: impl Future<Output = ()>) -> Ended {
        let Self { mut child, mut group, reader, writer, text } = self;
        let input = match Input::feed(reader, writer, text) {
            Ok(input) => input,
            Err(error) => return Ended::failed(format!("it could not be told anything: {error}")),
        };
        let said = [tail(child.stdout.take()), tail(child.stderr.take())];
        let status = tokio::select! {
            status = child.wait() => Some(status),
            () = time_over => None,
        };
        let read = input.is_read();
        input.feeding.abort();
        let killed = status.is_none();
        let status = match status {
            Some(status) => status,
            None => group.end(&mut child).await,
        };
        group.0 = None; // what it left running is its own business
        let mut output = String::new();
        for said in said {
            output.push_str(&words(said).await);
        }
        Ended { code: status.ok().and_then(|status| status.code()).filter(|_| !killed), killed, read, output }
    }
}

fn spawn(order: &Order<'_>) -> io::Result<(Child, PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(OsStr::new(if order.gated { GATE[0] } else { order.program }));
    if order.gated {
        command.args(&GATE[1..]).arg(order.program);
    }
    command
        .args(&order.arguments)
        .stdin(reader.try_clone()?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    FOREIGN.iter().for_each(|name| {
        command.env_remove(name);
    });
    command.envs(order.env.iter().map(|(name, value)| (name, value)));
    if let Some(cwd) = order.cwd {
        command.current_dir(cwd);
    }
    Ok((command.spawn()?, reader, writer))
}

/// What the command is told, on its way.
struct Input {
    feeding: JoinHandle<()>,
    /// The command's own end of the pipe, to see what is left in it.
    reader: PipeReader,
}

impl Input {
    /// A command that does not read its input must not hold anything up.
    fn feed(reader: PipeReader, writer: PipeWriter, text: String) -> io::Result<Self> {
        let mut writer = pipe::Sender::from_owned_fd(writer.into())?;
        let feeding = tokio::spawn(async move {
            let _ = writer.write_all(text.as_bytes()).await;
        });
        Ok(Self { feeding, reader })
    }

    fn is_read(&self) -> bool {
        self.feeding.is_finished() && rustix::io::ioctl_fionread(&self.reader) == Ok(0)
    }
}

/// The process group of a command. Dropped while it runs, it is killed whole.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Asks, then kills, whatever of the group is left.
    async fn end(&self, child: &mut Child) -> io::Result<std::process::ExitStatus> {
        self.signal(Signal::TERM);
        let asked = tokio::time::timeout(TERMINATE, child.wait()).await;
        self.signal(Signal::KILL);
        match asked {
            Ok(status) => status,
            Err(_) => child.wait().await,
        }
    }
}

struct Tail {
    reading: JoinHandle<()>,
    kept: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
}

/// Reads to the end and keeps the last of it.
fn tail(from: Option<impl AsyncRead + Unpin + Send + 'static>) -> Tail {
    let kept = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let keep = kept.clone();
    let reading = tokio::spawn(async move {
        let Some(mut from) = from else { return };
        let mut buffer = vec![0; 4096];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            let mut kept = keep.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            kept.extend_from_slice(&buffer[..read]);
            let excess = kept.len().saturating_sub(OUTPUT_BYTES_MAX);
            kept.drain(..excess);
        }
    });
    Tail { reading, kept }
}

async fn words(mut tail: Tail) -> String {
    if tokio::time::timeout(LAST_WORDS, &mut tail.reading).await.is_err() {
        tail.reading.abort();
    }
    let kept = tail.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Order<'static> {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        let env = vec![("WORD".to_owned(), "value".to_owned())];
        Order { program: "/bin/sh", arguments, cwd: Some(Path::new("/")), env, stdin: "a message".into(), gated: false }
    }

    #[tokio::test]
    async fn a_command_is_given_the_message_and_its_words_are_kept() {
        let script = "cat; printf ' %s %s' $WORD \"$PWD\"; echo oops >&2; exit 3";
        let ended = run(shell(script), std::future::pending()).await;
        assert_eq!((ended.code, ended.killed, ended.output.as_str()), (Some(3), false, "a message value /oops\n"));
    }

    #[tokio::test]
    async fn a_command_whose_arguments_tell_something_begins_when_it_is_told() {
        let gated = |script: &str| Order { gated: true, ..shell(script) };
        let ended = run(gated("cat; echo \" $0\""), std::future::pending()).await;
        assert_eq!((ended.code, ended.output.as_str(), ended.read), (Some(0), "a message /bin/sh\n", true));
        // Whoever started it dies before.
        let directory = tempfile::tempdir().expect("a directory");
        let told = directory.path().join("told");
        let mut running = Running::start(gated(&format!("touch {}", told.display()))).expect("it starts");
        drop(running.writer);
        assert!(!running.child.wait().await.expect("it ends").success());
        assert!(!told.exists());
        running.group.0 = None;
    }

    #[tokio::test]
    async fn whether_it_has_read_its_input_is_known() {
        for (script, read) in
            [("cat > /dev/null", true), ("head -c 3 > /dev/null", false), ("exec <&-; sleep 0.05", false)]
        {
            assert_eq!(run(shell(script), std::future::pending()).await.read, read, "{script}");
        }
    }

    #[tokio::test]
    async fn only_the_end_of_much_output_is_kept() {
        let ended = run(shell("head -c 1000000 /dev/zero | tr '\\0' x; echo end"), std::future::pending()).await;
        assert_eq!((ended.code, ended.output.len()), (Some(0), OUTPUT_BYTES_MAX));
        assert!(ended.output.ends_with("xend\n"));
    }

    #[tokio::test]
    async fn a_command_that_cannot_be_started_is_a_failure() {
        let ended = run(Order { program: "/no/such/program", ..shell("") }, std::future::pending()).await;
        assert!(ended.code.is_none() && ended.output.contains("/no/such/program"), "{ended:?}");
    }

    #[tokio::test]
    async fn something_left_running_holds_nothing_up() {
        let ended = run(shell("sleep 60 & echo $!"), std::future::pending()).await;
        assert_eq!(ended.code, Some(0));
        let left: i32 = ended.output.trim().parse().expect("a process id");
        let _ = rustix::process::kill_process(Pid::from_raw(left).expect("not zero"), Signal::KILL);
    }

    #[tokio::test]
    async fn the_whole_group_is_killed_when_the_time_is_over() {
        // The grandchild ignores the request to end, and would say so later.
        let directory = tempfile::tempdir().expect("a directory");
        let script = format!(
            "(trap '' TERM; touch {0}/up; sleep 60; sleep 60) & while [ ! -e {0}/up ]; do :; done; echo $!; wait",
            directory.path().display()
        );
        let up = directory.path().join("up");
        let over = async move {
            while !up.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let ended = run(shell(&script), over).await;
        assert!(ended.killed && ended.code.is_none(), "{ended:?}");
        let grandchild: i32 = ended.output.trim().parse().expect("a process id");
        let state = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z"), "still there: {state}");
    }
}
