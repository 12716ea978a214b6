//! Three nodes under load, each and the database killed, frozen, cut off and restarted at random. Those who asked remember
//! what they were answered, and at the end look at everything that happened.
//!
//! `REVEILLE_CHAOS_SECONDS` asks for a longer run, `REVEILLE_CHAOS_SEED` for another.

use crate::{
    support::{process::*, *},
    wire::Wire,
};
use reqwest::Method;
use rustix::process::Signal;
use scratch_postgres::{Care, Cluster};
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

const NODES: usize = 3;
const CLIENTS: u64 = 12;
const SESSIONS: u64 = 24;
/// Short, so that what a dead node held is free again soon; longer than any freeze, or a frozen node would tell what
/// others may by then have told.
const LEASE: &str = "8s";
const FREEZE_MAX_MS: u64 = 5000;
/// Nothing fires later than this after its instant, or after the end of the database's outage that this fell into. One node
/// or the other is in trouble nearly always: its share is acted on two seconds later. The rest is room for a busy machine.
const LATE_MAX_MS: i64 = 6_000;
/// After the last fault, everything that is owed is told by then.
const SETTLE: Duration = Duration::from_secs(60);

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[derive(Default)]
struct Known {
    /// Acknowledged missions, and the instant before which they must not end.
    made: HashMap<String, i64>,
    /// Messages whose delivery was acknowledged.
    delivered: HashSet<String>,
}

struct Site {
    urls: Mutex<Vec<String>>,
    known: Mutex<Known>,
    stop: AtomicBool,
}

impl Site {
    fn url(&self, random: &mut Random) -> String {
        let urls = self.urls.lock().unwrap();
        urls[random.below(urls.len() as u64) as usize].clone()
    }
}

/// Creates missions and takes messages, at any node, until told to stop.
async fn load(site: Arc<Site>, client_number: u64, mut random: Random) {
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(8)).build().unwrap();
    let mut made = 0;
    while !site.stop.load(Ordering::Relaxed) {
        let session = format!("会话{}", random.below(SESSIONS));
        if random.below(3) > 0 {
            made += 1;
            create(&site, &http, &session, &format!("{client_number}-{made}"), &mut random).await;
        } else {
            take(&site, &http, &session, &mut random).await;
        }
    }
}

/// Asks again, anywhere, until it is acknowledged: the key makes it one creation.
async fn create(site: &Site, http: &reqwest::Client, session: &str, key: &str, random: &mut Random) {
    let length = 100 + random.below(4000);
    let body = json!({"total_duration": format!("{length}ms"), "mission": key});
    for _ in 0..200 {
        let url = format!("{}/api/sessions/{session}/tools/timer", site.url(random));
        match try_send(http, Method::POST, &url, Some(&body), Some(key)).await {
            Ok(answer) if answer.status == 200 => {
                let created = answer.body["created_at"].as_i64().unwrap();
                site.known.lock().unwrap().made.insert(id(&answer.body), created + length as i64);
                return;
            }
            Ok(answer) if answer.status == 409 => return, // the session has too many
            Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    panic!("{key} was never acknowledged");
}

async fn take(site: &Site, http: &reqwest::Client, session: &str, random: &mut Random) -> usize {
    let url = format!("{}/api/sessions/{session}/inbox", site.url(random));
    let before = site.known.lock().unwrap().delivered.clone();
    let ask = json!({"limit": 10});
    let Ok(leased) = try_send(http, Method::POST, &format!("{url}/lease"), Some(&ask), None).await else { return 0 };
    if leased.status != 200 || leased.body.get("lease").is_none() {
        return 0;
    }
    let ids: Vec<String> = list(&leased.body["messages"]).iter().map(|message| text(&message["id"])).collect();
    for id in &ids {
        assert!(!before.contains(id), "{id} was delivered already");
    }
    let settle = json!({"lease": leased.body["lease"]});
    let committed = try_send(http, Method::POST, &format!("{url}/commit"), Some(&settle), None).await;
    if committed.is_ok_and(|answer| answer.status == 200) {
        site.known.lock().unwrap().delivered.extend(ids.iter().cloned());
    }
    ids.len()
}

struct Nodes {
    homes: Vec<Home>,
    wires: Vec<Wire>,
    daemons: Vec<Option<Daemon>>,
}

impl Nodes {
    async fn start(cluster: &Cluster) -> Self {
        let mut nodes = Self { homes: Vec::new(), wires: Vec::new(), daemons: Vec::new() };
        let direct = cluster.database();
        for _ in 0..NODES {
            let (home, wire) = (Home::default(), Wire::to(cluster.port).await);
            let url = direct.replace(&format!(":{}/", cluster.port), &format!(":{}/", wire.port));
            assert_ne!(url, direct);
            home.write_config(&format!(
                "database_url = \"{url}\"\n[limits]\nlease = \"{LEASE}\"\ntimers_per_session = 1000\n"
            ));
            nodes.daemons.push(Some(home.serve().await));
            nodes.homes.push(home);
            nodes.wires.push(wire);
        }
        nodes
    }

    async fn kill(&mut self, node: usize) {
        if let Some(daemon) = self.daemons[node].take() {
            daemon.kill().await;
        }
    }

    async fn serve(&mut self, node: usize, site: &Site) {
        let daemon = self.homes[node].serve().await;
        site.urls.lock().unwrap()[node] = daemon.url.clone();
        self.daemons[node] = Some(daemon);
    }

    fn signal(&self, node: usize, signal: Signal) {
        if let Some(daemon) = &self.daemons[node] {
            daemon.signal(signal);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_doubled_or_early() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (seconds, seed) = (number("REVEILLE_CHAOS_SECONDS", 40), number("REVEILLE_CHAOS_SEED", 1));
    println!("REVEILLE_CHAOS_SEED={seed} REVEILLE_CHAOS_SECONDS={seconds}");
    let cluster = Cluster::start(Care::Durable, &[]);
    let mut nodes = Nodes::start(&cluster).await;
    let urls = nodes.daemons.iter().flatten().map(|daemon| daemon.url.clone()).collect();
    let site = Arc::new(Site { urls: Mutex::new(urls), known: Mutex::default(), stop: AtomicBool::new(false) });
    let clients: Vec<_> =
        (0..CLIENTS).map(|client| tokio::spawn(load(site.clone(), client, Random(seed * 1000 + client)))).collect();

    let (mut random, end) = (Random(seed), Instant::now() + Duration::from_secs(seconds));
    let (mut faults, mut outages) = ([0; 5], Vec::new());
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(500 + random.below(1500))).await;
        let (fault, node) = (random.below(12), random.below(NODES as u64) as usize);
        let began = now_ms();
        match fault {
            0..4 => {
                faults[0] += 1;
                nodes.kill(node).await;
                tokio::time::sleep(Duration::from_millis(random.below(1500))).await;
                nodes.serve(node, &site).await;
            }
            4..8 => {
                faults[1] += 1;
                nodes.signal(node, Signal::STOP);
                tokio::time::sleep(Duration::from_millis(200 + random.below(FREEZE_MAX_MS - 200))).await;
                nodes.signal(node, Signal::CONT);
            }
            8 => {
                faults[2] += 1;
                cluster.restart();
                outages.push((began, now_ms()));
            }
            9 => {
                faults[3] += 1;
                cluster.kill();
                cluster.up();
                outages.push((began, now_ms()));
            }
            _ => {
                faults[4] += 1;
                nodes.wires[node].cut();
                tokio::time::sleep(Duration::from_millis(200 + random.below(FREEZE_MAX_MS - 200))).await;
                nodes.wires[node].mend();
            }
        }
    }
    site.stop.store(true, Ordering::Relaxed);
    for client in clients {
        tokio::time::timeout(SETTLE, client).await.expect("a client ends").unwrap();
    }
    let [kills, freezes, restarts, crashes, cuts] = faults;
    println!("kills {kills} freezes {freezes} cuts {cuts} restarts {restarts} crashes of the database {crashes}");
    settle(&site, &cluster).await;
    judge(&cluster, &site, &outages);
    for home in &nodes.homes {
        let log = std::fs::read_to_string(home.log()).unwrap();
        assert!(!log.contains("panicked"), "{log}");
    }
}

/// Until nothing is live and nothing is left to be told. Asked of the database too: a node that was frozen or cut off may
/// carry out a request, once it can, that its client asked again elsewhere and no longer waits for.
async fn settle(site: &Site, cluster: &Cluster) {
    const LEFT: &str = "SELECT (SELECT count(*) FROM reveille.items WHERE ended IS NULL)
                             + (SELECT count(*) FROM reveille.messages WHERE delivered_at IS NULL)";
    let (http, mut random, deadline) = (client(), Random(7), Instant::now() + SETTLE);
    loop {
        let mut open = 0;
        for session in 0..SESSIONS {
            let session = format!("会话{session}");
            take(site, &http, &session, &mut random).await;
            let url = format!("{}/api/sessions/{session}", site.url(&mut random));
            open += match try_send(&http, Method::GET, &url, None, None).await {
                Ok(shown) if shown.status == 200 => {
                    let timers = list(&shown.body["timers"]);
                    let live = timers.iter().filter(|timer| timer["status"] != "completed").count();
                    live + list(&shown.body["inbox"]).len()
                }
                Ok(shown) if shown.status == 404 => 0,
                _ => 1,
            };
        }
        let left = cluster.sql("test_0", LEFT);
        if open == 0 && left == "0" {
            return;
        }
        assert!(Instant::now() < deadline, "{open} timers and messages are still open, {left} by the database");
        if open == 0 {
            println!("nothing is open, but {left} by the database");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn now_ms() -> i64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64
}

/// From when on it could be acted on: outages follow each other, and each may begin before what the last one held up is done.
fn possible(due: i64, outages: &[(i64, i64)]) -> i64 {
    outages.iter().fold(due, |at, (down, up)| if *down < at + LATE_MAX_MS { at.max(*up) } else { at })
}

/// What is written, against what was answered.
fn judge(cluster: &Cluster, site: &Site, outages: &[(i64, i64)]) {
    let known = site.known.lock().unwrap();
    let rows = cluster.sql(
        "test_0",
        "SELECT subject, event, at FROM reveille.history WHERE event IN ('timer.completed', 'message.delivered')",
    );
    let (mut completed, mut delivered): (HashMap<&str, Vec<i64>>, HashMap<&str, usize>) = Default::default();
    for row in rows.lines() {
        let fields: Vec<&str> = row.split('|').collect();
        match fields[1] {
            "timer.completed" => completed.entry(fields[0]).or_default().push(fields[2].parse().unwrap()),
            _ => *delivered.entry(fields[0]).or_default() += 1,
        }
    }
    assert!(completed.values().all(|times| times.len() == 1), "a timer fired twice");
    assert!(delivered.values().all(|times| *times == 1), "a message was delivered twice");
    for timer in completed.keys() {
        let message = timer.replace("timer_", "msg_");
        if !delivered.contains_key(message.as_str()) {
            let shown = format!(
                "SELECT m.*, s.* FROM reveille.sessions s LEFT JOIN reveille.messages m ON m.session = s.num AND m.id = '{message}'
                 WHERE s.num = (SELECT session FROM reveille.items WHERE id = '{timer}')"
            );
            panic!("{message} was never delivered: {}", cluster.sql("test_0", &shown));
        }
    }
    assert_eq!(completed.len(), delivered.len(), "only what fired was delivered");
    for (timer, due) in &known.made {
        let at = completed.get(timer.as_str()).unwrap_or_else(|| panic!("{timer} was acknowledged and is lost"))[0];
        assert!(at >= *due, "{timer} fired {} ms early", due - at);
        let late = at - possible(*due, outages);
        assert!(late <= LATE_MAX_MS, "{timer}, due {due}, fired {late} ms late; outages {outages:?}");
    }
    for message in &known.delivered {
        assert!(delivered.contains_key(message.as_str()), "{message}: its delivery was acknowledged and is lost");
    }
    let seqs = cluster.sql("test_0", "SELECT count(*) = max(seq) FROM reveille.history");
    assert_eq!(seqs, "t", "history has no gap");
    let late = |of: &dyn Fn(i64) -> i64| {
        let mut late: Vec<i64> =
            known.made.iter().map(|(timer, due)| (completed[timer.as_str()][0] - of(*due)).max(0)).collect();
        late.sort_unstable();
        (late[late.len() / 2], late[late.len() - 1])
    };
    let ((median, most), (_, beyond)) = (late(&|due| due), late(&|due| possible(due, outages)));
    println!(
        "{} missions, {} deliveries acknowledged, late by {median} ms (median) to {most} ms, {beyond} ms beyond outages",
        known.made.len(),
        known.delivered.len(),
    );
}
