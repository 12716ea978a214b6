//! Quiet hours: stretches of the week in which nobody is to be disturbed. What falls due inside one waits for the next open
//! moment. What waits, and that it does, is the business of each kind of thing.

use crate::{at, reject::Reject, text::shown, time::Timestamp, zone::Zone};
use jiff::{
    ToSpan,
    civil::{Date, Time, Weekday},
};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::{Map, Value};

/// More stretches than a week could need are a mistake.
const WINDOWS_MAX: usize = 20;
/// A Monday, from which on a week is looked at.
const MONDAY_MS: i64 = 1_767_571_200_000;

/// One stretch or several, each with its zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Quiet(Vec<Window>);

/// A session's: those that were set for it go over those of its agent, which it got when it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Kept", into = "Kept")]
pub struct Hours {
    pub own: Option<Quiet>,
    pub agent: Option<Quiet>,
}

/// As it is stored; where nothing but its own are known, just these.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Kept {
    Own(Quiet),
    Both {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        own: Option<Quiet>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<Quiet>,
    },
}

impl From<Kept> for Hours {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::Own(own) => Self { own: Some(own), agent: None },
            Kept::Both { own, agent } => Self { own, agent },
        }
    }
}

impl From<Hours> for Kept {
    fn from(Hours { own, agent }: Hours) -> Self {
        match (own, agent) {
            (Some(own), None) => Kept::Own(own),
            (own, agent) => Kept::Both { own, agent },
        }
    }
}

impl Hours {
    pub fn in_force(&self) -> Option<&Quiet> {
        self.own.as_ref().or(self.agent.as_ref())
    }

    pub fn is_none(&self) -> bool {
        self.in_force().is_none()
    }

    /// The stored form, if there is anything to store.
    pub fn encode(&self) -> Option<String> {
        (!self.is_none()).then(|| serde_json::to_string(self).expect("quiet hours are representable as JSON"))
    }

    pub fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// From a time of day to another, on the days on which it begins. Where it does not end later on the day, it ends on
/// the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "Form")]
struct Window {
    zone: Zone,
    days: Vec<Weekday>,
    from: Time,
    to: Time,
}

/// As it is written.
#[derive(Clone, Serialize)]
struct Form {
    zone: String,
    /// Absent: every day.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    days: Vec<String>,
    from: String,
    to: String,
}

const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

impl Quiet {
    /// As it is written: one stretch, or a list of them.
    pub fn parse(value: Value) -> Result<Self, Reject> {
        let list = match value {
            Value::Array(list) => list,
            one => vec![one],
        };
        if list.is_empty() || list.len() > WINDOWS_MAX {
            return Err(invalid(format!("needs 1 to {WINDOWS_MAX} stretches of time")));
        }
        let quiet = Self(list.iter().map(Window::read).collect::<Result<_, _>>()?);
        match quiet.end_of_quiet(Timestamp::from_millis(MONDAY_MS)) {
            Some(_) => Ok(quiet),
            None => Err(invalid("leaves no open moment in the whole week; shorten it".into())),
        }
    }

    /// When something that is due then is open to be told, if that is later: until then it waits. `before`: what was said
    /// of it before; what it has waited for until now stays.
    pub fn opening(
        quiet: Option<&Quiet>,
        due: Timestamp,
        before: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let from = due.max(now);
        let waits = quiet.map(|quiet| quiet.next_open(from)).filter(|opens| *opens > from);
        waits.or(before.filter(|opened| due <= now && *opened <= now))
    }

    /// This instant, or the end of the quiet it is in.
    pub fn next_open(&self, at: Timestamp) -> Timestamp {
        self.end_of_quiet(at).unwrap_or(at)
    }

    /// `None`: there is none within a week.
    fn end_of_quiet(&self, mut at: Timestamp) -> Option<Timestamp> {
        // Each stretch is left at most once a day, and a week repeats itself.
        for _ in 0..=9 * self.0.len() {
            match self.0.iter().filter_map(|window| window.end(at)).max() {
                Some(end) => at = end,
                None => return Some(at),
            }
        }
        None
    }
}

impl Window {
    fn read(value: &Value) -> Result<Self, Reject> {
        let Value::Object(fields) = value else { return Err(invalid(format!("must be {SHAPE}"))) };
        if let Some(unknown) = fields.keys().find(|field| !FIELDS.contains(&field.as_str())) {
            return Err(invalid(format!("has no `{}`; it is {SHAPE}", shown(unknown))));
        }
        let zone = Zone::named("zone", text(fields, "zone")?)?;
        Ok(Self { zone, days: days(fields)?, from: time(fields, "from")?, to: time(fields, "to")? })
    }

    /// When it ends, if the instant is in it.
    fn end(&self, at: Timestamp) -> Option<Timestamp> {
        let instant = jiff::Timestamp::from_millisecond(at.as_millis()).ok()?;
        let today = self.zone.rules().to_datetime(instant).date();
        let begun = [today.yesterday().ok()?, today].into_iter().filter(|day| self.days.contains(&day.weekday()));
        let mut stretches = begun.filter_map(|day| self.on(day));
        stretches.find(|(from, to)| *from <= at && at < *to).map(|(_, to)| to)
    }

    fn on(&self, day: Date) -> Option<(Timestamp, Timestamp)> {
        let last = if self.to > self.from { day } else { day.checked_add(1.day()).ok()? };
        let instant = |day: Date, time: Time| at::instant(day.to_datetime(time), &self.zone);
        Some((instant(day, self.from)?, instant(last, self.to)?))
    }
}

const FIELDS: [&str; 4] = ["zone", "from", "to", "days"];
const SHAPE: &str = "{\"zone\": \"Europe/Berlin\", \"from\": \"22:00\", \"to\": \"08:00\", \"days\"?: [\"weekdays\"]}";

fn text<'a>(fields: &'a Map<String, Value>, field: &str) -> Result<&'a str, Reject> {
    let text = fields.get(field).and_then(Value::as_str);
    text.ok_or_else(|| invalid(format!("needs `{field}`, a text; it is {SHAPE}")))
}

fn time(fields: &Map<String, Value>, field: &'static str) -> Result<Time, Reject> {
    let text = text(fields, field)?;
    let why = "is not a time of day; write it like 22:00".to_owned();
    at::time_of_day(text.trim()).ok_or(Reject::InvalidTime { field, got: shown(text), why })
}

/// A list, or one as a text; none: every day.
fn days(fields: &Map<String, Value>) -> Result<Vec<Weekday>, Reject> {
    let listed = match fields.get("days") {
        None | Some(Value::Null) => &[],
        Some(Value::Array(days)) => days.as_slice(),
        Some(day) => std::slice::from_ref(day),
    };
    let mut days = Vec::new();
    for name in listed {
        days.extend(days_named(name.as_str().ok_or_else(|| no_day(&name.to_string()))?)?);
    }
    if days.is_empty() {
        days.extend(DAYS.map(|(_, day)| day));
    }
    Ok(days)
}

/// `mon`, `Monday`, `weekdays`, `weekend`.
fn days_named(name: &str) -> Result<Vec<Weekday>, Reject> {
    let lower = name.trim().to_ascii_lowercase();
    let all = DAYS.map(|(_, day)| day);
    let one = |(short, _): &&(&str, Weekday)| {
        lower.len() >= 3 && LONG.iter().any(|long| long.starts_with(&lower) && long.starts_with(*short))
    };
    match lower.as_str() {
        "weekdays" | "weekday" => Ok(all[..5].to_vec()),
        "weekend" | "weekends" => Ok(all[5..].to_vec()),
        _ => match DAYS.iter().find(one) {
            Some((_, day)) => Ok(vec![*day]),
            None => Err(no_day(name)),
        },
    }
}

fn no_day(name: &str) -> Reject {
    invalid(format!("has '{}' in `days`, which is no day; write mon, tue, … sun, weekdays or weekend", shown(name)))
}

const LONG: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

impl From<Window> for Form {
    fn from(window: Window) -> Self {
        let name = |(name, day): &(&str, Weekday)| window.days.contains(day).then(|| (*name).to_owned());
        let days: Vec<String> = DAYS.iter().filter_map(name).collect();
        let written = |time: Time| time.strftime(if time.second() == 0 { "%H:%M" } else { "%H:%M:%S" }).to_string();
        Self {
            zone: window.zone.name().to_owned(),
            days: if days.len() == DAYS.len() { Vec::new() } else { days },
            from: written(window.from),
            to: written(window.to),
        }
    }
}

impl<'de> Deserialize<'de> for Quiet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

fn invalid(why: String) -> Reject {
    Reject::InvalidArgument { field: "quiet".into(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn open(quiet: &Quiet, at: &str) -> String {
        let at: jiff::Timestamp = at.parse().expect("an instant");
        quiet.next_open(Timestamp::from_millis(at.as_millisecond())).to_iso()
    }

    #[test]
    fn nights_reach_over_midnight() {
        let quiet =
            Quiet::parse(json!({"zone": "Europe/Berlin", "from": "22:00", "to": "08:00"})).expect("quiet hours");
        for (at, opens) in [
            ("2026-11-16T20:59:59Z", "2026-11-16T20:59:59Z"),
            ("2026-11-16T21:00:00Z", "2026-11-17T07:00:00Z"),
            ("2026-11-17T01:10:00Z", "2026-11-17T07:00:00Z"),
            ("2026-11-17T07:00:00Z", "2026-11-17T07:00:00Z"),
            // The night on which clocks are put forward, and the one on which they are put back.
            ("2026-03-28T23:00:00Z", "2026-03-29T06:00:00Z"),
            ("2026-10-24T23:00:00Z", "2026-10-25T07:00:00Z"),
        ] {
            assert_eq!(open(&quiet, at), opens, "{at}");
        }
    }

    #[test]
    fn weekends_may_be_quiet_as_a_whole() {
        let quiet = Quiet::parse(json!([
            {"zone": "America/New_York", "days": ["weekdays"], "from": "18:00", "to": "09:00"},
            {"zone": "America/New_York", "days": ["Saturday", "sun"], "from": "00:00", "to": "00:00"},
        ]));
        let quiet = quiet.expect("quiet hours");
        for (at, opens) in [
            // Friday evening: over the weekend, to Monday midnight, when no weekday's night has begun.
            ("2026-11-20T23:30:00Z", "2026-11-23T05:00:00Z"),
            ("2026-11-21T18:00:00Z", "2026-11-23T05:00:00Z"),
            ("2026-11-23T18:00:00Z", "2026-11-23T18:00:00Z"),
            ("2026-11-23T23:30:00Z", "2026-11-24T14:00:00Z"),
        ] {
            assert_eq!(open(&quiet, at), opens, "{at}");
        }
        let written = serde_json::to_value(&quiet).expect("representable");
        assert_eq!(
            written[1],
            json!({"zone": "America/New_York", "days": ["sat", "sun"], "from": "00:00", "to": "00:00"})
        );
        assert_eq!(Quiet::parse(written), Ok(quiet));
    }

    #[test]
    fn what_makes_no_sense_is_explained() {
        for (value, word) in [
            (json!({"zone": "Berlin", "from": "22:00", "to": "08:00"}), "Europe/Berlin"),
            (json!({"zone": "UTC", "from": "10pm", "to": "08:00"}), "22:00"),
            (json!({"zone": "UTC", "from": "22:00", "to": "25:00"}), "22:00"),
            (json!({"zone": "UTC", "from": "22:00"}), "to"),
            (json!({"zone": "UTC", "from": "22:00", "to": "08:00", "day": "mon"}), "day"),
            (json!({"zone": "UTC", "days": ["mo"], "from": "22:00", "to": "08:00"}), "weekdays"),
            (json!({"zone": "UTC", "days": ["星期一"], "from": "22:00", "to": "08:00"}), "weekdays"),
            (json!({"zone": "UTC", "from": "08:00", "to": "08:00"}), "no open moment"),
            (
                json!([{"zone": "UTC", "from": "08:00", "to": "20:00"}, {"zone": "UTC", "from": "20:00", "to": "08:00"}]),
                "no open moment",
            ),
            (json!([]), "1 to 20"),
            (json!("at night"), "must be {"),
            (json!({"zone": "UTC", "days": [1], "from": "22:00", "to": "08:00"}), "weekdays"),
            (json!({"zone": "UTC", "from": 22, "to": "08:00"}), "needs `from`"),
            (json!({}), "needs `zone`"),
        ] {
            let refused = Quiet::parse(value.clone()).expect_err("no quiet hours").to_string();
            assert!(refused.contains(word) && refused.matches("quiet").count() < 2, "{value}: {refused}");
        }
    }

    #[test]
    fn what_is_stored_is_read_again_and_says_whose_it_is() {
        let quiet = |from: &str| Quiet::parse(json!({"zone": "UTC", "from": from, "to": "08:00"})).ok();
        let (early, late) = (quiet("20:00"), quiet("23:00"));
        for (own, agent) in [(None, None), (early.clone(), None), (None, late.clone()), (early.clone(), late)] {
            let hours = Hours { own: own.clone(), agent: agent.clone() };
            assert_eq!(hours.in_force(), own.as_ref().or(agent.as_ref()));
            let stored = hours.encode();
            assert_eq!(stored.as_deref().and_then(Hours::decode).unwrap_or_default(), hours, "{stored:?}");
        }
        // As they were stored when nobody else's were known.
        let stored = serde_json::to_string(&early).expect("representable");
        assert_eq!(Hours::decode(&stored).map(|hours| hours.own), Some(early));
    }

    #[test]
    fn one_day_may_be_a_text() {
        let days = |days: Value| Quiet::parse(json!({"zone": "UTC", "days": days, "from": "22:00", "to": "08:00"}));
        assert_eq!(days(json!("mon")), days(json!(["mon"])));
        assert_eq!(days(json!("weekend")), days(json!(["sat", "sun"])));
        assert_eq!(days(Value::Null), days(json!([])));
    }
}
