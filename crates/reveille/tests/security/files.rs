//! What is written is nobody else's to read.

use super::support::process::Home;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn the_data_directory_and_all_in_it_are_the_owners() {
    let home = Home::default();
    // Whatever the user's own habits are.
    let mut command = home.wrap("sh");
    command.args(["-c", "umask 000; exec \"$0\" serve --listen 127.0.0.1:0", super::support::process::BINARY]);
    let server = super::support::process::Daemon::start(command).await;
    home.mission("10m").await;
    let made = home.run(&["token", "new", "me", "--scope", "operator"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(mode(&home.data()), 0o700);
    let names: Vec<_> = fs::read_dir(home.data()).unwrap().map(|entry| entry.unwrap().path()).collect();
    for name in ["reveille.db", "reveille.db-wal", "reveille.db-shm", "reveille.db.lock", "address", "tokens.toml"] {
        assert!(names.contains(&home.data().join(name)), "{name} is not in {names:?}");
    }
    for path in names {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    drop(server);
}

/// A server that a bridge starts logs into the data directory.
#[tokio::test]
async fn the_log_of_a_server_started_by_a_bridge_is_the_owners() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let home = Home::default();
    let mut bridge = home.wrap("sh");
    bridge.args(["-c", "umask 000; exec \"$0\" mcp --session s", super::support::process::BINARY]);
    bridge.env("REVEILLE_LISTEN", "127.0.0.1:0");
    let mut bridge = bridge.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let ask = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"#,
        r#""clientInfo":{"name":"t","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_timer","arguments":{}}}"#,
        "\n"
    );
    bridge.stdin.as_mut().unwrap().write_all(ask.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(bridge.stdout.take().unwrap()).lines();
    loop {
        let line = super::support::within("an answer", lines.next_line()).await.unwrap().unwrap();
        if line.contains("\"id\":2") {
            break;
        }
    }
    assert_eq!((mode(&home.data()), mode(&home.data().join("server.log"))), (0o700, 0o600));
    home.kill_daemons();
}
