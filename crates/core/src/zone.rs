//! Time zones by their IANA names. The rules come with the program, not from the machine it runs on: deciding reads no
//! files, and all nodes of a server agree.

use crate::{reject::Reject, text::shown, time::Timestamp};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
/// Names shown to somebody who wrote one that there is not.
const SIMILAR_MAX: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(TimeZone);

impl Zone {
    /// `field` is what the name was given as.
    pub fn named(field: &'static str, name: &str) -> Result<Self, Reject> {
        let name = name.trim();
        let found = ZONES.get(name).ok().filter(|zone| zone.iana_name().is_some());
        found.map(Self).ok_or_else(|| Reject::UnknownZone { field, got: shown(name), similar: similar(name) })
    }

    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    pub fn rules(&self) -> &TimeZone {
        &self.0
    }

    /// `2026-11-16T16:00:00+01:00`: the instant as clocks there show it.
    pub fn show(&self, at: Timestamp) -> String {
        match jiff::Timestamp::from_millisecond(at.as_millis()) {
            Ok(at) => at.display_with_offset(self.0.to_offset(at)).to_string(),
            Err(_) => at.to_iso(),
        }
    }
}

/// Zones that were perhaps meant: a place without its continent, a word of the name.
fn similar(name: &str) -> Vec<String> {
    let wanted = name.rsplit('/').next().unwrap_or(name).replace(' ', "_").to_lowercase();
    if wanted.len() < 3 {
        return Vec::new();
    }
    let found = ZONES.available().map(|zone| zone.to_string()).filter(|zone| zone.to_lowercase().contains(&wanted));
    found.take(SIMILAR_MAX).collect()
}

impl TryFrom<String> for Zone {
    type Error = Reject;

    fn try_from(name: String) -> Result<Self, Reject> {
        Self::named("zone", &name)
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        zone.name().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_known_by_name_on_every_machine() {
        for (name, shown) in [("Europe/Berlin", "Europe/Berlin"), (" asia/shanghai ", "Asia/Shanghai"), ("UTC", "UTC")]
        {
            assert_eq!(Zone::named("zone", name).expect("a zone").name(), shown);
        }
        let berlin = Zone::named("zone", "Europe/Berlin").expect("a zone");
        assert_eq!(berlin.show(Timestamp::from_millis(1_769_056_200_000)), "2026-01-22T05:30:00+01:00");
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_one() {
        let refused = Zone::named("zone", "Berlin").expect_err("no zone").to_string();
        assert!(refused.contains("Europe/Berlin"), "{refused}");
        let refused = Zone::named("zone", "New York").expect_err("no zone").to_string();
        assert!(refused.contains("America/New_York"), "{refused}");
        for name in ["", "Mars/Olympus", "上海", "+02:00", &"x".repeat(9000)] {
            let refused = Zone::named("zone", name).expect_err("no zone");
            assert_eq!(refused.code(), "unknown_zone");
            assert!(refused.to_string().contains("Europe/Berlin") && refused.to_string().len() < 600, "{refused}");
        }
    }
}
