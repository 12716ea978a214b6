//! The page through mistakes and bad moments: a listener that fails, answers that come late, connections that end, logs that
//! grow.

use super::{
    Other,
    browser::{Browser, Look},
    support::process::{Daemon, Home},
};
use serde_json::json;

const LIVE: &str = "document.querySelector('.live-dot')?.dataset.state === 'live'";

#[tokio::test(flavor = "multi_thread")]
async fn one_listener_that_fails_stops_no_other() {
    let home = Home::default();
    let server = home.serve().await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&server.url).await;
    browser.until("it is connected", LIVE).await;
    let listen = "
        const [{ server }, { onTick }] = await Promise.all([import('/ui/lib/server.js'), import('/ui/lib/clock.js')]);
        window.heard = []; window.ticks = 0;
        let calm = false;
        server().onEvent(() => { throw new Error('a mistake in a listener'); });
        server().onEvent((entry) => heard.push(entry.event));
        onTick(() => { if (calm) throw new Error('a mistake at a tick'); });
        onTick(() => { ticks += 1; });
        calm = true;
        return 1;";
    assert_eq!(browser.wait_for(listen).await, 1);
    Other::of(&server.url).mission("s", 1, "看 ☕").await;
    browser.until("all of it is heard", "heard.includes('timer.created') && heard.includes('timer.completed')").await;
    browser.until("the clock goes on", "ticks > 4").await;
    browser.until("the feed too", "document.querySelector('.said')?.textContent.includes('看 ☕')").await;
    let log = browser.log().await.join("\n");
    assert!(log.contains("a mistake in a listener") && log.contains("a mistake at a tick"), "mistakes are seen: {log}");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_goes_on_after_a_reminder_was_delivered() {
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    let browser = Browser::open(Look::default()).await;
    browser.goto(&server.url).await;
    browser.until("it is connected", LIVE).await;
    // A listener that comes after the feed's, and the connection itself: neither is hurt by what the feed makes of an entry.
    let listen = "
        const { home } = await import('/ui/lib/model.js');
        window.states = []; window.heard = [];
        home.addEventListener('state', () => states.push(home.state));
        home.onEvent(({ event }) => heard.push(event));
        return 1;";
    assert_eq!(browser.wait_for(listen).await, 1);
    other.post("/api/reminders", json!({"session": "agent", "task": "检查备份 🙂", "in": 1})).await;
    let rows = |text: &str| {
        format!(
            "[...document.querySelectorAll('.said')].filter((row) => row.textContent.includes({})).length",
            json!(text)
        )
    };
    browser.until("it is due", &format!("{} === 1", rows("检查备份 🙂"))).await;
    // Told with the next answer of a tool.
    let told = other.post("/api/sessions/agent/tools/read_timer", json!({})).await;
    assert_eq!(told["messages"].as_array().map(Vec::len), Some(1), "{told}");
    browser.until("it is told", "document.querySelector('.said[data-told]')?.textContent.includes('told by')").await;
    assert_eq!(browser.run(&format!("return {}", rows("检查备份 🙂")), json!([])).await, 1, "one row for one message");
    other.mission("agent", 1, "and then this").await;
    browser.until("what comes after it comes too", &format!("{} === 1", rows("and then this"))).await;
    let seen = browser.run("return [heard.includes('reminder.delivered'), states.length]", json!([])).await;
    assert_eq!(seen, json!([true, 0]), "it was heard by all, and the connection was never lost");
    browser.quiet().await;
    browser.close().await;
}

/// The page's own collection on a server of our making: what a slow answer and a lost one do to it.
const RACE: &str = "
    const { Collection } = await import('/ui/lib/collection.js');
    const tick = (ms = 0) => new Promise((done) => setTimeout(done, ms));
    class Slow extends EventTarget {
        state = 'connecting'; asked = []; listeners = [];
        onEvent(listener) { this.listeners.push(listener); }
        get(path, params) { return new Promise((answer, refuse) => this.asked.push({ params, answer, refuse })); }
        event(id) { this.listeners.forEach((listener) => listener({ kind: 'timer', id })); }
        async next() { while (!this.asked.length) await tick(5); return this.asked.shift(); }
    }
    const server = new Slow();
    const of = { kind: 'timer', path: '/x', field: 'timers', idOf: (one) => one.id, isLive: (one) => one.status === 'running', exists: async () => true };
    const collection = new Collection(server, of);
    const one = (id, status) => ({ id, status });
    collection.load();
    (await server.next()).answer({ timers: [one('a', 'running')] });
    const slow = await server.next();
    // It changes while the whole is being read: the whole is old by then.
    server.event('a');
    await tick(200);
    const early = server.asked.length;
    slow.answer({ timers: [one('a', 'running')] });
    const again = await server.next();
    again.answer({ timers: [one('a', 'stopped')] });
    await tick(50);
    const afterRace = collection.items.get('a').status;
    // An answer that never came is asked for again.
    server.event('b');
    (await server.next()).refuse(new Error('no'));
    (await server.next()).answer({ timers: [one('b', 'running')] });
    await tick(50);
    const b = collection.items.get('b')?.status;
    // Of two loads, the later one counts, whichever ends last.
    collection.load(); const first = await server.next();
    collection.load(); const second = await server.next();
    second.answer({ timers: [] });
    (await server.next()).answer({ timers: [one('new', 'running')] });
    first.answer({ timers: [one('old', 'running')] });
    await tick(50);
    const afterLoads = [...collection.items.keys()];
    const stray = server.asked.splice(0).length;
    return { early, ids: again.params.id, afterRace, b, afterLoads, stray };";

/// The same of the log of entries.
const LOG: &str = "
    const { Log } = await import('/ui/lib/log.js');
    const log = new Log(5);
    const page = (...seqs) => seqs.map((seq) => ({ seq }));
    log.add({ seq: 9 });
    log.begin(page(8, 7), 2);
    const begun = log.entries.map(({ seq }) => seq);
    const twice = log.add({ seq: 9 });
    log.older(page(6), 2);
    const more = log.more;
    log.add({ seq: 10 }); log.add({ seq: 11 });
    return { begun, twice, more, kept: log.entries.map(({ seq }) => seq), moreAgain: log.more, full: log.isFull };";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_neither_stale_nor_endless() {
    let home = Home::default();
    let server = home.serve().await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&server.url).await;
    browser.until("it is connected", LIVE).await;
    let seen = browser.wait_for(RACE).await;
    let expected =
        json!({"early": 0, "ids": "a", "afterRace": "stopped", "b": "running", "afterLoads": ["new"], "stray": 0});
    assert_eq!(seen, expected);
    let expected = json!({"begun": [9, 8, 7], "twice": false, "more": false, "kept": [11, 10, 9, 8, 7],
        "moreAgain": true, "full": true});
    assert_eq!(browser.wait_for(LOG).await, expected);
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_true_after_the_server_was_away() {
    let home = Home::default();
    home.write_config("listen = \"127.0.0.1:0\"\n");
    let server = home.serve().await;
    let address = server.url.trim_start_matches("http://").to_owned();
    let other = Other::of(&server.url);
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/timers", server.url)).await;
    browser.until("it is connected", LIVE).await;
    let short = other.mission("away", 12, "ends meanwhile").await;
    other.mission("away", 600, "stays").await;
    browser.until("both", "document.querySelector('.filter-count')?.textContent === '2 timers'").await;
    server.kill().await;
    browser.until("it says that it is not connected", "!document.querySelector('.lost').hidden").await;
    let restarted = || {
        let mut command = home.command(&["serve", "--listen", &address]);
        command.stderr(std::process::Stdio::null());
        command
    };
    let server = Daemon::start(restarted()).await;
    // Ends before the page is back, or after: either way it is seen.
    browser.until("one has gone", "document.querySelector('.filter-count').textContent === '1 timer'").await;
    browser.until("it is connected again", "document.querySelector('.lost').hidden").await;
    browser.run("location.hash = '#/history'", json!([])).await;
    browser
        .until(
            "the end is in the history",
            &format!("document.querySelector('[data-event=\"timer.completed\"]')?.textContent.includes('{short}')"),
        )
        .await;
    drop(server);
    browser.close().await;
}
