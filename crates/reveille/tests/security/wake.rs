//! What a model wrote reaches a wake command as one argument and on stdin, to the letter: no shell reads it on the way.

use super::support::{client, process::Home, send, within};
use reqwest::Method;
use serde_json::json;
use std::{fs, time::Duration};

const NASTY: &str = "$(touch pwned) `touch pwned`; touch pwned & | > pwned \"'\\ {session} %s \n--flag 会 🙂";

#[tokio::test]
async fn text_is_an_argument_and_never_a_command() {
    let home = Home::default();
    let desk = home.dir.path().join("desk");
    fs::create_dir(&desk).unwrap();
    // The program writes down what it was given; the shell here is the agent's own, and sees the text as `$1`.
    let script = r#"printf '%s' \"$1\" > argument; cat > stdin; touch done"#;
    home.write_config(&format!(
        "[wake.x]\nmatch = \"*\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\", \"agent\", \"{{message}}\"]\ncwd = \"{}\"\ngrace = \"0.1s\"\n",
        desk.display()
    ));
    let server = home.serve().await;
    let body = json!({"total_duration": 0.1, "mission": NASTY});
    let made =
        send(&client(), Method::POST, &format!("{}/api/sessions/s/tools/timer", server.url), Some(&body), None).await;
    assert_eq!(made.status, 200, "{}", made.body);
    within("the command has run", async {
        while !desk.join("done").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    for name in ["argument", "stdin"] {
        let given = fs::read_to_string(desk.join(name)).unwrap();
        assert!(given.contains(NASTY), "{name}: {given}");
    }
    let left: Vec<_> = fs::read_dir(&desk).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}
