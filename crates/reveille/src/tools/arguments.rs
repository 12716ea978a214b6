//! Arguments as models really send them: numbers as text, empty text for "none", fields nobody asked for.

use super::plan;
use reveille_core::{
    Condition, ItemId, Limits, Millis, Purpose, Reject, When, condition, duration, text, timer::Continuation,
};
use serde_json::{Map, Value};

/// The arguments of one call, with the rules they are read by.
pub struct Arguments<'a> {
    pub(super) fields: Map<String, Value>,
    pub(super) limits: &'a Limits,
}

/// What a `timer` call asks for.
#[derive(Debug, PartialEq)]
pub enum TimerWish {
    Create {
        purpose: Purpose,
        total: Millis,
        timeout: Option<Millis>,
        until: Option<Condition>,
    },
    /// At a time of the calendar, or again and again.
    Plan {
        purpose: Purpose,
        when: Box<When>,
        timeout: Option<Millis>,
    },
    /// With `until` beside it: whether that may be waited for is still to be asked.
    Continue {
        id: ItemId,
        ask: Continuation,
        until: Option<Condition>,
    },
}

impl<'a> Arguments<'a> {
    pub fn new(value: Value, limits: &'a Limits) -> Result<Self, Reject> {
        match value {
            Value::Object(fields) => Ok(Self { fields, limits }),
            Value::Null => Ok(Self { fields: Map::new(), limits }),
            _ => Err(Reject::InvalidArgument { field: "arguments".into(), why: "must be a JSON object".into() }),
        }
    }

    pub fn timer(&self) -> Result<TimerWish, Reject> {
        let (reason, mission) = (self.text("reason")?, self.text("mission")?);
        if reason.is_some() && mission.is_some() {
            return Err(Reject::ReasonAndMission);
        }
        let (total, timeout) = (self.duration("total_duration")?, self.duration("timeout_duration")?);
        let until = self.fields.get("until").map(condition::parse).transpose()?.flatten();
        if let Some(id) = self.id()? {
            plan::none(&self.fields)?;
            let ask = Continuation { total, timeout, reason, mission, until: None };
            return Ok(TimerWish::Continue { id, ask, until });
        }
        let purpose = match (reason, mission) {
            (Some(reason), None) => Purpose::Waiting(reason),
            (None, Some(mission)) => Purpose::Mission(mission),
            _ => return Err(Reject::ReasonOrMissionRequired),
        };
        if let Some(when) = plan::when(&self.fields, self.limits)? {
            if total.is_some() {
                let why = "excludes `at` and `every`; send one of them";
                return Err(Reject::InvalidArgument { field: "total_duration".into(), why: why.into() });
            }
            plan::without(Some(&when), until.as_ref())?;
            return Ok(TimerWish::Plan { purpose, when: Box::new(when), timeout });
        }
        let hint = "how long the timer runs, in seconds (300) or as text (\"5m\")";
        let total = total.ok_or(Reject::MissingArgument { field: "total_duration", hint })?;
        Ok(TimerWish::Create { purpose, total, timeout, until })
    }

    pub fn id(&self) -> Result<Option<ItemId>, Reject> {
        Ok(self.string("timer_id")?.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).map(ItemId::new))
    }

    pub fn required_id(&self) -> Result<ItemId, Reject> {
        let hint = "the id that `timer` answered with; read_timer lists them";
        self.id()?.ok_or(Reject::MissingArgument { field: "timer_id", hint })
    }

    pub fn text(&self, field: &'static str) -> Result<Option<String>, Reject> {
        text::accept(field, self.string(field)?, self.limits)
    }

    pub fn duration(&self, field: &'static str) -> Result<Option<Millis>, Reject> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(value) => duration::parse(field, value, self.limits.duration_max).map(Some),
        }
    }

    pub fn required_duration(&self, field: &'static str) -> Result<Millis, Reject> {
        let hint = "a length of time, in seconds (120) or as text (\"2m\")";
        self.duration(field)?.ok_or(Reject::MissingArgument { field, hint })
    }

    pub(super) fn string(&self, field: &str) -> Result<Option<String>, Reject> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(Reject::InvalidArgument { field: field.to_owned(), why: "must be a text".into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wish(value: Value) -> Result<TimerWish, &'static str> {
        let limits = Limits::default();
        Arguments::new(value, &limits).and_then(|arguments| arguments.timer()).map_err(|reject| reject.code())
    }

    #[test]
    fn models_arguments_are_understood() {
        let waiting = |total, timeout| {
            let purpose = Purpose::Waiting("等服务器 🚀".into());
            Ok(TimerWish::Create { purpose, total: Millis::from_secs(total), timeout, until: None })
        };
        let minute = Some(Millis::from_secs(60));
        for (sent, expected) in [
            (json!({"total_duration": 300, "timeout_duration": 60, "reason": "等服务器 🚀"}), waiting(300, minute)),
            (json!({"total_duration": "300", "timeout_duration": "1m", "reason": "等服务器 🚀"}), waiting(300, minute)),
            (
                json!({"total_duration": "5m", "reason": "等服务器 🚀", "mission": "", "timer_id": null}),
                waiting(300, None),
            ),
            (
                json!({"total_duration": 300, "timeout_duration": "", "reason": "等服务器 🚀", "x": [1]}),
                waiting(300, None),
            ),
        ] {
            assert_eq!(wish(sent.clone()), expected, "{sent}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (sent, code) in [
            (json!({"total_duration": 300}), "reason_or_mission_required"),
            (json!({"total_duration": 300, "reason": "a", "mission": "b"}), "reason_and_mission"),
            (json!({"reason": "a"}), "missing_argument"),
            (json!({"total_duration": 0, "reason": "a"}), "invalid_duration"),
            (json!({"total_duration": 300, "reason": 7}), "invalid_argument"),
            (json!({"total_duration": 300, "reason": "a", "timer_id": 7}), "invalid_argument"),
            (json!({"total_duration": {"m": 5}, "reason": "a"}), "invalid_duration"),
            (json!({"total_duration": 300, "reason": "a", "until": {"tcp": "db"}}), "invalid_argument"),
            (json!({"total_duration": 300, "reason": "a", "until": "soon"}), "invalid_argument"),
            (json!([]), "invalid_argument"),
            (json!("timer"), "invalid_argument"),
            (json!({"total_duration": 300, "reason": "a\u{7}"}), "control_characters"),
            (json!({"total_duration": 300, "reason": "长".repeat(4001)}), "text_too_long"),
        ] {
            assert_eq!(wish(sent.clone()), Err(code), "{sent}");
        }
    }
}
