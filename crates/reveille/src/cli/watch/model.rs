//! What is seen, and what a key does to it. Pure: time is given, and what is to be done is an answer.

use super::feed::{Listed, Update};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;
use std::time::Instant;

/// Enough for a reason; more is not typed into a line.
const INPUT_CHARS_MAX: usize = 200;

pub struct Model {
    pub session: Option<String>,
    pub timers: Vec<Value>,
    pub connected: bool,
    pub said: String,
    pub question: Option<Question>,
    /// By its id: the list moves.
    selected: Option<String>,
    /// The server's time when the list came, and ours.
    read_at: (i64, Instant),
}

/// A line to be filled in before something is done.
pub struct Question {
    pub id: String,
    pub action: &'static str,
    pub words: &'static str,
    pub input: String,
}

/// What a key asks for.
#[derive(Debug, PartialEq)]
pub enum Ask {
    Quit,
    Act { id: String, action: &'static str, duration: Option<String>, reason: Option<String> },
}

impl Model {
    pub fn new(session: Option<String>) -> Self {
        Self {
            session,
            timers: Vec::new(),
            connected: false,
            said: String::new(),
            question: None,
            selected: None,
            read_at: (0, Instant::now()),
        }
    }

    pub fn update(&mut self, update: Update) {
        match update {
            Update::List(Listed { timers, now }) => {
                let place = self.selected_place();
                self.timers = timers;
                (self.connected, self.read_at) = (true, (now, Instant::now()));
                // What was selected may be gone; then what has taken its place is.
                if self.selected_place().is_none() {
                    self.select(place.unwrap_or(0));
                }
            }
            Update::Lost => self.connected = false,
            Update::Said(said) => self.said = said,
        }
    }

    /// The server's time.
    pub fn now(&self) -> i64 {
        self.read_at.0 + i64::try_from(self.read_at.1.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    pub fn selected_place(&self) -> Option<usize> {
        self.timers.iter().position(|timer| timer["timer_id"].as_str() == self.selected.as_deref())
    }

    fn select(&mut self, place: usize) {
        let timer = self.timers.get(place.min(self.timers.len().saturating_sub(1)));
        self.selected = timer.and_then(|timer| timer["timer_id"].as_str()).map(str::to_owned);
    }

    pub fn key(&mut self, key: KeyEvent) -> Option<Ask> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(Ask::Quit);
        }
        self.said.clear();
        if self.question.is_some() {
            return self.answer(key.code);
        }
        let place = self.selected_place().unwrap_or(0);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Ask::Quit),
            KeyCode::Down | KeyCode::Char('j') => self.select(place + 1),
            KeyCode::Up | KeyCode::Char('k') => self.select(place.saturating_sub(1)),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(usize::MAX),
            KeyCode::Char('s') => self.ask("stop", "Stop it for good. Reason, if any", ""),
            KeyCode::Char('c') => self.ask("cancel", "Let it run in the background. Reason, if any", ""),
            KeyCode::Char('p') => self.ask("pause", "Pause it for", "5m"),
            KeyCode::Char('r') => self.ask("resume", "Resume it. Reason, if any", ""),
            _ => {}
        }
        None
    }

    fn ask(&mut self, action: &'static str, words: &'static str, input: &str) {
        if let Some(id) = self.selected.clone() {
            self.question = Some(Question { id, action, words, input: input.to_owned() });
        }
    }

    fn answer(&mut self, code: KeyCode) -> Option<Ask> {
        let question = self.question.as_mut()?;
        match code {
            KeyCode::Esc => self.question = None,
            KeyCode::Backspace => drop(question.input.pop()),
            KeyCode::Char(letter) if question.input.chars().count() < INPUT_CHARS_MAX => question.input.push(letter),
            KeyCode::Enter => {
                let Question { id, action, input, .. } = self.question.take()?;
                let input = Some(input.trim().to_owned()).filter(|input| !input.is_empty());
                let (duration, reason) = if action == "pause" { (input, None) } else { (None, input) };
                return Some(Ask::Act { id, action, duration, reason });
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn press(model: &mut Model, code: KeyCode) -> Option<Ask> {
        model.key(KeyEvent::from(code))
    }

    fn list(ids: &[&str]) -> Update {
        Update::List(Listed { timers: ids.iter().map(|id| json!({"timer_id": id})).collect(), now: 5 })
    }

    #[test]
    fn what_is_selected_stays_selected_while_the_list_moves() {
        let mut model = Model::new(None);
        model.update(list(&["a", "b", "c"]));
        assert_eq!(model.selected_place(), Some(0));
        press(&mut model, KeyCode::Down);
        press(&mut model, KeyCode::Down);
        press(&mut model, KeyCode::Down);
        assert_eq!(model.selected_place(), Some(2));
        model.update(list(&["c", "a"]));
        assert_eq!(model.selected_place(), Some(0));
        model.update(list(&["a", "d"]));
        assert_eq!(model.selected_place(), Some(0), "what took its place");
        model.update(list(&[]));
        assert_eq!((model.selected_place(), press(&mut model, KeyCode::Char('s'))), (None, None));
        assert!(model.question.is_none(), "nothing to stop");
    }

    #[test]
    fn keys_ask_first_and_then_act() {
        let mut model = Model::new(None);
        model.update(list(&["a"]));
        press(&mut model, KeyCode::Char('p'));
        press(&mut model, KeyCode::Backspace);
        press(&mut model, KeyCode::Char('s'));
        let pause = Ask::Act { id: "a".into(), action: "pause", duration: Some("5s".into()), reason: None };
        assert_eq!(press(&mut model, KeyCode::Enter), Some(pause));
        press(&mut model, KeyCode::Char('s'));
        press(&mut model, KeyCode::Char('q'));
        assert_eq!(press(&mut model, KeyCode::Esc), None, "only the question is left");
        press(&mut model, KeyCode::Char('s'));
        let stop = Ask::Act { id: "a".into(), action: "stop", duration: None, reason: None };
        assert_eq!(press(&mut model, KeyCode::Enter), Some(stop));
        assert_eq!(press(&mut model, KeyCode::Char('q')), Some(Ask::Quit));
    }
}
