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

/// A load on a server that answers when we say so.
const LOADS: &str = "
    const { oneAtATime } = await import('/ui/lib/load.js');
    const tick = () => new Promise((done) => setTimeout(done));
    const runs = [];
    const load = oneAtATime((signal) => new Promise((done) => runs.push({ done, signal })));
    load(); load(); load();
    const atOnce = runs.length;
    runs[0].done();
    await tick();
    const afterwards = runs.length;
    load(); load.anew();
    const anew = [runs.length, runs[1].signal.aborted, runs[2].signal.aborted];
    // What was given up ends late, and counts for nothing.
    runs[1].done();
    await tick();
    load();
    const still = runs.length;
    runs[2].done();
    await tick();
    return { atOnce, afterwards, anew, still, last: runs.length };";

/// Requests from now on, and how many of the same were ever under way at once.
const COUNT: &str = "
    const real = window.fetch, under = {};
    window.asked = []; window.most = 0;
    window.fetch = async (url, options) => {
        const path = new URL(url).pathname + new URL(url).search;
        asked.push(path);
        under[path] = (under[path] ?? 0) + 1;
        most = Math.max(most, under[path]);
        try {
            const answer = await real(url, options);
            await new Promise((done) => setTimeout(done, 300));
            return answer;
        } finally { under[path] -= 1; }
    };";

#[tokio::test(flavor = "multi_thread")]
async fn loads_never_overlap_and_read_what_has_changed() {
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    other.mission("there already", 600, "wait").await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/sessions", server.url)).await;
    browser.until("it is connected", LIVE).await;
    let expected = json!({"atOnce": 1, "afterwards": 2, "anew": [3, true, false], "still": 3, "last": 4});
    assert_eq!(browser.wait_for(LOADS).await, expected);

    let rows = "[...document.querySelectorAll('.session-row:not([hidden])')].map((row) => row.textContent).join()";
    browser.until("the first", &format!("{rows}.includes('there already')")).await;
    browser.run(COUNT, json!([])).await;
    for round in 0..4 {
        for session in ["one, &两", "two"] {
            other.mission(session, 600, &format!("round {round}")).await;
        }
        browser.wait_for("await new Promise((done) => setTimeout(done, 350)); return 1").await;
    }
    browser
        .until("all are counted", &format!("{rows}.split('4 timers').length === 3 && {rows}.includes('one, &两')"))
        .await;
    let seen =
        browser.run("return [most, asked.filter((path) => path.includes('limit=1000')).length]", json!([])).await;
    assert_eq!(seen, json!([1, 0]), "one at a time, and not all sessions anew");
    for page in ["deliveries", "agents", "sessions/two"] {
        browser.run("most = 0; location.hash = `#/${arguments[0]}`", json!([page])).await;
        for _ in 0..4 {
            other.mission("two", 1, "soon").await;
            browser.wait_for("await new Promise((done) => setTimeout(done, 350)); return 1").await;
        }
        let most = browser.run("return most", json!([])).await;
        assert_eq!(most, 1, "{page}: {}", browser.run("return asked.join('\\n')", json!([])).await);
    }
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_page_leaves_out_it_says() {
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    for number in 0..52 {
        other.put(&format!("/api/agents/acme/bot-{number:02}"), json!({})).await;
    }
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/agents", server.url)).await;
    let others = "document.querySelector('.others:not([hidden])')?.textContent";
    let said = browser.until("the others are named", others).await;
    assert!(
        said.as_str().unwrap().contains("2 more agents") && said.as_str().unwrap().contains("acme:bot-51"),
        "{said}"
    );
    // A server with more sessions than a page holds.
    let many = "
        const real = window.fetch;
        let number = 0;
        window.fetch = async (url, options) => {
            if (!new URL(url).search.includes('limit=1000')) return real(url, options);
            const session = () => ({ session: `s-${number += 1}`, state: 'open', active_at: 0, live_timers: 1, live_reminders: 0 });
            return Response.json({ sessions: Array.from({ length: 1000 }, session), next: 7 });
        };
        location.hash = '#/sessions';";
    browser.run(many, json!([])).await;
    let count = "document.querySelector('.page-sessions .filter-count')?.textContent === '10,000 sessions of the newest 10,000'";
    browser.until("it says that there are more", count).await;
    browser.quiet().await;
    browser.close().await;
}
