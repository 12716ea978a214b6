//! The page's own arithmetic, asked of its modules in the browser that runs them.

use super::{
    browser::{Browser, Look},
    support::process::Home,
};
use serde_json::json;

const ASK: &str = "
    const [format, timer, stats, files] = await Promise.all(['lib/format.js', 'lib/timer.js', 'pages/statistics.js', 'parts/export.js']
        .map((name) => import(`/ui/${name}`)));
    const runs = { status: 'running', total_duration: 100, remaining_time: 80, ends_at: 100_000, standby_since: 20_000, standby_until: 60_000 };
    const paused = { ...runs, status: 'paused', pause_until: 500_000, ends_at: 580_000 };
    const done = { status: 'completed', total_duration: 100, remaining_time: 0, ends_at: 100_000 };
    const night = { ...runs, ends_at: 80_000, waits_until: 600_000 };
    const until = { tcp: 'localhost:5432' };
    const hour = 3_600_000, noon = new Date(2026, 10, 16, 12).getTime();
    const days = stats.byDay([
        { hour: noon - 24 * hour, timers_created: 2, slept: 0.5 }, { hour: noon - 23 * hour, timers_created: 3, slept: 1 },
        { hour: noon, timers_created: 7 }, { hour: noon - 90 * 24 * hour, timers_created: 1000 },
    ], 3, noon);
    return {
        countdowns: [0, 1, 999, 7000, 245_000, 3_723_000, 277_500_000, -5].map(format.countdown),
        lengths: [0, 0.25, 45, 245, 300, 3720, 3600, 100_000, 86_400].map(format.length),
        remaining: [timer.remaining(runs, 30_000), timer.remaining(runs, 200_000), timer.remaining(paused, 90_000), timer.remaining(done, 0)],
        progress: [timer.progress(runs, 30_000), timer.progress(paused, 90_000), timer.progress(done, 0), timer.progress({ ...runs, total_duration: 0 }, 0)],
        opens: [timer.opensAt(runs), timer.opensAt(night), timer.left(night, 90_000), timer.left(paused, 90_000),
            timer.opensAt({ status: 'scheduled', dueAt: new Date(5000).toISOString(), waitsUntil: new Date(9000).toISOString() }),
            timer.opensAt({ status: 'pending', next_trigger_at: 9000, waits_since: 5000 })],
        waits: [timer.waits(runs), timer.waits(night).includes('waits for'), timer.waits({ ...night, status: 'completed' })],
        conditions: [timer.condition(runs), timer.condition({ ...runs, until }), timer.condition({ ...done, until, met: true }), timer.condition({ ...done, until, met: false })],
        standby: [timer.standby(runs, 30_000), timer.standby(runs, 60_000), timer.standby(paused, 30_000)],
        created: days.map(({ sums }) => sums.timers_created ?? 0),
        slept: days.map(({ sums }) => sums.slept ?? 0),
        csv: files.csv([{ seq: 1, at: 0, session: '=cmd', kind: 'timer', id: 'a,b', event: 'timer.created', data: { mission: 'say \"hi\"\\n🙂' } }]),
    };";

#[tokio::test(flavor = "multi_thread")]
async fn times_and_tables_are_right() {
    let home = Home::default();
    let server = home.serve().await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&server.url).await;
    let said = browser.wait_for(ASK).await;
    let expected = json!({
        "countdowns": ["0:00", "0:01", "0:01", "0:07", "4:05", "1:02:03", "3d 05:05", "0:00"],
        "lengths": ["0s", "250ms", "45s", "4m 05s", "5m", "1h 02m", "1h", "1d 3h", "1d"],
        "remaining": [70_000, 0, 80_000, 0],
        "progress": [0.3, 0.2, 1, 1],
        "opens": [100_000, 600_000, 510_000, 80_000, 9000, 9000],
        "waits": ["", true, ""],
        "conditions": ["", "until localhost:5432 takes connections", "met: localhost:5432 takes connections",
            "not met: localhost:5432 takes connections"],
        "standby": [{"from": 0.2, "to": 0.6, "at": 0.3, "left": 30_000}, null, null],
        "created": [0, 5, 7],
        "slept": [0, 1.5, 0],
    });
    for (name, wanted) in expected.as_object().unwrap() {
        assert!(close(&said[name], wanted), "{name}: {} is not {wanted}", said[name]);
    }
    let row = "1,1970-01-01T00:00:00.000Z,'=cmd,timer,\"a,b\",timer.created,\"{\"\"mission\"\":\"\"say \\\"\"hi\\\"\"\\n🙂\"\"}\"";
    assert_eq!(said["csv"].as_str().unwrap(), format!("seq,at,session,kind,id,event,data\r\n{row}"));
    browser.quiet().await;
    browser.close().await;
}

/// The same, but for what floating point leaves behind.
fn close(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    match (one, other) {
        (serde_json::Value::Array(one), serde_json::Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| close(one, other))
        }
        (serde_json::Value::Object(one), serde_json::Value::Object(other)) => {
            one.len() == other.len() && other.iter().all(|(name, value)| close(&one[name], value))
        }
        _ => match (one.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => (one - other).abs() < 1e-9,
            _ => one == other,
        },
    }
}
