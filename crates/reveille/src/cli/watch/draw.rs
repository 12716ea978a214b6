//! How it looks: a table with a bar in each row, and a line below for questions and answers.

use super::{super::show, model::Model};
use ratatui::{
    Frame,
    layout::{Constraint, Layout},
    style::{Color, Modifier, Style, Stylize},
    text::{Line, Span},
    widgets::{Block, Cell, Row, Table, TableState},
};
use serde_json::Value;

const BAR_CELLS: usize = 22;
const KEYS: &str = " ↑↓ select  p pause  r resume  c to background  s stop  q quit";

pub fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let [body, foot] = Layout::vertical([Constraint::Min(3), Constraint::Length(1)]).areas(frame.area());
    let now = model.now();
    let widths = [
        Constraint::Fill(3),
        Constraint::Length(10),
        Constraint::Length(BAR_CELLS as u16),
        Constraint::Length(10),
        Constraint::Length(9),
        Constraint::Fill(1),
    ];
    let head = Row::new(["FOR", "STATE", "PROGRESS", "LEFT", "OF", "SESSION"]).style(Style::new().dim());
    let table = Table::new(model.timers.iter().map(|timer| row(timer, now)), widths)
        .header(head)
        .column_spacing(2)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title(title(model)).border_style(Style::new().dim()));
    let mut state = TableState::new().with_selected(model.selected_place());
    frame.render_stateful_widget(table, body, &mut state);
    frame.render_widget(footer(model), foot);
}

fn title(model: &Model) -> Line<'static> {
    let of = model.session.as_deref().map_or(String::new(), |session| format!(" of {}", show::clean(session)));
    let count = Span::from(format!(" Reveille: {} live{of} ", model.timers.len())).bold();
    match model.connected {
        true => Line::from(vec![count]),
        false => Line::from(vec![count, Span::from("not connected, may be old ").fg(Color::Red)]),
    }
}

fn footer(model: &Model) -> Line<'static> {
    match &model.question {
        Some(question) => Line::from(vec![
            Span::from(format!(" {} [{}]: ", question.words, question.id)).bold(),
            Span::from(show::clean(&question.input)),
            Span::from("▏"),
            Span::from("  enter: yes, esc: no").dim(),
        ]),
        None if !model.said.is_empty() => Line::from(format!(" {}", show::clean(&model.said))),
        None => Line::from(KEYS).dim(),
    }
}

fn row(timer: &Value, now: i64) -> Row<'static> {
    let status = timer["status"].as_str().unwrap_or_default();
    let (total, left) = (timer["total_duration"].as_f64().unwrap_or(0.0), remaining(timer, now));
    let colour = match status {
        "running" => Color::Green,
        "running_background" => Color::Blue,
        "paused" => Color::Yellow,
        _ => Color::Gray,
    };
    let shown = if status == "running_background" { "background" } else { status };
    Row::new([
        Cell::from(show::purpose(timer)),
        Cell::from(shown.to_owned()).style(colour),
        Cell::from(bar(timer, total, left, now)).style(colour),
        Cell::from(Line::from(show::length(left.ceil())).right_aligned()),
        Cell::from(Line::from(show::length(total)).right_aligned()),
        Cell::from(show::clean(timer["session"].as_str().unwrap_or_default())),
    ])
}

/// Seconds. Time stands still while it is paused.
fn remaining(timer: &Value, now: i64) -> f64 {
    match (timer["status"].as_str(), timer["ends_at"].as_i64()) {
        (Some("paused"), _) | (_, None) => timer["remaining_time"].as_f64().unwrap_or(0.0),
        (_, Some(ends_at)) => ((ends_at - now) as f64 / 1000.0).max(0.0),
    }
}

/// Full cells have passed; lighter ones are the present stand-by, which ends earlier than the whole.
fn bar(timer: &Value, total: f64, left: f64, now: i64) -> String {
    let cells = |seconds: f64| (BAR_CELLS as f64 * (seconds / total.max(0.001)).clamp(0.0, 1.0)).round() as usize;
    let done = cells(total - left);
    let until = timer["standby_until"].as_i64().filter(|until| *until > now);
    let standby = until.map_or(done, |until| cells(total - left + (until - now) as f64 / 1000.0)).max(done);
    format!("{}{}{}", "█".repeat(done), "▒".repeat(standby - done), "░".repeat(BAR_CELLS - standby))
}

#[cfg(test)]
mod tests {
    use super::{
        super::feed::{Listed, Update},
        *,
    };
    use ratatui::{Terminal, backend::TestBackend};
    use serde_json::json;

    #[test]
    fn the_list_is_drawn_with_bars_for_both_durations() {
        let mut model = Model::new(Some("巡检".into()));
        let timers = vec![
            json!({"timer_id": "a", "status": "running", "reason": "tests\u{1b}[31m", "session": "s", "total_duration": 100,
                   "remaining_time": 50, "ends_at": 51_000, "standby_until": 26_000}),
            json!({"timer_id": "b", "status": "paused", "mission": "看部署 🙂", "session": "s", "total_duration": 100,
                   "remaining_time": 100, "ends_at": 999_000}),
        ];
        model.update(Update::List(Listed { timers, now: 1000 }));
        let mut terminal = Terminal::new(TestBackend::new(110, 6)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &mut model)).expect("drawn");
        let screen = terminal.backend().to_string();
        for part in
            ["2 live of", "tests [31m", "███████████▒▒▒▒▒▒░░░░░", "50s", "paused", "░░░░░░░░░░░░░░░░░░░░░░", "1m 40s"]
        {
            assert!(screen.contains(part), "{part} is not in\n{screen}");
        }
        model.update(Update::Lost);
        terminal.draw(|frame| draw(frame, &mut model)).expect("drawn");
        assert!(terminal.backend().to_string().contains("not connected"));
    }
}
