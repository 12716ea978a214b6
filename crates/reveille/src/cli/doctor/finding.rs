//! One thing that was looked at, how it is, and what cures it.

use super::super::{paint::Paint, show};
use crossterm::style::Color;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// Nothing is wrong; worth knowing.
    Note,
    /// It works, but not as well as it could, or not for long.
    Warning,
    /// It does not work.
    Problem,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    pub area: &'static str,
    pub level: Level,
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl Finding {
    pub fn ok(area: &'static str, what: impl Into<String>) -> Self {
        Self { area, level: Level::Ok, what: what.into(), cure: None }
    }

    pub fn note(area: &'static str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { area, level: Level::Note, what: what.into(), cure: Some(cure.into()) }
    }

    pub fn warning(area: &'static str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { area, level: Level::Warning, what: what.into(), cure: Some(cure.into()) }
    }

    pub fn problem(area: &'static str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { area, level: Level::Problem, what: what.into(), cure: Some(cure.into()) }
    }

    pub fn show(&self, paint: Paint) {
        let (mark, colour) = match self.level {
            Level::Ok => ("✓", Color::Green),
            Level::Note => ("·", Color::Blue),
            Level::Warning => ("!", Color::Yellow),
            Level::Problem => ("✗", Color::Red),
        };
        let area = paint.with(colour, &format!("{mark} {:<14}", self.area));
        // An error that draws the place in a file has several lines.
        let mut lines = self.what.lines().map(show::clean);
        show::line(&format!("{area} {}", lines.next().unwrap_or_default()));
        lines.for_each(|line| show::line(&format!("{:17}{line}", "")));
        if let Some(cure) = &self.cure {
            show::line(&format!("{:17}→ {}", "", show::clean(cure)));
        }
    }
}
