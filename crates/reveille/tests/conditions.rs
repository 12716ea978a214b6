//! Guards waiting for a condition, on a manual clock and over real HTTP: every kind met, never met, met while the server was
//! down, failing for ever, flapping; what is looked at, and what is not any more.

#![allow(clippy::unwrap_used)]

mod support;

use axum::{Router, http::StatusCode, routing::get};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
};
use support::*;
use tokio::{io::AsyncReadExt, net::TcpListener, process::Command};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

/// A web server whose answer can be changed, and which counts who asks.
struct Site {
    url: String,
    status: Arc<AtomicU16>,
    asked: Arc<AtomicUsize>,
}

impl Site {
    async fn start(status: u16) -> Self {
        let (listener, status) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::new(AtomicU16::new(status)));
        let (url, asked) = (format!("http://{}/健康", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
        let (answer, count) = (status.clone(), asked.clone());
        let page = get(move || async move {
            count.fetch_add(1, Ordering::SeqCst);
            let status = answer.load(Ordering::SeqCst);
            (StatusCode::from_u16(status).unwrap(), format!("status {status}\n版本 3 ✅ ready\n"))
        });
        let app = Router::new().fallback_service(page);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, status, asked }
    }

    fn answer(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }
}

/// Until this process has made so many looks in all.
async fn looks(world: &World, wanted: u64) {
    let mut looks = world.server().engine.board().looks();
    within("looks at conditions", looks.wait_for(|made| *made >= wanted)).await.unwrap();
}

fn waiting(until: Value) -> Value {
    json!({"total_duration": 300, "reason": "等服务器 🚀", "until": until})
}

/// The call stands by, nothing is met at the first look, `happens`, and the call is told at the second.
async fn met_after(world: &World, session: &str, until: Value, happens: impl AsyncFnOnce()) -> Value {
    let before = *world.server().engine.board().looks().borrow();
    let call = world.standing(session, waiting(until.clone())).await;
    looks(world, before + 1).await;
    happens().await;
    world.advance(1);
    let result = result(call).await;
    has(
        &result,
        json!({"outcome": "met", "status": "completed", "met": true, "elapsed_time": 1, "remaining_time": 299,
               "timeout": false, "until": until}),
    );
    world.until_event(&id(&result).replace("timer_", "msg_"), "message.delivered").await;
    assert!(world.inbox(session).await.is_empty(), "told by the call");
    result
}

#[tokio::test]
async fn every_kind_is_met() {
    let world = World::with(|config| config.until.commands = true).await;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();

    let site = Site::start(503).await;
    let result = met_after(&world, "http", json!({"http": site.url}), async || site.answer(200)).await;
    assert_eq!(text(&result["seen"]), format!("{} answered 200", site.url));
    site.answer(503);
    let until = json!({"http": site.url, "status": 404});
    met_after(&world, "status", until, async || site.answer(404)).await;
    site.answer(500);
    let until = json!({"http": site.url, "body_matches": "版本 [0-9]+ .*ready"});
    let result = met_after(&world, "body", until, async || site.answer(200)).await;
    assert_eq!(text(&result["seen"]), format!("{} answered 200: 版本 3 ✅ ready", site.url));
    assert!(text(&result["hint"]).contains("版本 3 ✅ ready"), "{result}");

    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut kept = None;
    let listen = async || kept = Some(TcpListener::bind(free).await.unwrap());
    met_after(&world, "tcp", json!({"tcp": free.to_string()}), listen).await;

    let log = path("构建.log");
    let until = json!({"file": log, "exists": true});
    met_after(&world, "exists", until, async || fs::write(&log, "compiling\n").unwrap()).await;
    let until = json!({"file": log, "contains": "完成 🎉"});
    let finish = async || fs::write(&log, "compiling\n构建 完成 🎉 in 3 s\n").unwrap();
    let result = met_after(&world, "contains", until, finish).await;
    assert!(text(&result["seen"]).ends_with("contains: 构建 完成 🎉 in 3 s"), "{result}");
    let until = json!({"file": log, "changed": true});
    met_after(&world, "changed", until, async || fs::write(&log, "anew").unwrap()).await;
    let until = json!({"file": log, "exists": false});
    met_after(&world, "gone", until, async || fs::remove_file(&log).unwrap()).await;

    let mut child = Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    let until = json!({"process": child.id().unwrap()});
    met_after(&world, "process", until, async || child.kill().await.unwrap()).await;

    let flag = path("flag");
    let until = json!({"command": ["sh", "-c", format!("test -e {flag} && echo 好了")]});
    let result = met_after(&world, "command", until, async || fs::write(&flag, "").unwrap()).await;
    assert_eq!(text(&result["seen"]), "sh exited with 0: 好了");

    let stats = world.get("/api/stats").await;
    has(&stats["conditions"], json!({"met": 10, "unmet": 0, "waited": 10}));
    let metrics = reqwest::get(format!("{}/metrics", world.url)).await.unwrap().text().await.unwrap();
    assert!(metrics.contains("reveille_condition_looks_total{kind=\"file\",result=\"met\"} 4"), "{metrics}");
}

#[tokio::test]
async fn what_holds_already_is_met_at_once() {
    let world = World::start().await;
    let result = world.done("s", "timer", waiting(json!({"file": "/"}))).await;
    has(&result, json!({"outcome": "met", "elapsed_time": 0}));
    // Nobody stands by for a mission: a message tells it.
    let asked = json!({"total_duration": "10m", "mission": "部署 🚢", "until": {"file": "/"}});
    let made = world.done("s", "timer", asked).await;
    let message = world.until_message("s", &id(&made)).await;
    let told = text(&message["text"]);
    assert!(told.contains("Mission: 部署 🚢\nDuration: 600 seconds\nElapsed: 0 seconds\nMet: / exists"), "{told}");
    // A process that has ended and whose parent has not noticed: it was there, and has ended.
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let ended = format!("/proc/{}/stat", child.id());
    within("it ends", async {
        while !fs::read_to_string(&ended).unwrap_or_default().contains(") Z") {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    let result = world.done("another", "timer", waiting(json!({"process": child.id()}))).await;
    has(&result, json!({"outcome": "met", "seen": format!("process {} has ended", child.id())}));
    child.wait().unwrap();
}

/// Something that can be made to hold, and to hold no more.
struct Thing {
    until: Value,
    set: Box<dyn Fn(bool)>,
}

/// One of each kind that comes and goes.
fn things(dir: &Path, site: &Site) -> Vec<Thing> {
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let there = |path: String, wanted: bool| {
        Box::new(move |on: bool| match on == wanted {
            true => fs::write(&path, "").unwrap(),
            false => drop(fs::remove_file(&path)),
        })
    };
    let status = site.status.clone();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let port = std::cell::RefCell::new(None);
    let (log, gone, flag) = (path("出.log"), path("gone"), path("flag"));
    fs::write(&gone, "").unwrap();
    let lines = log.clone();
    vec![
        Thing {
            until: json!({"http": site.url}),
            set: Box::new(move |on| status.store(if on { 200 } else { 500 }, Ordering::SeqCst)),
        },
        Thing {
            until: json!({"tcp": free.to_string()}),
            set: Box::new(move |on| *port.borrow_mut() = on.then(|| std::net::TcpListener::bind(free).unwrap())),
        },
        Thing { until: json!({"file": path("new")}), set: there(path("new"), true) },
        Thing { until: json!({"file": gone, "exists": false}), set: there(gone, false) },
        Thing {
            until: json!({"file": log, "contains": "完成"}),
            set: Box::new(move |on| fs::write(&lines, if on { "构建 完成" } else { "编译中" }).unwrap()),
        },
        Thing { until: json!({"command": ["test", "-e", flag]}), set: there(flag, true) },
    ]
}

/// A mission for each of them, none of which holds yet.
async fn missions(world: &World, things: &[Thing]) -> Vec<String> {
    let mut timers = Vec::new();
    for thing in things {
        (thing.set)(false);
        let asked = json!({"total_duration": "1h", "mission": "x", "until": thing.until});
        timers.push(id(&world.done("s", "timer", asked).await));
    }
    looks(world, things.len() as u64).await;
    timers
}

/// Everything that is waited for has been looked at so often.
async fn seen_times(world: &World, timers: &[String], wanted: u64) {
    let engine = &world.server().engine;
    let mut looks = engine.board().looks();
    let mut since = Vec::new();
    for timer in timers {
        let made = world.get(&format!("/api/timers/{timer}")).await["created_at"].as_i64().unwrap();
        since.push((reveille_core::ItemId::new(timer.as_str()), reveille_core::Timestamp::from_millis(made)));
    }
    let all =
        || since.iter().all(|(id, since)| engine.board().seen(id, *since).is_some_and(|seen| seen.looks >= wanted));
    within("looks at all", async {
        while !all() {
            looks.changed().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn every_kind_that_flaps_is_met_when_it_is_seen_to_hold_and_only_once() {
    let world = World::with(|config| config.until.commands = true).await;
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::start(500).await);
    let things = things(dir.path(), &site);
    let timers = missions(&world, &things).await;
    // It holds between two looks, and nobody sees it.
    things.iter().for_each(|thing| (thing.set)(true));
    things.iter().for_each(|thing| (thing.set)(false));
    world.advance(1);
    seen_times(&world, &timers, 2).await;
    assert!(world.inbox("s").await.is_empty());
    things.iter().for_each(|thing| (thing.set)(true));
    world.advance(1);
    for timer in &timers {
        world.until_message("s", timer).await;
    }
    things.iter().for_each(|thing| (thing.set)(false));
    world.advance(3600);
    for timer in &timers {
        let ended = world.history_of(timer).await.iter().filter(|entry| entry["event"] == "timer.completed").count();
        assert_eq!(ended, 1);
    }
    assert_eq!(world.inbox("s").await.len(), timers.len());
    has(&world.get("/api/stats").await["conditions"], json!({"met": 6, "unmet": 0}));
}

#[tokio::test]
async fn every_kind_that_never_holds_is_given_up_and_looked_at_less_and_less() {
    let world = World::with(|config| config.until.commands = true).await;
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::start(500).await);
    let mut things = things(dir.path(), &site);
    let config = dir.path().join("config");
    fs::write(&config, "a = 1").unwrap();
    let child = Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    for until in [json!({"file": config.to_str().unwrap(), "changed": true}), json!({"process": child.id().unwrap()})] {
        things.push(Thing { until, set: Box::new(|_| {}) });
    }
    let timers = missions(&world, &things).await;
    let mut made = 1;
    // A look is due after a tenth of the time waited, and at the latest after 15 s and a fifth.
    for seconds in [1, 2, 60, 600] {
        world.advance(seconds);
        made += 1;
        seen_times(&world, &timers, made).await;
    }
    world.advance(3);
    for timer in &timers {
        has(&world.get(&format!("/api/timers/{timer}")).await, json!({"status": "running", "met": false}));
    }
    assert_eq!(*world.server().engine.board().looks().borrow(), made * timers.len() as u64, "none before its time");
    world.advance(3600);
    for timer in &timers {
        let message = world.until_message("s", timer).await;
        assert!(text(&message["text"]).contains("Not met in this time: "), "{message}");
    }
    has(&world.get("/api/stats").await["conditions"], json!({"met": 0, "unmet": 8}));
}

#[tokio::test]
async fn every_kind_that_came_to_hold_while_the_server_was_down_is_met_at_the_first_look() {
    let mut world = World::with(|config| config.until.commands = true).await;
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::start(500).await);
    let things = things(dir.path(), &site);
    let timers = missions(&world, &things).await;
    world.down().await;
    things.iter().for_each(|thing| (thing.set)(true));
    world.advance(600);
    world.up().await;
    for timer in &timers {
        let message = world.until_message("s", timer).await;
        assert!(text(&message["text"]).contains("Elapsed: 600 seconds\nMet: "), "{message}");
    }
}

#[tokio::test]
async fn a_repeated_request_gets_its_timer_whatever_has_become_of_the_condition() {
    let world = World::start().await;
    let mut child = Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    let ask = json!({"session": "s", "mission": "x", "total_duration": 60, "until": {"process": child.id().unwrap()}});
    let post = |key: &'static str| {
        let (http, url, ask) = (world.http.clone(), format!("{}/api/timers", world.url), ask.clone());
        async move { send(&http, reqwest::Method::POST, &url, Some(&ask), Some(key)).await }
    };
    let first = post("k").await;
    child.kill().await.unwrap();
    let again = post("k").await;
    assert_eq!((again.status, &again.body["timer_id"]), (200, &first.body["timer_id"]), "{again:?}");
    assert_eq!(post("other").await.status, 400, "nothing to wait for");
}

#[tokio::test]
async fn never_met_the_time_ends_it_and_the_result_says_what_was_seen_last() {
    let world = World::start().await;
    let site = Site::start(503).await;
    let until = json!({"http": site.url});
    let call = world.standing("s", json!({"total_duration": 60, "reason": "x", "until": until})).await;
    looks(&world, 1).await;
    let read = world.done("s", "read_timer", json!({})).await;
    has(&list(&read["timers"])[0], json!({"met": false, "seen": format!("{} answered 503", site.url)}));
    world.advance(60);
    let result = result(call).await;
    has(&result, json!({"outcome": "completed", "met": false, "seen": format!("{} answered 503", site.url)}));
    assert!(text(&result["hint"]).contains("was not met"), "{result}");
    has(&world.get("/api/stats").await["conditions"], json!({"met": 0, "unmet": 1}));
}

#[tokio::test]
async fn one_that_fails_for_ever_is_looked_at_less_and_less() {
    let world = World::start().await;
    let site = Site::start(500).await;
    let asked = json!({"total_duration": "1h", "mission": "x", "until": {"http": site.url}});
    let timer = id(&world.done("s", "timer", asked).await);
    looks(&world, 1).await;
    // Ten minutes, second by second.
    for _ in 0..600 {
        world.advance(1);
        tokio::task::yield_now().await;
    }
    let read = world.get(&format!("/api/timers/{timer}")).await;
    has(&read, json!({"status": "running", "met": false}));
    let asked = site.asked.load(Ordering::SeqCst);
    assert!((2..100).contains(&asked), "{asked} looks in ten minutes");
    world.advance(3000);
    let message = world.until_message("s", &timer).await;
    assert!(text(&message["text"]).contains("Not met in this time: "), "{message}");
}

#[tokio::test]
async fn met_while_the_server_was_down() {
    let mut world = World::start().await;
    let dir = tempfile::tempdir().unwrap();
    let (log, config) = (dir.path().join("出.log"), dir.path().join("config"));
    fs::write(&config, "a = 1").unwrap();
    let mut child = Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    let conditions = [
        json!({"file": log.to_str().unwrap(), "contains": "完成"}),
        json!({"file": config.to_str().unwrap(), "changed": true}),
        json!({"process": child.id().unwrap()}),
    ];
    let mut timers = Vec::new();
    for until in &conditions {
        let asked = json!({"total_duration": "1h", "mission": "x", "until": until});
        timers.push(id(&world.done("s", "timer", asked).await));
    }
    looks(&world, 3).await;
    world.down().await;
    fs::write(&log, "构建 完成").unwrap();
    fs::write(&config, "a = 22").unwrap();
    child.kill().await.unwrap();
    world.advance(600);
    world.up().await;
    for timer in &timers {
        let message = world.until_message("s", timer).await;
        assert!(text(&message["text"]).contains("Elapsed: 600 seconds\nMet: "), "{message}");
    }
    // One whose time was up meanwhile has ended by its time, whatever holds now.
    let asked = json!({"total_duration": 60, "mission": "x", "until": {"tcp": "127.0.0.1:1"}});
    let late = id(&world.done("s", "timer", asked).await);
    world.down().await;
    world.advance(61);
    world.up().await;
    assert!(text(&world.until_message("s", &late).await["text"]).contains("Not met"));
}

#[tokio::test]
async fn looks_end_with_the_wait_and_stand_still_with_the_timer() {
    let world = World::start().await;
    // A server that takes the connection and says nothing: the look is under way.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let until = json!({"http": format!("http://{}/", silent.local_addr().unwrap())});
    for (number, action) in ["stop", "pause"].into_iter().enumerate() {
        let session = format!("s{number}");
        let call = world.standing(&session, waiting(until.clone())).await;
        let (mut connection, _) = within("a look", silent.accept()).await.unwrap();
        let timer = id(&list(&world.get("/api/timers?limit=1").await["timers"])[0]);
        let body = json!({"pause_duration": "10m"});
        assert_eq!(world.post(&format!("/api/timers/{timer}/{action}"), body).await.status, 200);
        within("the look is dropped", connection.read_to_end(&mut Vec::new())).await.unwrap();
        result(call).await;
        world.advance(60);
        if action == "pause" {
            assert_eq!(world.post(&format!("/api/timers/{timer}/resume"), json!({})).await.status, 200);
            within("looked at again", silent.accept()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_timer_may_get_a_condition_later_and_another_one_after_that() {
    let world = World::start().await;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let made = world.done("s", "timer", json!({"total_duration": 300, "mission": "x"})).await;
    let timer = id(&made);
    assert!(made.get("until").is_none() && made.get("met").is_none(), "{made}");
    for name in ["a", "b"] {
        let until = json!({"file": path(name)});
        let now = world.done("s", "timer", json!({"timer_id": timer, "mission": "x", "until": until})).await;
        has(&now, json!({"outcome": "scheduled", "until": {"file": path(name), "exists": true}, "met": false}));
    }
    fs::write(path("a"), "").unwrap();
    looks(&world, 1).await;
    world.advance(1);
    looks(&world, 2).await;
    assert_eq!(world.get(&format!("/api/timers/{timer}")).await["status"], "running", "only the last counts");
    fs::write(path("b"), "").unwrap();
    world.advance(1);
    assert!(text(&world.until_message("s", &timer).await["text"]).contains("/b exists"));
}

#[tokio::test]
async fn looks_that_no_model_had_to_make_are_counted() {
    let world = World::start().await;
    let site = Site::start(500).await;
    let asked = json!({"total_duration": "1h", "mission": "x", "until": {"http": site.url}});
    let timer = id(&world.done("s", "timer", asked).await);
    looks(&world, 1).await;
    site.answer(200);
    world.advance(150);
    world.until_message("s", &timer).await;
    let stats = world.get("/api/stats").await;
    has(&stats["standby"], json!({"requests_saved": 10, "ended": 0}));
    has(&stats["conditions"], json!({"met": 1, "waited": 150}));
    let hours = world.get("/api/stats/hours").await;
    has(&list(&hours["hours"])[0], json!({"conditions_met": 1, "conditions_unmet": 0, "requests_saved": 10}));
}

#[tokio::test]
async fn bad_conditions_are_explained_and_change_nothing() {
    let world = World::start().await;
    for (until, code, why) in [
        (json!("soon"), "invalid_argument", "must be an object"),
        (json!({"url": "http://a/"}), "invalid_argument", "does not say what"),
        (json!({"http": "http://a/", "file": "/a"}), "invalid_argument", "both `http` and `file`"),
        (json!({"http": "http://a/", "methods": "GET"}), "invalid_argument", "not `methods`"),
        (json!({"http": "a.example"}), "invalid_argument", "not a URL"),
        (json!({"http": "file:///etc/passwd"}), "invalid_argument", "http://"),
        (json!({"http": "http://169.254.169.254/latest/meta-data"}), "forbidden_condition", "link-local"),
        (json!({"http": "http://[::ffff:169.254.169.254]/"}), "forbidden_condition", "link-local"),
        (json!({"tcp": "224.0.0.1:80"}), "forbidden_condition", "not an address of one machine"),
        (json!({"http": "http://127.0.0.1/", "body_matches": "(["}), "invalid_argument", "not a regular expression"),
        (json!({"http": "http://127.0.0.1/", "body_matches": "(a{1000}){1000}"}), "invalid_argument", "too large"),
        (json!({"file": "out/build.log"}), "invalid_argument", "relative"),
        (json!({"file": "/srv/../etc/shadow"}), "invalid_argument", "goes back"),
        (json!({"process": "all"}), "invalid_argument", "number of a process"),
        (json!({"process": u32::MAX >> 1}), "invalid_argument", "it has ended already"),
        (json!({"command": ["rm", "-rf", "/x"]}), "forbidden_condition", "until.commands"),
    ] {
        let (status, found, body) = world.refused("s", "timer", waiting(until.clone())).await;
        assert_eq!((status, found.as_str()), (400, code), "{until}: {body}");
        assert!(text(&body["detail"]).contains(why), "{until}: {body}");
        let outside = json!({"session": "s", "total_duration": 60, "mission": "x", "until": until});
        assert_eq!(world.post("/api/timers", outside).await.status, 400, "{until}");
    }
    assert!(world.timers().await.is_empty() && world.history().await.is_empty());
}

#[tokio::test]
async fn what_comes_to_hold_within_the_last_pause_is_met() {
    let world = World::start().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("完成");
    let call = world.standing("s", json!({"total_duration": 600, "reason": "等", "until": {"file": file}})).await;
    looks(&world, 1).await;
    // After so long a wait the next look would come in 12 to 18 seconds: when it is over.
    world.advance(590);
    looks(&world, 2).await;
    fs::write(&file, "").unwrap();
    world.advance(9);
    has(&result(call).await, json!({"outcome": "met", "elapsed_time": 599}));
}

#[tokio::test]
async fn a_certificate_nobody_trusts_is_named() {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(key.cert.der().to_vec())], private)
        .unwrap();
    let (acceptor, listener) = (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = acceptor.accept(stream).await;
        }
    });
    let world = World::start().await;
    let asked = json!({"total_duration": 60, "mission": "x", "until": {"http": url}});
    let timer = id(&world.done("s", "timer", asked).await);
    looks(&world, 1).await;
    let seen = text(&world.get(&format!("/api/timers/{timer}")).await["seen"]);
    assert!(seen.contains("its certificate is not accepted: nobody this machine trusts"), "{seen}");
}

#[tokio::test]
async fn nobody_reads_the_servers_own_secrets_by_waiting_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("reveille.toml"), "api_key = \"x\"").unwrap();
    let source = path("reveille.toml");
    let world = World::with(|config| config.source = Some(source)).await;
    let data = &world.config.data_dir;
    std::os::unix::fs::symlink(data, path("data")).unwrap();
    std::os::unix::fs::symlink("/proc/self/environ", path("environ")).unwrap();
    let contains = |path: &Path| json!({"file": path.to_str().unwrap(), "contains": "="});
    for own in [
        "/proc/self/environ".into(),
        "/proc/1/environ".into(),
        path("environ"),
        path("reveille.toml"),
        data.join("tokens.toml"),
        data.join("reveille.db"),
        path("data/reveille.db"),
    ] {
        let (_, code, body) = world.refused("s", "timer", waiting(contains(&own))).await;
        assert_eq!(code, "forbidden_condition", "{own:?}: {body}");
        assert!(text(&body["detail"]).contains("never be watched"), "{body}");
    }
    // Nor by a link that is put there later.
    let later = path("later");
    let asked = json!({"total_duration": 60, "mission": "x", "until": contains(&later)});
    let timer = id(&world.done("s", "timer", asked).await);
    looks(&world, 1).await;
    std::os::unix::fs::symlink("/proc/self/environ", &later).unwrap();
    world.advance(5);
    looks(&world, 2).await;
    let seen = world.get(&format!("/api/timers/{timer}")).await;
    has(&seen, json!({"met": false}));
    assert!(text(&seen["seen"]).contains("never be watched"), "{seen}");
}

#[tokio::test]
async fn only_what_the_operator_allows_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
    let allowed = inside.clone();
    let world = World::with(|config| {
        config.until.files = Some(vec![allowed]);
        config.until.allow_private = Some(false);
        config.until.processes = Some(false);
    })
    .await;
    let file = |path: &Path| json!({"file": path.to_str().unwrap()});
    for until in [
        file(&outside.join("x")),
        file(&inside.join("link/x")),
        file(Path::new("/etc/passwd")),
        json!({"process": 1}),
        json!({"tcp": "127.0.0.1:22"}),
        json!({"http": "http://localhost:1/"}),
    ] {
        let (_, code, body) = world.refused("s", "timer", waiting(until.clone())).await;
        assert_eq!(code, "forbidden_condition", "{until}: {body}");
    }
    // A link that is put there later leads nowhere either.
    let later = inside.join("later");
    let asked = json!({"total_duration": 60, "mission": "x", "until": file(&later)});
    let timer = id(&world.done("s", "timer", asked).await);
    looks(&world, 1).await;
    fs::write(outside.join("secret"), "x").unwrap();
    std::os::unix::fs::symlink(outside.join("secret"), &later).unwrap();
    world.advance(1);
    looks(&world, 2).await;
    let read = world.get(&format!("/api/timers/{timer}")).await;
    has(&read, json!({"status": "running", "met": false}));
    assert!(text(&read["seen"]).contains("until.files"), "{read}");
}

#[tokio::test]
async fn a_command_is_killed_whole_when_nobody_waits_any_more() {
    let world = World::with(|config| config.until.commands = true).await;
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", pids.display());
    let call = world.standing("s", waiting(json!({"command": ["sh", "-c", script]}))).await;
    let pid = within("the command runs", async {
        loop {
            match fs::read_to_string(&pids) {
                Ok(text) => return text.trim().to_owned(),
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        }
    })
    .await;
    let timer = id(&list(&world.get("/api/timers?limit=1").await["timers"])[0]);
    world.done("s", "stop_timer", json!({"timer_id": timer})).await;
    result(call).await;
    within("its child is gone", async {
        let gone = |stat: String| stat.is_empty() || stat.contains(") Z");
        while !gone(fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// The first scenario of the original: a server is started, and the agent waits for it. One call.
#[tokio::test]
async fn waiting_for_a_real_server_takes_one_call() {
    let (daemon, home) = (process::Home::default(), process::Home::default());
    let world = daemon.serve().await;
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let until = json!({"http": format!("http://{address}/healthz"), "status": 200});
    let call = one_call(&world, json!({"total_duration": "5m", "reason": "服务器启动", "until": until})).await;
    let mut server = home.command(&["serve", "--listen", &address]);
    let _server = server.stdout(Stdio::null()).spawn().unwrap();
    let result = result(call).await;
    has(&result, json!({"outcome": "met", "seen": format!("http://{address}/healthz answered 200")}));
}

/// The only call that is ever made, standing by.
async fn one_call(daemon: &process::Daemon, arguments: Value) -> Pending {
    let url = format!("{}/api/sessions/one/tools/timer", daemon.url);
    let call = tokio::spawn(async move { send(&client(), reqwest::Method::POST, &url, Some(&arguments), None).await });
    daemon.standing(1).await;
    call
}

/// The second: a build writes its log, and the agent waits for what it says. One call.
#[tokio::test]
async fn waiting_for_a_real_build_log_takes_one_call() {
    let home = process::Home::default();
    let daemon = home.serve().await;
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("build.log");
    let until = json!({"file": log.to_str().unwrap(), "contains": "BUILD SUCCESS"});
    let call = one_call(&daemon, json!({"total_duration": "10m", "reason": "构建", "until": until})).await;
    let script = format!("echo 编译中 > {0}; sleep 0.2; echo 'BUILD SUCCESS 🎉' >> {0}", log.display());
    let _build = Command::new("sh").args(["-c", &script]).kill_on_drop(true).spawn().unwrap();
    let result = result(call).await;
    has(&result, json!({"outcome": "met", "met": true}));
    assert!(text(&result["seen"]).ends_with("contains: BUILD SUCCESS 🎉"), "{result}");
}

/// Both, when they take their minutes: what a model that asks every 15 seconds would have spent on them is counted.
#[tokio::test]
async fn the_calls_that_both_have_saved_are_counted() {
    let (home, other) = (process::Home::default(), process::Home::default());
    let daemon = process::Daemon::start(home.command(&["serve", "--listen", "127.0.0.1:0", "--manual-clock"])).await;
    let pass = async |seconds: u64| {
        let url = format!("{}/api/clock/advance", daemon.url);
        let passed = send(&client(), reqwest::Method::POST, &url, Some(&json!({"by": seconds})), None).await;
        assert_eq!(passed.status, 200, "{passed:?}");
    };
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let until = json!({"http": format!("http://{address}/healthz"), "status": 200});
    let call = one_call(&daemon, json!({"total_duration": "5m", "reason": "服务器启动", "until": until})).await;
    pass(90).await;
    let _server = process::Daemon::start(other.command(&["serve", "--listen", &address])).await;
    pass(1).await;
    has(&result(call).await, json!({"outcome": "met", "elapsed_time": 90}));

    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("build.log");
    let until = json!({"file": log.to_str().unwrap(), "contains": "BUILD SUCCESS"});
    let call = one_call(&daemon, json!({"total_duration": "10m", "reason": "构建", "until": until})).await;
    let build = async |says: &str| {
        let script = format!("echo '{says}' >> {}", log.display());
        assert!(Command::new("sh").args(["-c", &script]).status().await.unwrap().success());
    };
    build("编译中").await;
    pass(300).await;
    build("BUILD SUCCESS 🎉").await;
    pass(1).await;
    has(&result(call).await, json!({"outcome": "met", "elapsed_time": 300}));

    let url = format!("{}/api/stats", daemon.url);
    let stats = send(&client(), reqwest::Method::GET, &url, None, None).await.body;
    has(&stats["standby"], json!({"requests_saved": 6 + 20, "poll_interval": 15}));
    has(&stats["conditions"], json!({"met": 2, "waited": 390}));
}

/// By the command line, against the real process.
#[tokio::test]
async fn the_command_line_waits_too() {
    let home = process::Home::default();
    let daemon = home.serve().await;
    let met = home.run(&["timer", "5m", "--reason", "等", "--until-http", &format!("{}/healthz", daemon.url)]).await;
    assert_eq!(met.code, Some(0), "{met:?}");
    assert!(met.out.contains("answered 200") && met.out.contains("until"), "{met:?}");
    let never = home.run(&["timer", "1s", "--reason", "x", "--until-file", "nowhere", "--changed"]).await;
    assert_eq!(never.code, Some(4), "the time was over first: {never:?}");
    assert!(never.out.contains("completed, condition not met"), "{never:?}");
    let both = home.run(&["timer", "1m", "--reason", "x", "--until-tcp", "a:1", "--until-process", "1"]).await;
    assert_eq!(both.code, Some(2), "{both:?}");
    let refused = home.run(&["timer", "1m", "--reason", "x", "--until-command", "true"]).await;
    assert!(refused.code == Some(1) && refused.err.contains("until.commands"), "{refused:?}");
    let listed = home.run(&["timer", "5m", "--mission", "部署", "--until-tcp", "127.0.0.1:1"]).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let list = home.run(&["ls"]).await;
    assert!(list.out.contains("until 127.0.0.1:1 takes connections"), "{list:?}");
}
