//! What is seen, and what a key does to it. Pure: time is given, and what is to be done is an answer.

use super::{
    super::pending::{Kind, Live, Pending},
    feed::{Listed, Update},
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Instant;

/// Enough for a reason; more is not typed into a line.
const INPUT_CHARS_MAX: usize = 200;

pub struct Model {
    pub session: Option<String>,
    pub pending: Vec<Pending>,
    pub live: Live,
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
    pub kind: Kind,
    pub id: String,
    pub action: &'static str,
    pub words: &'static str,
    pub input: String,
}

/// What a key asks for.
#[derive(Debug, PartialEq)]
pub enum Ask {
    Quit,
    Act(Act),
}

#[derive(Debug, PartialEq)]
pub struct Act {
    pub kind: Kind,
    pub id: String,
    pub action: &'static str,
    pub duration: Option<String>,
    pub reason: Option<String>,
}

/// What a key means for one kind of thing: a question, or why it means nothing.
fn meaning(key: char, kind: Kind) -> Result<(&'static str, &'static str, &'static str), &'static str> {
    match (key, kind) {
        ('s', Kind::Timer) => Ok(("stop", "Stop it for good. Reason, if any", "")),
        ('c', Kind::Timer) => Ok(("cancel", "Let it run in the background. Reason, if any", "")),
        ('p', Kind::Timer) => Ok(("pause", "Pause it for", "5m")),
        ('r', Kind::Timer) => Ok(("resume", "Resume it. Reason, if any", "")),
        ('c' | 's', Kind::Reminder) => Ok(("cancel", "Cancel the reminder: it will not be told", "")),
        (_, Kind::Reminder) => Err("a reminder has its due time and cannot be paused; c cancels it"),
        (_, Kind::SessionTimer) => {
            Err("a session timer follows its agent's configuration; closing its session ends it")
        }
        _ => Err("this key means nothing here"),
    }
}

impl Model {
    pub fn new(session: Option<String>) -> Self {
        Self {
            session,
            pending: Vec::new(),
            live: Live::default(),
            connected: false,
            said: String::new(),
            question: None,
            selected: None,
            read_at: (0, Instant::now()),
        }
    }

    pub fn update(&mut self, update: Update) {
        match update {
            Update::List(Listed { pending, live, now }) => {
                let place = self.selected_place();
                (self.pending, self.live) = (pending, live);
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
        self.pending.iter().position(|one| Some(one.id.as_str()) == self.selected.as_deref())
    }

    fn select(&mut self, place: usize) {
        let one = self.pending.get(place.min(self.pending.len().saturating_sub(1)));
        self.selected = one.map(|one| one.id.clone());
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
            KeyCode::Char(key @ ('s' | 'c' | 'p' | 'r')) => self.ask(key),
            _ => {}
        }
        None
    }

    fn ask(&mut self, key: char) {
        let Some(one) = self.selected_place().and_then(|place| self.pending.get(place)) else { return };
        match meaning(key, one.kind) {
            Ok((action, words, input)) => {
                let (kind, id) = (one.kind, one.id.clone());
                self.question = Some(Question { kind, id, action, words, input: input.to_owned() });
            }
            Err(why) => self.said = why.to_owned(),
        }
    }

    fn answer(&mut self, code: KeyCode) -> Option<Ask> {
        let question = self.question.as_mut()?;
        match code {
            KeyCode::Esc => self.question = None,
            KeyCode::Backspace => drop(question.input.pop()),
            KeyCode::Char(letter) if question.input.chars().count() < INPUT_CHARS_MAX => question.input.push(letter),
            KeyCode::Enter => {
                let Question { kind, id, action, input, .. } = self.question.take()?;
                let input = Some(input.trim().to_owned()).filter(|input| !input.is_empty());
                let (duration, reason) = if action == "pause" { (input, None) } else { (None, input) };
                return Some(Ask::Act(Act { kind, id, action, duration, reason }));
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::pending;
    use serde_json::json;

    fn press(model: &mut Model, code: KeyCode) -> Option<Ask> {
        model.key(KeyEvent::from(code))
    }

    fn list(ids: &[&str]) -> Update {
        let timers: Vec<_> = ids.iter().map(|id| (Kind::Timer, json!({"timer_id": id}))).collect();
        let pending = pending::tests::list(&timers);
        Update::List(Listed { live: Live::of(&pending), pending, now: 5 })
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
        let act = |action, duration| Act { kind: Kind::Timer, id: "a".into(), action, duration, reason: None };
        let pause = Ask::Act(act("pause", Some("5s".into())));
        assert_eq!(press(&mut model, KeyCode::Enter), Some(pause));
        press(&mut model, KeyCode::Char('s'));
        press(&mut model, KeyCode::Char('q'));
        assert_eq!(press(&mut model, KeyCode::Esc), None, "only the question is left");
        press(&mut model, KeyCode::Char('s'));
        assert_eq!(press(&mut model, KeyCode::Enter), Some(Ask::Act(act("stop", None))));
        assert_eq!(press(&mut model, KeyCode::Char('q')), Some(Ask::Quit));
    }

    #[test]
    fn keys_that_do_not_apply_say_so() {
        let mut model = Model::new(None);
        let (reminder, idle) = (json!({"taskId": "r"}), json!({"timer_instance_id": "st"}));
        let pending = pending::tests::list(&[(Kind::Reminder, reminder), (Kind::SessionTimer, idle)]);
        model.update(Update::List(Listed { live: Live::of(&pending), pending, now: 5 }));
        press(&mut model, KeyCode::Char('p'));
        assert!(model.question.is_none() && model.said.contains("cannot be paused"), "{}", model.said);
        press(&mut model, KeyCode::Char('c'));
        let Some(Ask::Act(act)) = press(&mut model, KeyCode::Enter) else { panic!("nothing is asked for") };
        assert_eq!((act.kind, act.id.as_str(), act.action), (Kind::Reminder, "r", "cancel"));
        press(&mut model, KeyCode::Down);
        for key in ['s', 'c', 'p', 'r'] {
            press(&mut model, KeyCode::Char(key));
            assert!(model.question.is_none() && model.said.contains("closing its session"), "{key}: {}", model.said);
        }
    }
}
