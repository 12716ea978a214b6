//! Guards the SQLite file against other processes and sudden deaths: a second process is refused and told who holds
//! the file, and after `kill -9` at any moment everything that was answered is there and nothing is half there.
//!
//! The other process is this test binary, started again with a role.

#![allow(clippy::unwrap_used)]

mod drive;

use drive::*;
use reveille_store::{SqliteStore, Store, StoreError};
use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

const ROLE: &str = "REVEILLE_STORE_TEST_ROLE";
const FILE: &str = "REVEILLE_STORE_TEST_FILE";
const ROUND: &str = "REVEILLE_STORE_TEST_ROUND";
/// A process being started holds copies of our open files for a moment, locks included; so the tests take turns.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
/// Before every line of the other process that is meant for us.
const MARK: &str = "other process: ";

fn start(role: &str, path: &Path, round: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["the_other_process", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(FILE, path)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What it says, line by line, until it ends.
fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let output = BufReader::new(child.stdout.take().unwrap());
    output.lines().map_while(Result::ok).filter_map(|line| Some(line.split_once(MARK)?.1.to_owned()))
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{MARK}{text}").and_then(|()| out.flush()).unwrap();
}

/// Does nothing unless started by one of the tests below.
#[tokio::test]
async fn the_other_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let path = PathBuf::from(std::env::var_os(FILE).unwrap());
    let opened = SqliteStore::open(&path, None, "srv");
    match (&*role, opened) {
        ("visitor", Ok(_)) => say("opened"),
        ("visitor", Err(error)) => say(&format!("{} {error}", error.code())),
        ("worker", Ok(store)) => {
            let round = std::env::var(ROUND).unwrap();
            // Each timer ends in the same breath, so that every part of a batch is at stake. Until killed.
            for number in 0.. {
                let id = format!("timer_{round}_{number}");
                run(&store, &format!("s{}", number % 3), wait(&id, "x", 1), at(0)).await;
                run(&store, &format!("s{}", number % 3), fire(&[&id]), at(1)).await;
                say(&id);
            }
        }
        (role, opened) => panic!("{role}: {:?}", opened.err()),
    }
}

#[tokio::test]
async fn a_second_process_is_refused_and_told_who_holds_the_file() {
    let _turn = TURN.lock().await;
    let directory = scratch();
    let path = directory.path().join("reveille.db");
    let store = SqliteStore::open(&path, None, "srv").unwrap();
    run(&store, "a", wait("timer_1", "x", 600), at(0)).await;
    let mut visitor = start("visitor", &path, 0);
    let said: Vec<String> = lines(&mut visitor).collect();
    assert!(visitor.wait().unwrap().success());
    let [said] = &said[..] else { panic!("{said:?}") };
    assert!(said.starts_with("storage_in_use "), "{said}");
    assert!(said.contains(path.to_str().unwrap()), "{said}");
    assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
    run(&store, "a", wait("timer_2", "x", 600), at(1)).await; // the first one has not noticed
    store.close().await;
    let mut visitor = start("visitor", &path, 0);
    assert_eq!(lines(&mut visitor).collect::<Vec<_>>(), ["opened"]);
    assert!(visitor.wait().unwrap().success());
}

#[tokio::test]
async fn nothing_answered_is_lost_when_the_process_is_killed() {
    let _turn = TURN.lock().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let mut answered: Vec<String> = Vec::new();
    for (round, answers) in [1, 2, 10, 50, 120].into_iter().enumerate() {
        let mut worker = start("worker", &path, round);
        let mut said = lines(&mut worker);
        answered.extend(said.by_ref().take(answers));
        let error = SqliteStore::open(&path, None, "srv").err().unwrap();
        assert!(matches!(error, StoreError::InUse { pid, .. } if pid == Some(worker.id())), "{error:?}");
        worker.kill().unwrap(); // in the middle of whatever it does now
        worker.wait().unwrap();
        answered.extend(said);

        let store = SqliteStore::open(&path, None, "srv").unwrap();
        whole(&store, &answered).await;
        store.close().await;
    }
    assert!(answered.len() > 180);
}

/// All of what was answered, and of everything else each batch whole or not at all.
async fn whole(store: &dyn Store, answered: &[String]) {
    let shown = picture(store).await;
    let (mut messages, mut live, mut completed) = (0, 0, 0);
    for (session, item) in &shown.items {
        let timer = item.as_timer().unwrap();
        let inbox =
            &shown.states.iter().find(|(state, _)| state.session.as_ref().unwrap().id == *session).unwrap().0.inbox;
        let told = inbox.iter().filter(|message| message.source == timer.id).count();
        assert_eq!(told, usize::from(!timer.is_live()), "{} and its message came together", timer.id);
        messages += told as i64;
        live += i64::from(timer.is_live());
        completed += i64::from(!timer.is_live());
    }
    for id in answered {
        let item = shown.items.iter().find(|(_, item)| item.id().as_str() == id);
        assert_eq!(item.map(|(_, item)| item.status()), Some("completed"), "{id} was answered");
    }
    assert!(completed >= answered.len() as i64);
    let entries = |event: &str| shown.history.iter().filter(|one| one.entry.event == event).count() as i64;
    assert_eq!((entries("timer.created"), entries("timer.completed")), (live + completed, completed));
    assert!(shown.history.iter().map(|one| one.seq).eq(1..=shown.history.len() as i64));
    for (name, count) in [
        ("timers.created", live + completed),
        ("timers.running", live),
        ("timers.completed", completed),
        ("messages.created", messages),
    ] {
        assert_eq!(shown.tallies.get(name).copied().unwrap_or(0), count, "{name}");
    }
    let versions: u64 = shown.sessions.iter().map(|session| session.version).sum();
    assert_eq!(versions as i64, live + 2 * completed, "one version per commit");
}
