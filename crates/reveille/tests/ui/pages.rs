//! Pages that tell of everything at once: a session's timeline, agents, statistics, deliveries that are made again.

use super::{
    Other,
    browser::{Browser, Look},
    support::{
        endpoint::{Answer, Endpoints},
        process::Home,
    },
};
use serde_json::{Value, json};

const EVIL: &str = "<img src=x onerror=\"document.title='broken'\">";

/// An agent whose timers fire at once, whose tool works and whose webhook does not.
async fn agent(other: &Other, base: &str) {
    let config = json!({
        "model": "gpt-5", "system_prompt": "你是客服。",
        "tools": [
            {"name": "handoff_to", "description": "转人工", "endpoint": {"url": format!("{base}/handoff"), "headers": {"x-team": "support"}, "timeout": "5s"},
             "parameters": {"type": "object", "properties": {"type": {"type": "string"}}}},
            {"name": "close_conversation", "endpoint": format!("{base}/close")},
        ],
        "system_actions": ["handoff_to", "close_conversation"],
        "timers": [
            {"timer_id": "idle", "delay_seconds": 1, "max_triggers": 1, "tool_name": "generate_response", "message": "还在吗？ 🙂"},
            {"timer_id": "handoff", "delay_seconds": 2, "tool_name": "handoff_to", "tool_params": {"type": "vip"}},
            {"timer_id": "close", "delay_seconds": 3600, "tool_name": "close_conversation"},
        ],
        "webhooks": [{"url": format!("{base}/hook"), "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}],
    });
    other.put("/api/agents/acme/support", config).await;
}

async fn turn(other: &Other, session: &str, text: &str) {
    let path = format!("/api/sessions/{session}/activity");
    other.post(&path, json!({"agent": "acme:support", "phase": "message", "text": text})).await;
    other.post(&path, json!({"agent": "acme:support", "phase": "response", "text": "Here it is."})).await;
}

/// Titles of the timeline's rows: what is to come, from the farthest; what has been, from the newest.
/// Their text as it is, drawn or not: rows out of sight are not laid out.
fn rows(state: &str) -> String {
    format!("[...document.querySelectorAll('.moment[data-state={state}]')].map((row) => row.textContent)")
}

/// One of the choices above a list.
async fn choose(browser: &Browser, label: &str) {
    let button = format!("[...document.querySelectorAll('.segment')].find((one) => one.textContent === '{label}')");
    browser.until(label, &format!("!!{button}")).await;
    browser.run(&format!("{button}.click()"), json!([])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_one_timeline() {
    let endpoints = Endpoints::start().await;
    endpoints.answers("/hook", &[Answer::Says(410, "gone".into())]);
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    agent(&other, &endpoints.url).await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/sessions/chat", server.url)).await;
    browser
        .until("nothing yet", "document.querySelector('#main')?.innerText.includes('Nothing is known of a session')")
        .await;
    browser.log().await; // that it is unknown is in it
    turn(&other, "chat", EVIL).await;
    other.mission("chat", 600, "看一看部署 ☕").await;
    other.post("/api/reminders", json!({"session": "chat", "task": "备份", "in": "1h"})).await;

    // What is to come, of every kind, the soonest next to now.
    let ahead = browser.until("all three kinds are ahead", &format!("(() => {{ const found = {}; return found.length >= 3 && found.some((one) => one.includes('close →')) && found.some((one) => one.includes('备份')) && found; }})()", rows("coming"))).await;
    let last = ahead.as_array().unwrap().last().unwrap().as_str().unwrap();
    assert!(!last.contains("close"), "the soonest is the last before now: {ahead}");
    // What has been: what was said, what fired, what was called, what failed.
    for part in [
        "Here it is.",
        "还在吗？ 🙂",
        "Session timer triggered",
        "handoff → handoff_to",
        "Call failed",
        "answered 410",
        "Timer created",
        "Reminder scheduled",
    ] {
        browser.until(part, &format!("{}.some((row) => row.includes({}))", rows("past"), json!(part))).await;
    }
    let said = "document.querySelector('.moment[data-role=user] .moment-text')?.textContent";
    assert_eq!(browser.run(&format!("return {said}"), json!([])).await, EVIL);

    // Newest first, without an exception.
    let order = "[...document.querySelectorAll('.moment[data-state=past] time')].map((time) => time.dateTime)";
    let times = browser.run(&format!("return {order}"), json!([])).await;
    let times: Vec<&str> = times.as_array().unwrap().iter().map(|time| time.as_str().unwrap()).collect();
    assert!(times.iter().rev().is_sorted(), "{times:?}");

    // Live, and the row that was there stays the same element.
    browser.run("window.kept = document.querySelector('.moment[data-role=user]')", json!([])).await;
    let path = "/api/sessions/chat/activity";
    other.post(path, json!({"agent": "acme:support", "phase": "message", "text": "第二句"})).await;
    browser.until("the second", &format!("{}.some((row) => row.includes('第二句'))", rows("past"))).await;
    assert_eq!(browser.run("return window.kept.isConnected", json!([])).await, Value::Bool(true));
    browser
        .until(
            "its timers wait for the answer",
            "document.querySelector('.wait[data-id^=st_]')?.innerText.includes('the agent answers')",
        )
        .await;

    // Actionable on top: the reminder is cancelled by its card.
    browser.click(".wait[data-id^=task_] .button").await;
    browser.until("it is cancelled", &format!("{}.some((row) => row.includes('Reminder cancelled')) && !document.querySelector('.wait[data-id^=task_]')", rows("past"))).await;

    // One kind alone.
    choose(&browser, "Calls").await;
    browser.until("calls only", "(() => { const rows = [...document.querySelectorAll('.moment[data-state=past]')]; return rows.length && rows.every((row) => row.dataset.kind === 'call'); })()").await;
    assert_eq!(browser.run("return document.querySelectorAll('#main img').length", json!([])).await, 0);
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_shown_with_what_they_do_and_what_failed() {
    let endpoints = Endpoints::start().await;
    endpoints.answers("/hook", &[Answer::Says(410, "gone".into())]);
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    agent(&other, &endpoints.url).await;
    turn(&other, "chat-李雷", EVIL).await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/agents", server.url)).await;
    let card = "document.querySelector('.agent[data-id=\"acme:support\"]')?.innerText";
    for part in [
        "idle → generate_response",
        "after 1s, at most 1×",
        "还在吗？ 🙂",
        "转人工",
        "/handoff",
        "within 5s",
        "system action",
        "closes the session",
        "/hook",
        "rounds of tools",
        "gpt-5",
        "chat-李雷",
        "1 timer armed",
        "2 firings",
    ] {
        browser.until(part, &format!("{card}?.includes({})", json!(part))).await;
    }
    browser.until("the errors", &format!("{card}.includes('answered 410') && {card}.includes('3 failed calls')")).await;
    assert_eq!(
        browser.run("return document.body.innerHTML.includes('MfKQ9r8GKYqr')", json!([])).await,
        Value::Bool(false)
    );

    // The endpoint is there again: made once more, the call succeeds and is no error any longer.
    endpoints.answers("/hook", &[Answer::Says(200, "{}".into())]);
    let buttons = "document.querySelectorAll('.agent-doings .button').length";
    for left in (0..3).rev() {
        browser.click(".agent-doings .button").await;
        browser.until("one less", &format!("{buttons} === {left}")).await;
    }
    browser.until("none is left", &format!("{card}.includes('None failed.') && !{card}.includes('failed call')")).await;
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_tried_again_is_shown_as_failing() {
    let endpoints = Endpoints::start().await;
    endpoints.answers("/hook", &[Answer::Says(503, "busy".into())]);
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    agent(&other, &endpoints.url).await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/agents", server.url)).await;
    let open = "document.querySelector('.agent details')";
    browser.until("what it is", &format!("!!{open}")).await;
    browser.run(&format!("{open}.open = true"), json!([])).await;
    turn(&other, "chat", "你好").await;
    let card = "document.querySelector('.agent').innerText";
    browser.until("the agent's call fails", &format!("{card}.includes('retrying') && {card}.includes('503')")).await;
    browser.until("it says so", &format!("{card}.includes(' failing')")).await;
    assert_eq!(browser.run(&format!("return {open}.open"), json!([])).await, true, "what was opened stays open");

    browser.run("location.hash = '#/deliveries'", json!([])).await;
    choose(&browser, "Failures").await;
    let rows = "[...document.querySelectorAll('.delivery')]";
    browser
        .until(
            "among the failures",
            &format!(
                "{rows}.some((row) => row.innerText.includes('retrying') && row.innerText.includes('next attempt'))"
            ),
        )
        .await;
    browser.run("location.hash = '#/'", json!([])).await;
    browser.until("the tile", "Number(document.querySelector('[data-tile=failed] dd')?.textContent) > 0").await;
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_makes_no_sense_is_shown_beside_the_last_good_one() {
    let home = Home::default();
    let good = "[[agent]]\ntenant = \"acme\"\nchatbot = \"support\"\n[[agent.timers]]\ntimer_id = \"idle\"\ndelay_seconds = 300\ntool_name = \"generate_response\"\nmessage = \"还在吗\"\n";
    home.write_config(good);
    let server = home.serve().await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/agents", server.url)).await;
    browser.until("the agent", "document.querySelector('.agent')?.innerText.includes('from the configuration')").await;
    home.write_config(&good.replace("generate_response", "no_such_tool"));
    browser.until("what is wrong", "document.querySelector('.notice')?.innerText.includes('tool_name')").await;
    assert_eq!(
        browser.run("return !!document.querySelector('.agent[data-id=\"acme:support\"]')", json!([])).await,
        true
    );
    home.write_config(good);
    browser.until("it is right again", "!document.querySelector('.notice')").await;
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_draw_lateness_by_day() {
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/statistics", server.url)).await;
    let chart = "[...document.querySelectorAll('figure')].find((one) => one.innerText.includes('Lateness: how long'))";
    browser
        .until(
            "the chart",
            &format!("{chart}?.querySelector('svg').getAttribute('aria-label').includes('nothing yet')"),
        )
        .await;
    for _ in 0..3 {
        other.mission("late", 1, "看 ☕").await;
    }
    // It follows what happens; of the last day there is a column, and the table has the same numbers.
    browser
        .until(
            "three came",
            &format!(
                "(() => {{ const label = {chart}?.querySelector('svg').getAttribute('aria-label') ?? ''; \
        const numbers = [...label.matchAll(/(?:ms|s|min|later) (\\d+)/g)].map(([, number]) => Number(number)); \
        return numbers.length === 5 && numbers.reduce((sum, one) => sum + one, 0) === 3; }})()"
            ),
        )
        .await;
    assert_eq!(
        browser.run(&format!("return {chart}.querySelectorAll('.chart-bar').length > 0"), json!([])).await,
        true
    );
    let cells = browser.run(&format!("return [...{chart}.querySelectorAll('tbody tr:last-child td')].map((cell) => Number(cell.textContent)).reduce((sum, one) => sum + one, 0)"), json!([])).await;
    assert_eq!(cells, 3);
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_that_failed_are_made_again() {
    let endpoints = Endpoints::start().await;
    endpoints.answers("/hook", &[Answer::Says(410, "gone".into())]);
    let home = Home::default();
    let mark = home.dir.path().join("mended");
    home.write_config(&format!(
        "[wake.sleeper]\nmatch = \"sleeper\"\ncommand = [\"/bin/sh\", \"-c\", \"cat > /dev/null; test -e {} || {{ echo not yet; exit 1; }}; echo awake\"]\ngrace = \"1s\"\nretries = 0\n",
        mark.display()
    ));
    let server = home.serve().await;
    let other = Other::of(&server.url);
    agent(&other, &endpoints.url).await;
    turn(&other, "chat", "你好").await;
    other.mission("sleeper", 1, "wake up").await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/deliveries", server.url)).await;
    let row = |text: &str| {
        format!("[...document.querySelectorAll('.delivery')].find((row) => row.innerText.includes({}))", json!(text))
    };
    browser.until("the command failed", &format!("{}?.innerText.includes('not yet')", row("wake:sleeper"))).await;
    browser.until("the webhook failed", &format!("{}?.innerText.includes('answered 410')", row("webhook:"))).await;

    std::fs::write(&mark, "").unwrap();
    endpoints.answers("/hook", &[Answer::Says(200, "{}".into())]);
    browser.run(&format!("{}.querySelector('button').click()", row("wake:sleeper")), json!([])).await;
    browser.until("it is told", "document.body.innerText.includes('awake')").await;
    choose(&browser, "Webhooks").await;
    let failed = "[...document.querySelectorAll('.delivery button')]";
    browser.until("only webhooks", &format!("!{}", row("wake:sleeper"))).await;
    browser.run(&format!("{failed}.forEach((button) => button.click())"), json!([])).await;
    browser
        .until(
            "none failed any more",
            &format!("!{failed}.length && {}.innerText.includes('delivered')", row("webhook:")),
        )
        .await;
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reminders_are_set_and_calls_are_found_in_the_history() {
    let endpoints = Endpoints::start().await;
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    agent(&other, &endpoints.url).await;
    turn(&other, "chat", "你好").await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/reminders", server.url)).await;
    browser.click(".page-head .button").await;
    browser.fill("dialog input[name=session]", "ops").await;
    browser.fill("dialog textarea[name=task]", EVIL).await;
    browser.fill("dialog input[name=in]", "later").await;
    browser.click("dialog button[type=submit]").await;
    browser
        .until(
            "the mistake is explained",
            "document.querySelector('dialog [role=alert]')?.textContent.includes('later')",
        )
        .await;
    browser.log().await; // the refusal is in it
    browser.fill("dialog input[name=in]", "20m").await;
    browser.click("dialog button[type=submit]").await;
    browser
        .until("it is there", "document.querySelector('.reminder-row .row-purpose')?.textContent.includes('onerror')")
        .await;
    let made = &other.get("/api/reminders").await["reminders"][0];
    assert_eq!((made["session"].as_str(), made["task"].as_str()), (Some("ops"), Some(EVIL)));

    browser.goto(&format!("{}/#/history", server.url)).await;
    choose(&browser, "Calls").await;
    browser.until("calls and nothing else", "(() => { const rows = [...document.querySelectorAll('.event-row:not([hidden])')]; return rows.length >= 2 && rows.every((row) => row.dataset.kind === 'call'); })()").await;
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_recurs_is_set_and_seen() {
    let home = Home::default();
    let server = home.serve().await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/timers", server.url)).await;
    browser.until("the page", "!!document.querySelector('.keys')").await;
    browser.press("n").await;
    browser.fill("dialog input[name=session]", "daily").await;
    let pick = "const when = document.querySelector('dialog select[name=when]'); when.value = 'every'; when.dispatchEvent(new Event('change', { bubbles: true }))";
    browser.run(pick, json!([])).await;
    let shown = "[...document.querySelectorAll('dialog .field:not([hidden]) [name]')].map((one) => one.name).join()";
    assert_eq!(
        browser.run(&format!("return {shown}"), json!([])).await,
        "session,when,every,max_fires,catch_up,zone,mission"
    );
    browser.fill("dialog input[name=every]", "0 9 * * 1-5").await;
    browser.fill("dialog input[name=max_fires]", "10").await;
    browser.fill("dialog input[name=zone]", "Asia/Shanghai").await;
    browser.fill("dialog textarea[name=mission]", "晨报 ☕").await;
    browser.click("dialog button[type=submit]").await;
    let said = browser.until("its row", "document.querySelector('.timer-row .row-schedule')?.textContent").await;
    assert_eq!(said, "every 0 9 * * 1-5 (Asia/Shanghai), 10 times");
    let timer = &Other::of(&server.url).get("/api/timers").await["timers"][0];
    assert_eq!((timer["schedule"]["max_fires"].as_u64(), timer["mission"].as_str()), (Some(10), Some("晨报 ☕")));

    // Its next times are ahead in the session, the soonest next to now.
    browser.run("location.hash = '#/sessions/daily'", json!([])).await;
    let ahead = format!("(() => {{ const found = {}; return found.length === 5 && found; }})()", rows("coming"));
    let ahead = browser.until("five times", &ahead).await;
    assert!(
        ahead[4].as_str().unwrap().contains("Timer fires") && ahead[4].as_str().unwrap().contains("晨报 ☕"),
        "{ahead}"
    );
    assert!(!ahead[4].as_str().unwrap().contains("again") && ahead[0].as_str().unwrap().contains("again"), "{ahead}");
    let card = "document.querySelector('reveille-timer')?.shadowRoot.querySelector('.when')?.textContent";
    assert_eq!(browser.run(&format!("return {card}"), json!([])).await, said);
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demonstration_shows_all_six_tools_and_messages() {
    let home = Home::default();
    let server = home.serve().await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/ui/embed.html", server.url)).await;
    browser.click("#make").await;
    let tools = "[...document.querySelectorAll('reveille-timer')].map((one) => one.shadowRoot.querySelector('.tool')?.textContent)";
    let wanted = json!(["Timer", "Read timer", "Pause timer", "Resume timer", "Cancel timer", "Stop timer"]);
    browser.until("all six", &format!("JSON.stringify({tools}) === JSON.stringify({wanted})")).await;
    let fields = browser
        .run(
            "return document.querySelector('reveille-timer[tool=read_timer]').shadowRoot.querySelector('dl').innerText",
            json!([]),
        )
        .await;
    for field in ["timer", "state", "mission", "total", "elapsed", "remaining", "created", "last looked at"] {
        assert!(fields.as_str().unwrap().contains(field), "{field}: {fields}");
    }
    let of = |tool: &str, part: &str| {
        format!("document.querySelector('reveille-timer[tool={tool}]').shadowRoot.querySelector('{part}')")
    };
    browser.run(&format!("{}.click()", of("timer", "[data-action=pause]")), json!([])).await;
    for tool in ["timer", "read_timer", "stop_timer"] {
        browser.until("every row follows", &format!("{}.textContent === 'paused'", of(tool, ".status"))).await;
    }
    browser.run(&format!("{}.click()", of("timer", "[data-action=stop]")), json!([])).await;
    browser.until("stopped", &format!("{}.textContent === 'stopped'", of("resume_timer", ".status"))).await;
    // A message as it is delivered.
    let other = Other::of(&server.url);
    other.mission("embed-demo", 1, "看 ☕").await;
    let row = "document.querySelector('reveille-message')?.shadowRoot.querySelector('.message')?.innerText";
    browser.until("it waits", &format!("{row}?.includes('看 ☕') && {row}.includes('waiting in the inbox')")).await;
    other.post("/api/sessions/embed-demo/tools/read_timer", json!({})).await;
    browser.until("it is delivered", &format!("{row}.includes('delivered by')")).await;
    browser.quiet().await;
    browser.close().await;
}
