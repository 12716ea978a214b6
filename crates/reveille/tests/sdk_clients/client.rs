//! A client process of one SDK. It is sent commands as lines of JSON and sends back, as such lines, what it saw.

use super::{LOOK_AGAIN, sdk::Sdk};
use crate::support::{list, process::Home, text};
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, File},
    future::Future,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
};

/// Turns a hang into a failure. Interpreters start slowly on a machine that is busy.
const HANG: Duration = Duration::from_secs(60);

pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(HANG, future).await {
        Ok(done) => done,
        Err(_) => panic!("nothing happened within {} seconds: {what}", HANG.as_secs()),
    }
}

/// An agent: its client, what it was told, and what a model would remember.
pub struct Agent {
    /// The revision that client and server agreed on.
    pub version: String,
    /// Where its timers are, as the results tell.
    pub session: Option<String>,
    /// To be passed in every call, because a result said so.
    passes_session: bool,
    /// Every message that came with any result.
    pub messages: Vec<Value>,
    pub called: BTreeSet<String>,
    process: Process,
    ids: u64,
}

/// A call under way.
pub struct Call {
    id: u64,
    name: String,
    lines: UnboundedReceiver<Value>,
}

struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    calls: Arc<Mutex<HashMap<u64, UnboundedSender<Value>>>>,
    transcript: Arc<Mutex<Vec<String>>>,
    errors: PathBuf,
}

impl Agent {
    pub async fn start(sdk: Sdk, home: &Home, way: &[String]) -> Self {
        let program = tokio::task::spawn_blocking(move || sdk.installed()).await.unwrap();
        let errors = home.dir.path().join("client.log");
        let mut command = home.wrap(program[0].to_str().unwrap());
        command.args(&program[1..]).args(way);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&errors).unwrap());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{program:?}: {error}"));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (stdin, calls, transcript) = (child.stdin.take(), Arc::default(), Arc::default());
        let mut process = Process { child, stdin, calls, transcript, errors };
        let version = within("the client connects", process.listen(lines)).await;
        Self {
            version,
            session: None,
            passes_session: false,
            messages: Vec::new(),
            called: BTreeSet::new(),
            process,
            ids: 0,
        }
    }

    pub async fn tools(&mut self) -> Vec<String> {
        let mut listed = self.send("tools", json!({})).await;
        list(&listed.end().await["result"]).iter().map(text).collect()
    }

    /// Calls a tool and does not wait.
    pub async fn begin(&mut self, tool: &str, mut arguments: Value) -> Call {
        if self.passes_session {
            arguments["session"] = json!(self.session);
        }
        self.called.insert(tool.to_owned());
        self.send("call", json!({"tool": tool, "arguments": arguments})).await
    }

    /// What a call that is carried out comes back with: its fields and its words.
    pub async fn done(&mut self, call: Call) -> (Value, String) {
        let (error, structured, text) = self.result(call).await;
        assert!(!error, "refused: {structured}");
        (structured, text)
    }

    pub async fn call(&mut self, tool: &str, arguments: Value) -> (Value, String) {
        let call = self.begin(tool, arguments).await;
        self.done(call).await
    }

    pub async fn refused(&mut self, tool: &str, arguments: Value) -> (Value, String) {
        let call = self.begin(tool, arguments).await;
        let (error, structured, text) = self.result(call).await;
        assert!(error, "not refused: {structured}");
        (structured, text)
    }

    /// Gives a call up.
    pub async fn cancel(&mut self, mut call: Call) {
        self.process.write(json!({"do": "cancel", "id": call.id})).await;
        assert_eq!(call.end().await["failed"], "cancelled");
    }

    /// Calls until a result brings the message about this timer along.
    pub async fn hears_of(&mut self, timer: &str) {
        within("a message comes along", async {
            while self.heard(timer).is_empty() {
                self.call("read_timer", json!({"timer_id": timer})).await;
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        })
        .await;
    }

    /// All it was ever told about this timer.
    pub fn heard(&self, timer: &str) -> Vec<String> {
        let about = self.messages.iter().filter(|message| message["timer_id"] == timer);
        about.map(|message| text(&message["text"])).collect()
    }

    /// The timer with this reason, once it is as wanted.
    pub async fn listed(&mut self, reason: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        within("the timer is as wanted", async {
            loop {
                let (all, _) = self.call("read_timer", json!({})).await;
                let found = list(&all["timers"]).into_iter().find(|timer| timer["reason"] == reason);
                if let Some(timer) = found.filter(&wanted) {
                    return timer;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        })
        .await
    }

    /// The user closes the client.
    pub async fn end(mut self) {
        self.process.stdin = None;
        let ended = within("the client ends", self.process.child.wait()).await.unwrap();
        assert!(ended.success(), "{ended}");
    }

    async fn send(&mut self, what: &str, mut command: Value) -> Call {
        self.ids += 1;
        let (sender, lines) = mpsc::unbounded_channel();
        self.process.calls.lock().unwrap().insert(self.ids, sender);
        (command["do"], command["id"]) = (json!(what), json!(self.ids));
        let name = command.to_string();
        self.process.write(command).await;
        Call { id: self.ids, name, lines }
    }

    async fn result(&mut self, mut call: Call) -> (bool, Value, String) {
        let line = call.end().await;
        let result = line.get("result").unwrap_or_else(|| panic!("{}: {line}", call.name));
        let (structured, words) = (result["structured"].clone(), text(&result["text"]));
        for message in structured["messages"].as_array().into_iter().flatten() {
            assert!(words.contains(&text(&message["text"])), "in words too: {words}");
            self.messages.push(message.clone());
        }
        if let Some(session) = structured["session"].as_str() {
            self.session = Some(session.to_owned());
            self.passes_session |= words.contains(&format!("Pass session '{session}'"));
        }
        (result["error"] == true, structured, words)
    }
}

impl Call {
    pub async fn progress(&mut self) -> Value {
        let line = self.next().await;
        assert!(line.get("progress").is_some(), "no progress before the end of {}: {line}", self.name);
        line["progress"].clone()
    }

    async fn end(&mut self) -> Value {
        loop {
            let line = self.next().await;
            if line.get("progress").is_none() {
                return line;
            }
        }
    }

    async fn next(&mut self) -> Value {
        let line = within(&self.name, self.lines.recv()).await;
        line.unwrap_or_else(|| panic!("the client ended during {}", self.name))
    }
}

impl Process {
    /// Hands on what the client says, for as long as it lives. Returns the revision it speaks.
    async fn listen(&mut self, mut lines: Lines<BufReader<ChildStdout>>) -> String {
        let first = lines.next_line().await.unwrap().expect("the client connects");
        let first: Value = serde_json::from_str(&first).unwrap_or_else(|error| panic!("{error}: {first}"));
        let (calls, transcript) = (self.calls.clone(), self.transcript.clone());
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                transcript.lock().unwrap().push(line.clone());
                let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
                let call = line["id"].as_u64().and_then(|id| calls.lock().unwrap().get(&id).cloned());
                if let Some(call) = call {
                    let _ = call.send(line);
                }
            }
            calls.lock().unwrap().clear();
        });
        text(&first["ready"])
    }

    async fn write(&mut self, command: Value) {
        let line = format!("{command}\n");
        self.transcript.lock().unwrap().push(format!("> {command}"));
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).await.expect("the client lives");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let errors = fs::read_to_string(&self.errors).unwrap_or_default();
            eprintln!("the client's stdin and stdout:\n{}", self.transcript.lock().unwrap().join("\n"));
            eprintln!("its stderr:\n{errors}");
        }
    }
}
