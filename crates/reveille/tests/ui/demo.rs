//! The demo's dashboard, looked at while the story is told: what a newcomer sees first, and the README's picture of it.

use super::{
    browser::{Browser, Look},
    support::process::Home,
};
use std::{fs, path::Path, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::timeout,
};

const STORY: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread")]
async fn the_story_is_seen_as_it_is_told() {
    let home = Home::default();
    let browser = Browser::open(Look::default()).await;
    let mut child = home.command(&["demo", "--keep"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until = async |words: &str| loop {
        let line = timeout(STORY, lines.next_line()).await.expect(words).unwrap().expect(words);
        if line.contains(words) {
            return line;
        }
    };
    let line = until("Look at it meanwhile").await;
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    browser.goto(&url).await;
    browser.until("an agent sleeps", "document.body.innerText.includes('waiting for the server to start')").await;
    if std::env::var_os("UPDATE").is_some() {
        until("timer {").await;
        let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/screenshots/demo.webp");
        fs::write(picture, browser.screenshot().await).unwrap();
    }
    until("The dashboard stays").await;
    for page in ["customer-42", "night-shift", "nightly", "deploy"] {
        browser.goto(&format!("{url}#/sessions/{page}")).await;
        let shown = format!("document.querySelector('main')?.innerText.includes('{page}')");
        browser.until(page, &shown).await;
    }
    browser.quiet().await;
    browser.close().await;
}
