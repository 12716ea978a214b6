//! Everything that is pending, of all three kinds, as one list: what `watch` and the status line show.

use super::{Failure, client::Client, show};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Timer,
    Reminder,
    SessionTimer,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Timer => "timer",
            Kind::Reminder => "reminder",
            Kind::SessionTimer => "session_timer",
        }
    }

    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Kind::Timer => "timer",
            Kind::Reminder => "reminder",
            Kind::SessionTimer => "session timer",
        }
    }

    /// Where the server lists them, and by what name.
    pub const fn list(self) -> (&'static str, &'static str) {
        match self {
            Kind::Timer => ("/api/timers", "timers"),
            Kind::Reminder => ("/api/reminders", "reminders"),
            Kind::SessionTimer => ("/api/session_timers", "session_timers"),
        }
    }
}

/// One thing that waits for its time.
#[derive(Clone, Debug)]
pub struct Pending {
    pub kind: Kind,
    pub id: String,
    pub session: String,
    /// What it is for, on one line.
    pub text: String,
    pub status: String,
    /// When it comes: it ends, is due or fires, after quiet hours if those are in the way; a timer that is paused: if it
    /// resumes by itself. None: its agent is at work.
    pub at: Option<i64>,
    /// When its own time is over.
    due: Option<i64>,
    /// What delays it, or what was seen of what it waits for.
    pub note: String,
    /// What happens to it next, for the order of the list.
    next: Option<i64>,
    /// Seconds, for what is paused: its time stands still.
    frozen: Option<f64>,
    /// Seconds from its beginning to its end.
    pub total: f64,
    pub standby_until: Option<i64>,
}

impl Pending {
    /// Seconds left.
    pub fn remaining(&self, now: i64) -> f64 {
        let running = || self.at.map_or(self.total, |at| ((at - now) as f64 / 1000.0).max(0.0));
        self.frozen.unwrap_or_else(running)
    }

    /// Seconds of its own time that are left: quiet hours do not make that longer.
    pub fn own_time_left(&self, now: i64) -> f64 {
        if self.is_quiet() {
            self.due.map_or(0.0, |due| ((due - now) as f64 / 1000.0).max(0.0))
        } else {
            self.remaining(now)
        }
    }

    /// It waits for the end of quiet hours.
    pub fn is_quiet(&self) -> bool {
        self.at > self.due
    }

    pub fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    fn of(kind: Kind, item: &Value) -> Self {
        let text = |name: &str| item[name].as_str().map(show::clean).unwrap_or_default();
        let seconds = |name: &str| item[name].as_f64();
        let instant = |name: &str| item[name].as_i64();
        let seen = text("seen");
        let common = |id: &str, text: String, total: Option<f64>, due: Option<i64>, opens: Option<i64>| Self {
            kind,
            id: item[id].as_str().unwrap_or_default().to_owned(),
            session: item["session"].as_str().unwrap_or_default().to_owned(),
            text,
            status: item["status"].as_str().unwrap_or_default().to_owned(),
            at: due.max(opens),
            due,
            note: if opens > due { "waits for the end of quiet hours".into() } else { seen.clone() },
            next: due.max(opens),
            frozen: None,
            total: total.unwrap_or(0.0),
            standby_until: None,
        };
        match kind {
            Kind::Timer => {
                let paused = item["status"] == "paused";
                let opens = instant("waits_until").filter(|_| !paused);
                let timer = common("timer_id", show::words(item), seconds("total_duration"), instant("ends_at"), opens);
                Self {
                    next: if paused { instant("pause_until") } else { timer.at },
                    frozen: seconds("remaining_time").filter(|_| paused || timer.at.is_none()),
                    standby_until: instant("standby_until"),
                    ..timer
                }
            }
            Kind::Reminder => {
                let (due, made) = (iso(&item["dueAt"]), iso(&item["createdAt"]));
                let total = due.zip(made).map(|(due, made)| (due - made) as f64 / 1000.0);
                common("taskId", text("task"), total, due, iso(&item["waitsUntil"]))
            }
            Kind::SessionTimer => {
                let words = format!("{} → {}", text("timer_id"), text("tool_name"));
                let at = instant("next_trigger_at").filter(|_| item["suspended"] != true);
                let silent = instant("waits_since").filter(|_| at.is_some()).or(at);
                let mut timer = common("timer_instance_id", words, seconds("delay_seconds"), silent, at);
                if item["suspended"] == true {
                    timer.status = "suspended".into();
                }
                timer
            }
        }
    }
}

fn iso(value: &Value) -> Option<i64> {
    value.as_str()?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    pub timers: u64,
    pub reminders: u64,
    pub session_timers: u64,
    /// Of the timers.
    pub paused: u64,
    /// There are more than were read, and nobody says how many.
    pub or_more: bool,
}

impl Live {
    pub fn of(pending: &[Pending]) -> Self {
        let count = |kind| pending.iter().filter(|one| one.kind == kind).count() as u64;
        Self {
            timers: count(Kind::Timer),
            reminders: count(Kind::Reminder),
            session_timers: count(Kind::SessionTimer),
            paused: pending.iter().filter(|one| one.is_paused()).count() as u64,
            or_more: false,
        }
    }

    /// By the server's own count of everything.
    fn told(stats: &Value) -> Self {
        let sum = |of: &str, states: &[&str]| states.iter().filter_map(|state| stats[of][state].as_u64()).sum();
        Self {
            timers: sum("timers", &["running", "running_background", "paused"]),
            reminders: sum("reminders", &["scheduled", "due"]),
            session_timers: sum("session_timers", &["pending", "triggered"]),
            paused: sum("timers", &["paused"]),
            or_more: false,
        }
    }

    pub fn all(self) -> u64 {
        self.timers + self.reminders + self.session_timers
    }
}

/// The soonest first, at most so many of each kind; and how many there are, also where that is more.
pub async fn load(client: &Client, session: Option<&str>, limit: usize) -> Result<(Vec<Pending>, Live), Failure> {
    let limit_text = limit.to_string();
    let mut query = vec![("order", "soonest"), ("limit", limit_text.as_str())];
    query.extend(session.map(|session| ("session", session)));
    let mut all = Vec::new();
    let mut is_cut = false;
    for kind in [Kind::Timer, Kind::Reminder, Kind::SessionTimer] {
        let (path, _) = kind.list();
        let page = client.get(path, &query).await?;
        let items = of_page(kind, &page);
        is_cut |= items.len() >= limit || !page["next"].is_null();
        all.extend(items);
    }
    sort(&mut all);
    let read = Live::of(&all);
    let live = match is_cut {
        false => read,
        // Counts of everybody's are kept from a token that is bound to some.
        true if session.is_none() => match client.get("/api/stats", &[]).await {
            Ok(stats) => Live::told(&stats),
            Err(_) => Live { or_more: true, ..read },
        },
        true => Live { or_more: true, ..read },
    };
    Ok((all, live))
}

/// The server's time.
pub async fn now(client: &Client) -> Result<i64, Failure> {
    Ok(client.get("/api/clock", &[]).await?["now_ms"].as_i64().unwrap_or_default())
}

/// Those of one kind, as the server listed them.
pub fn of_page(kind: Kind, page: &Value) -> Vec<Pending> {
    let items = page[kind.list().1].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| Pending::of(kind, item)).collect()
}

fn sort(all: &mut [Pending]) {
    all.sort_by_key(|one| (one.next.is_none(), one.next));
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    /// As the server would have sent them.
    pub fn list(items: &[(Kind, Value)]) -> Vec<Pending> {
        let mut all: Vec<Pending> = items.iter().map(|(kind, item)| Pending::of(*kind, item)).collect();
        sort(&mut all);
        all
    }

    #[test]
    fn what_waits_for_quiet_hours_comes_when_they_are_over() {
        let all = list(&[
            (
                Kind::Timer,
                json!({"timer_id": "night", "session": "s", "status": "running", "mission": "report", "total_duration": 5,
                "remaining_time": 0, "ends_at": 90_000, "waits_until": 800_000}),
            ),
            (
                Kind::Reminder,
                json!({"taskId": "plants", "session": "s", "status": "scheduled", "task": "water",
                "createdAt": "1970-01-01T00:00:10Z", "dueAt": "1970-01-01T00:01:30Z", "waitsUntil": "1970-01-01T00:15:00Z"}),
            ),
            (
                Kind::SessionTimer,
                json!({"timer_instance_id": "idle", "session": "s", "timer_id": "idle", "tool_name": "say", "suspended": false,
                "status": "pending", "next_trigger_at": 700_000, "waits_since": 95_000, "delay_seconds": 30}),
            ),
            (
                Kind::Timer,
                json!({"timer_id": "day", "session": "s", "status": "running", "reason": "tests", "total_duration": 500,
                "remaining_time": 400, "ends_at": 500_000}),
            ),
        ]);
        let seen = all.iter().map(|one| (one.id.as_str(), one.remaining(100_000), one.is_quiet()));
        let expected = [("day", 400.0, false), ("idle", 600.0, true), ("night", 700.0, true), ("plants", 800.0, true)];
        assert_eq!(seen.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn kinds_stand_in_one_order_and_paused_time_stands_still() {
        let all = list(&[
            (
                Kind::SessionTimer,
                json!({"timer_instance_id": "st_1", "session": "s", "timer_id": "idle", "tool_name": "close",
                "status": "pending", "suspended": true, "next_trigger_at": 1, "delay_seconds": 300}),
            ),
            (
                Kind::SessionTimer,
                json!({"timer_instance_id": "st_2", "session": "s", "timer_id": "催促", "tool_name": "say",
                "status": "triggered", "suspended": false, "next_trigger_at": 400_000, "delay_seconds": 300}),
            ),
            (
                Kind::Timer,
                json!({"timer_id": "t", "session": "s", "status": "paused", "reason": "构建\u{1b}", "total_duration": 100,
                "remaining_time": 40, "ends_at": 900_000, "pause_until": 860_000}),
            ),
            (
                Kind::Reminder,
                json!({"taskId": "r", "session": "s", "status": "scheduled", "task": "备份 🙂",
                "createdAt": "1970-01-01T00:00:10Z", "dueAt": "1970-01-01T01:05:00+01:00"}),
            ),
        ]);
        let seen: Vec<_> = all.iter().map(|one| (one.id.as_str(), one.remaining(100_000), one.total)).collect();
        assert_eq!(seen, [("r", 200.0, 290.0), ("st_2", 300.0, 300.0), ("t", 40.0, 100.0), ("st_1", 300.0, 300.0)]);
        assert_eq!(all[0].remaining(999_000), 0.0);
        assert!(all[2].is_paused() && !all[3].is_paused());
        assert_eq!((all[2].text.as_str(), all[3].status.as_str(), all[3].at), ("构建 ", "suspended", None));
    }
}
