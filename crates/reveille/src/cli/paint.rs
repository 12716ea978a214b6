//! Colours, where they are wanted: on a terminal that knows them, unless `NO_COLOR` says otherwise.

use crossterm::style::{Color, Stylize};
use std::{env, io::IsTerminal};

#[derive(Clone, Copy)]
pub struct Paint {
    on: bool,
}

impl Paint {
    pub fn for_stdout() -> Self {
        let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { on: std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb }
    }

    pub fn bold(self, text: &str) -> String {
        if self.on { text.bold().to_string() } else { text.to_owned() }
    }

    pub fn with(self, colour: Color, text: &str) -> String {
        if self.on { text.with(colour).to_string() } else { text.to_owned() }
    }
}
