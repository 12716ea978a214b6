//! `reveille setup`: what it shows, and what it does to files that are somebody's own.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, path::PathBuf};
use support::process::{BINARY, Home, exists};

fn read(path: &PathBuf) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The files of one client at home.
fn files(home: &Home, client: &str) -> Vec<PathBuf> {
    let below = |paths: &[&str]| paths.iter().map(|path| home.dir.path().join(path)).collect();
    match client {
        "claude-code" => below(&[".claude.json", ".claude/settings.json"]),
        "codex" => below(&[".codex/config.toml", ".codex/hooks.json"]),
        "opencode" => below(&["config/opencode/opencode.json"]),
        "gemini" => below(&[".gemini/settings.json"]),
        "cursor" => below(&[".cursor/mcp.json"]),
        "cline" => below(&[".cline/data/settings/cline_mcp_settings.json"]),
        _ => unreachable!(),
    }
}

const WAKEABLE: [&str; 3] = ["claude-code", "codex", "gemini"];
const CLIENTS: [&str; 6] = ["claude-code", "codex", "opencode", "gemini", "cursor", "cline"];

#[tokio::test]
async fn without_write_nothing_is_touched() {
    let home = Home::default();
    for client in CLIENTS {
        let shown = home.run(&["setup", client]).await;
        assert_eq!(shown.code, Some(0), "{shown:?}");
        for path in files(&home, client) {
            assert!(shown.out.contains(path.to_str().unwrap()), "{client}: {}", shown.out);
            assert!(!exists(&path));
        }
        // Where a wake command could not find the conversation there is none, but a word about it.
        assert_eq!(shown.out.contains(&format!("[wake.{client}]")), WAKEABLE.contains(&client), "{}", shown.out);
        assert_eq!(shown.out.contains("messages wait for its next tool call"), !WAKEABLE.contains(&client));
        assert!(shown.out.contains("mcp") && shown.out.contains("--write"));
    }
    assert!(!exists(&home.config()));
}

#[tokio::test]
async fn written_once_is_written_for_good() {
    let home = Home::default();
    for client in CLIENTS {
        let written = home.run(&["setup", client, "--write"]).await;
        assert_eq!(written.code, Some(0), "{written:?}");
        let before: Vec<String> = files(&home, client).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        let again = home.run(&["setup", client, "--write"]).await;
        assert_eq!(again.code, Some(0), "{again:?}");
        assert!(again.out.contains("is there already") && !again.out.contains(" written"), "{}", again.out);
        let after: Vec<String> = files(&home, client).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(before, after, "{client}");
        for path in files(&home, client) {
            assert!(!exists(&path.with_extension("json.reveille-backup")), "nothing was there before");
        }
    }
    // All rules together are a valid configuration.
    let checked = home.run(&["config", "check"]).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    for client in WAKEABLE {
        assert!(checked.out.contains(&format!("[wake.{client}]")), "{}", checked.out);
    }
    let claude = read(&home.dir.path().join(".claude/settings.json"));
    assert_eq!(
        claude["hooks"]["Stop"],
        json!([
            {"hooks": [{"type": "command", "command": format!("{BINARY} hook claude-code stop")}]},
            {"hooks": [{
                "type": "command", "command": format!("{BINARY} hook claude-code rewake --timeout 479h"),
                "asyncRewake": true, "timeout": 1_728_000,
            }]},
        ])
    );
    assert_eq!(
        claude["hooks"]["PreToolUse"],
        json!([{
            "hooks": [{"type": "command", "command": format!("{BINARY} hook claude-code tool")}],
            "matcher": "mcp__reveille__.*",
        }])
    );
    let servers = read(&home.dir.path().join(".claude.json"));
    assert_eq!(servers["mcpServers"]["reveille"], json!({"type": "stdio", "command": BINARY, "args": ["mcp"]}));
    let rules = fs::read_to_string(home.config()).unwrap();
    assert!(rules.contains("env = { CLAUDE_CODE_DISABLE_MCP_TASKS = \"1\" }"), "{rules}");
    assert!(rules.contains("\"resume\", \"--skip-git-repo-check\", \"{session}\""), "{rules}");
}

#[tokio::test]
async fn what_is_there_stays_as_it_is() {
    let home = Home::default();
    let settings = home.dir.path().join(".claude/settings.json");
    let theirs = json!({
        "zeta": 1, "permissions": {"allow": ["Bash(ls:*)"]},
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}], "PreToolUse": []},
        "alpha": "last",
    });
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, serde_json::to_string_pretty(&theirs).unwrap()).unwrap();
    fs::write(home.dir.path().join(".claude.json"), r#"{"numStartups": 5, "mcpServers": {"other": {"command": "x"}}}"#)
        .unwrap();
    home.write_config("# mine\nretention = \"3d\" # short\n");
    assert_eq!(home.run(&["setup", "claude-code", "--write"]).await.code, Some(0));

    let after = read(&settings);
    let names: Vec<&String> = after.as_object().unwrap().keys().collect();
    assert_eq!(names, ["zeta", "permissions", "hooks", "alpha"]);
    assert_eq!(after["hooks"]["Stop"][0], theirs["hooks"]["Stop"][0]);
    assert_eq!(after["hooks"]["Stop"].as_array().unwrap().len(), 3);
    let backup = read(&PathBuf::from(format!("{}.reveille-backup", settings.display())));
    assert_eq!(backup, theirs);
    let servers = read(&home.dir.path().join(".claude.json"));
    assert_eq!((&servers["numStartups"], &servers["mcpServers"]["other"]["command"]), (&json!(5), &json!("x")));
    let config = fs::read_to_string(home.config()).unwrap();
    assert!(config.starts_with("# mine\nretention = \"3d\" # short\n"), "{config}");
    // A rule that somebody has tuned is theirs.
    let tuned = config.replace("[wake.claude-code]", "[wake.claude-code]\ngrace = \"1m\"");
    home.write_config(&tuned);
    assert_eq!(home.run(&["setup", "claude-code", "--write"]).await.code, Some(0));
    assert_eq!(fs::read_to_string(home.config()).unwrap(), tuned);

    // What cannot be changed without loss is not changed.
    let commented = "{\n  // my servers\n  \"mcpServers\": {}\n}";
    let path = home.dir.path().join(".cursor/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, commented).unwrap();
    let refused = home.run(&["setup", "cursor", "--write"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("mcp.json") && refused.err.contains("comments"), "{refused:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), commented);
}

#[tokio::test]
async fn a_project_has_files_of_its_own() {
    let home = Home::default();
    let project = tempfile::tempdir().unwrap();
    for (client, files) in [
        ("claude-code", &[".mcp.json", ".claude/settings.json"][..]),
        ("codex", &[".codex/config.toml", ".codex/hooks.json"]),
        ("opencode", &["opencode.json"]),
        ("gemini", &[".gemini/settings.json"]),
        ("cursor", &[".cursor/mcp.json"]),
    ] {
        let mut command = home.command(&["setup", client, "--project", "--write", "--http"]);
        let ran = command.current_dir(project.path()).output().await.unwrap();
        assert!(ran.status.success(), "{client}");
        for file in files {
            assert!(exists(&project.path().join(file)), "{file}");
        }
        let first = fs::read_to_string(project.path().join(files[0])).unwrap();
        assert!(first.contains("http://127.0.0.1:7383/mcp"), "{first}");
    }
    assert_eq!(home.run(&["setup", "cline", "--project"]).await.code, Some(1));
}

/// Over HTTP nothing shows that a client is still open.
#[tokio::test]
async fn over_http_no_command_is_set_up_and_a_locked_door_is_mentioned() {
    let home = Home::default();
    for client in WAKEABLE {
        let shown = home.run(&["setup", client, "--http"]).await;
        assert!(
            !shown.out.contains("[wake.") && shown.out.contains("No wake command is set up over HTTP"),
            "{shown:?}"
        );
        assert!(!shown.out.contains("Authorization"), "{shown:?}");
    }
    let token = home.dir.path().join("token");
    fs::write(&token, "a-token-that-is-long-enough-for-anybody\n").unwrap();
    home.write_config(&format!("token_file = \"{}\"\n", token.display()));
    let shown = home.run(&["setup", "codex", "--http"]).await;
    assert!(shown.out.contains("Authorization: Bearer TOKEN") && !shown.out.contains("a-token"), "{shown:?}");
}

#[tokio::test]
async fn one_transport_takes_the_place_of_the_other() {
    let home = Home::default();
    for (client, file) in [
        ("claude-code", ".claude.json"),
        ("codex", ".codex/config.toml"),
        ("opencode", "config/opencode/opencode.json"),
        ("gemini", ".gemini/settings.json"),
        ("cursor", ".cursor/mcp.json"),
        ("cline", ".cline/data/settings/cline_mcp_settings.json"),
    ] {
        let (path, mut texts) = (home.dir.path().join(file), Vec::new());
        for http in [false, true, false] {
            let words = ["setup", client, "--write", "--http"];
            assert_eq!(home.run(&words[..if http { 4 } else { 3 }]).await.code, Some(0), "{client}");
            texts.push(fs::read_to_string(&path).unwrap());
            let text = texts.last().unwrap();
            let entry = text.split("hooks").next().unwrap();
            assert_eq!(entry.contains("7383/mcp"), http, "{text}");
            assert_eq!(entry.contains(BINARY), !http, "{text}");
            assert!(!http || !text.contains("args") && !text.contains("stdio"), "{text}");
            if client == "claude-code" {
                let hooks = fs::read_to_string(home.dir.path().join(".claude/settings.json")).unwrap();
                assert_eq!(hooks.matches("start --tell-session").count(), usize::from(http), "{hooks}");
            }
        }
        let sorted =
            |text: &str| text.lines().map(|line| line.trim_end_matches(',').to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(sorted(&texts[0]), sorted(&texts[2]), "{client}");
    }
}

#[tokio::test]
async fn what_was_said_is_carried_into_what_is_written() {
    let home = Home::default();
    let other = tempfile::tempdir().unwrap();
    let (data, config) = (other.path().join("my data"), other.path().join("c.toml"));
    fs::write(&config, "listen = \"127.0.0.1:0\"\n").unwrap();
    let (data, config) = (data.to_str().unwrap(), config.to_str().unwrap());
    let options = ["--config", config, "--data-dir", data];
    let written = home.run(&[&["setup", "claude-code", "--write"], &options[..]].concat()).await;
    assert_eq!(written.code, Some(0), "{written:?}");
    let servers = read(&home.dir.path().join(".claude.json"));
    assert_eq!(servers["mcpServers"]["reveille"]["args"], json!(["mcp", "--config", config, "--data-dir", data]));
    let hooks = read(&home.dir.path().join(".claude/settings.json"));
    let command = format!("{BINARY} hook claude-code stop --config {config} --data-dir '{data}'");
    assert_eq!(hooks["hooks"]["Stop"][0]["hooks"][0]["command"], command);
    // An address that nobody knows is not made up.
    let http = home.run(&[&["setup", "claude-code", "--http"], &options[..]].concat()).await;
    assert_eq!(http.code, Some(1));
    assert!(http.err.contains("port 0"), "{http:?}");
    fs::create_dir_all(data).unwrap();
    fs::write(PathBuf::from(data).join("address"), "http://127.0.0.1:5555\n").unwrap();
    let http = home.run(&[&["setup", "claude-code", "--http"], &options[..]].concat()).await;
    assert!(http.out.contains("http://127.0.0.1:5555/mcp") && http.out.contains("port 0"), "{http:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn the_first_backup_is_kept_and_nothing_is_opened_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::default();
    let path = home.dir.path().join(".claude.json");
    fs::write(&path, r#"{"secret": 1}"#).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let backup = PathBuf::from(format!("{}.reveille-backup", path.display()));
    for words in [&["setup", "claude-code", "--write"][..], &["setup", "claude-code", "--write", "--http"]] {
        assert_eq!(home.run(words).await.code, Some(0));
        assert_eq!(read(&backup), json!({"secret": 1}));
        for file in [&path, &backup] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_stays_a_link() {
    let home = Home::default();
    let (real, link) = (home.dir.path().join("dotfiles.json"), home.dir.path().join(".claude.json"));
    fs::write(&real, "{}").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert_eq!(home.run(&["setup", "claude-code", "--write"]).await.code, Some(0));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(read(&real)["mcpServers"]["reveille"].is_object());
}
