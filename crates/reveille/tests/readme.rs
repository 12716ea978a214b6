//! The README keeps its word: every command in it is run in a clean home against a real server, every snippet is what the
//! program itself would write, every figure stands in the benchmarks, and every link leads somewhere.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use reveille::config::Config;
use scripted_upstream::Upstream;
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};
use support::process::{BINARY, Daemon, Home, Ran};

/// The longest block is the demo.
const BLOCK: Duration = Duration::from_secs(180);
/// As written, and as it is run, so that nobody waits: each stands for itself only as a whole word.
const SHORTER: [(&str, &str); 4] = [("5m", "300ms"), ("1m", "100ms"), ("30m", "400ms"), ("10m", "500ms")];
/// The id that stands for any.
const EXAMPLE_ID: &str = "timer_nq072rt887";
/// What `cargo` may be asked for here; it is not run, since it would build everything once more.
const CARGO: [&str; 3] = ["run --release", "test --workspace", "install --path crates/reveille --locked"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// The fenced blocks, with their language.
fn blocks() -> Vec<(String, String)> {
    let (mut found, mut open): (Vec<(String, String)>, bool) = (Vec::new(), false);
    for line in readme().lines() {
        match line.strip_prefix("```") {
            Some(language) if !open => {
                found.push((language.to_owned(), String::new()));
                open = true;
            }
            Some(_) => open = false,
            None if open => {
                let (_, text) = found.last_mut().unwrap();
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
    }
    found
}

fn of_language(language: &str) -> Vec<String> {
    blocks().into_iter().filter(|(known, _)| known == language).map(|(_, text)| text).collect()
}

/// A home with `reveille` and a `cargo` that only writes down what it is asked.
struct Reader {
    home: Home,
    daemon: Daemon,
    _upstream: scripted_upstream::Listening,
}

impl Reader {
    async fn sits_down() -> Self {
        let home = Home::default();
        let upstream = Upstream::new(&["gpt-5"]).listen("127.0.0.1:0").await.unwrap();
        home.write_config(&format!(
            "[[gateway.upstream]]\nname = \"scripted\"\nbase_url = \"{}\"\nprotocols = [\"chat\", \"messages\"]\n",
            upstream.url()
        ));
        let programs = home.dir.path().join("bin");
        fs::create_dir(&programs).unwrap();
        symlink(BINARY, programs.join("reveille")).unwrap();
        fs::write(programs.join("cargo"), "#!/bin/sh\necho \"$@\" >> \"$HOME/cargo.log\"\n").unwrap();
        fs::set_permissions(programs.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        let daemon = home.serve().await;
        Self { home, daemon, _upstream: upstream }
    }

    async fn runs(&self, block: &str) -> Ran {
        let mission = self.home.mission("1h").await;
        let host = self.daemon.url.trim_start_matches("http://").to_owned();
        let text = shorter(block).replace("127.0.0.1:7383", &host).replace(EXAMPLE_ID, &mission);
        let mut shell = self.home.wrap("sh");
        let path = std::env::var("PATH").unwrap_or_default();
        shell.args(["-euc", &text]).current_dir(root());
        shell.env("PATH", format!("{}:{path}", self.home.dir.path().join("bin").display()));
        // How packages are reached from here is the machine's business; the SDKs are those that the other tests know.
        let reaches = |name: &str| name.starts_with("PIP_") || name.to_lowercase().ends_with("_proxy");
        shell.envs(std::env::vars().filter(|(name, _)| reaches(name)));
        shell.env("PIP_CONSTRAINT", root().join("crates/reveille/tests/sdk/requirements.txt"));
        shell.env("OPENAI_API_KEY", "sk").env("ANTHROPIC_API_KEY", "sk");
        shell.stderr(std::process::Stdio::piped());
        let output = tokio::time::timeout(BLOCK, shell.output()).await.unwrap_or_else(|_| panic!("it hangs:\n{block}"));
        Ran::of(&output.unwrap())
    }
}

/// The same with times that pass at once.
fn shorter(block: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let mut text = String::new();
    for part in block.split_inclusive(|c: char| !is_word(c)) {
        let word = part.trim_end_matches(|c: char| !is_word(c));
        let short = SHORTER.iter().find(|(long, _)| *long == word).map_or(word, |(_, short)| short);
        text.push_str(short);
        text.push_str(&part[word.len()..]);
    }
    text
}

#[tokio::test]
async fn every_command_runs() {
    let reader = Reader::sits_down().await;
    let blocks = of_language("sh");
    assert!(blocks.len() > 5, "the README has commands");
    let mut said = String::new();
    for block in &blocks {
        let ran = reader.runs(block).await;
        assert_eq!(ran.code, Some(0), "{block}\n{ran:?}");
        said.push_str(&ran.out);
    }
    // What they are there for has happened.
    for words in [
        "Seen: 5 of 5 scenes",
        "\"outcome\":\"timeout\"",
        "\"outcome\":\"scheduled\"",
        "stopped",
        "hooks written",
        "auto_handoff",
    ] {
        assert!(said.contains(words), "{words} in:\n{said}");
    }
    let asked = fs::read_to_string(reader.home.dir.path().join("cargo.log")).unwrap();
    assert_eq!(asked.lines().collect::<Vec<_>>(), CARGO);
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(workspace.contains("default-members = [\"crates/reveille\"]"), "`cargo run` runs the server");
    assert_eq!(blocks[0].lines().count(), 2, "the first command does the main job, the second runs all tests");
}

#[tokio::test]
async fn every_snippet_is_what_it_says() {
    for text in of_language("toml") {
        let config: Config = toml::from_str(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        config.check().unwrap_or_else(|error| panic!("{text}\n{error}"));
    }
    let home = Home::default();
    let shown = home.run(&["setup", "cursor"]).await;
    let (from, to) = (shown.out.find('{').unwrap(), shown.out.rfind('}').unwrap());
    let mut written: Value = serde_json::from_str(&shown.out[from..=to]).unwrap();
    // Found by the path on a reader's machine.
    written["mcpServers"]["reveille"]["command"] = "reveille".into();
    let snippets = of_language("json");
    assert_eq!(snippets.len(), 1);
    assert_eq!(serde_json::from_str::<Value>(&snippets[0]).unwrap(), written);
    // Nothing stands there that nobody looks at. Without a language it is what a command prints.
    for (language, text) in blocks() {
        assert!(["sh", "toml", "json", ""].contains(&language.as_str()), "nobody tests:\n{text}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let text = readme();
    let links = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    for link in links.filter(|link| !link.starts_with("https://")) {
        let path = link.split('#').next().unwrap();
        assert!(root().join(path).exists(), "{link} leads nowhere");
    }
}

/// A figure's section of the benchmarks, its row and its column there, and which it is of several in that cell.
type Place = (&'static str, &'static str, &'static str, usize);

/// Where the figures of each row are from, in their order.
const SOURCES: [(&str, &[Place]); 5] = [
    (
        "lateness of 10,000 timers",
        &[
            ("Lateness", "reveille to the durable firing", "p50 ms", 0),
            ("Lateness", "reveille to the durable firing", "p99 ms", 0),
            ("Lateness", "memory", "p50 ms", 0),
            ("Lateness", "memory", "p99 ms", 0),
        ],
    ),
    (
        "resident memory and CPU",
        &[("At rest", "1000000", "resident MiB", 0), ("At rest", "1000000", "CPU ms in 10 s", 0)],
    ),
    ("first overdue firing", &[("Restart after kill -9", "1000000", "first overdue firing after ms", 1)]),
    (
        "durable creates over HTTP",
        &[
            ("Durable creates through HTTP", "reveille, empty", "creates/s", 0),
            ("Durable creates through HTTP", "reveille, empty", "× floor", 0),
        ],
    ),
    (
        "added by the gateway",
        &[
            ("Beside others", "reveille", "added µs", 0),
            ("Beside others", "LiteLLM", "added µs", 0),
            ("Beside others", "Portkey", "added µs", 0),
        ],
    ),
];

fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

fn figures(cell: &str) -> Vec<&str> {
    let parts = cell.split(|c: char| !c.is_ascii_digit() && c != '.').map(|part| part.trim_end_matches('.'));
    parts.filter(|part| part.starts_with(|c: char| c.is_ascii_digit())).collect()
}

/// One cell: of the first table of a section that has this column, the first row that begins so.
fn cell<'a>(text: &'a str, section: &str, row: &str, column: &str) -> &'a str {
    let mut sections = text.split("\n## ").flat_map(|part| part.split("\n### "));
    let found = sections.find(|part| part.starts_with(section)).unwrap_or_else(|| panic!("no section {section}"));
    let mut place = None;
    for line in found.lines().filter(|line| line.starts_with('|')) {
        let line = cells(line);
        match place {
            None => place = line.iter().position(|name| *name == column),
            Some(place) if line[0].starts_with(row) => return line[place],
            Some(_) => {}
        }
    }
    panic!("no {column} of {row} in {section}")
}

#[test]
fn every_figure_is_in_the_benchmarks() {
    let (text, benchmarks) = (readme(), fs::read_to_string(root().join("docs/benchmarks.md")).unwrap());
    let section = text.split("## Figures").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> = section.lines().filter(|line| line.starts_with("| ")).map(cells).skip(1).collect();
    assert_eq!(rows.len(), SOURCES.len(), "each row has a source, and each source a row");
    for (row, (begins, sources)) in rows.iter().zip(SOURCES) {
        assert!(row[0].starts_with(begins), "{} is not {begins}", row[0]);
        let measured: Vec<&str> =
            sources.iter().map(|(part, of, column, at)| figures(cell(&benchmarks, part, of, column))[*at]).collect();
        assert_eq!(figures(row[1]), measured, "{}", row[0]);
    }
}

/// A promise without its test is not made: each row of the table names files or directories that are there.
#[test]
fn every_promise_of_reliability_names_a_test_that_exists() {
    let text = fs::read_to_string(root().join("docs/reliability.md")).unwrap();
    let promises = text.split("## Promises").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = promises.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 15, "{rows:?}");
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let named: Vec<&str> =
            tests.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs") || name.ends_with('/')).collect();
        let elsewhere = tests.contains("just soak");
        assert!(elsewhere || !named.is_empty(), "no test is named: {row}");
        for name in named {
            // `*` stands for many: their directory has to be there.
            let name = name.split_once('*').map_or(name, |(before, _)| before.rsplit_once('/').unwrap().0);
            let places = [format!("crates/{name}"), format!("crates/reveille/tests/{name}"), name.to_owned()];
            assert!(places.iter().any(|place| root().join(place).exists()), "{name} is not there: {row}");
        }
    }
}
