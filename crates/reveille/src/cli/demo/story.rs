//! How the story is told: lines with the time and who acts, in a terminal with colours; or nothing, where a program reads
//! the outcome as JSON.

use super::super::{paint::Paint, show};
use crossterm::style::Color;
use std::time::Instant;

pub struct Story {
    began: Instant,
    told: bool,
    paint: Paint,
}

/// Who acts in a line.
#[derive(Clone, Copy, PartialEq)]
pub enum Who {
    User,
    Model,
    Reveille,
    World,
}

impl Who {
    fn look(self) -> (&'static str, Color) {
        match self {
            Who::User => ("user", Color::Blue),
            Who::Model => ("model", Color::Magenta),
            Who::Reveille => ("reveille", Color::Cyan),
            Who::World => ("world", Color::Yellow),
        }
    }
}

impl Story {
    /// `told`: people read along.
    pub fn new(told: bool) -> Self {
        Self { began: Instant::now(), told, paint: Paint::for_stdout() }
    }

    /// A line outside of any scene.
    pub fn line(&self, text: &str) {
        if self.told {
            show::line(text);
        }
    }

    pub fn heading(&self, text: &str) {
        self.line(&format!("\n{}", self.paint.bold(text)));
    }

    pub fn says(&self, who: Who, text: &str) {
        let (name, colour) = who.look();
        let (name, text) = (self.paint.with(colour, &format!("{name:<8}")), show::clean(text));
        self.line(&format!("{:>6.1} s  {name}  {text}", self.began.elapsed().as_secs_f64()));
    }

    /// What a scene has shown.
    pub fn seen(&self, text: &str) {
        self.mark("✓", Color::Green, text);
    }

    pub fn failed(&self, text: &str) {
        self.mark("✗", Color::Red, text);
    }

    fn mark(&self, mark: &str, colour: Color, text: &str) {
        let line = self.paint.with(colour, &format!("{mark} {}", show::clean(text)));
        self.line(&format!("          {line}"));
    }
}
