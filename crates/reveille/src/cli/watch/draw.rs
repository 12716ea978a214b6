//! How it looks: a table with a bar in each row, and a line below for questions and answers.

use super::{
    super::{
        pending::{Kind, Pending},
        show,
    },
    model::Model,
};
use ratatui::{
    Frame,
    layout::{Constraint, Layout},
    style::{Color, Modifier, Style, Stylize},
    text::{Line, Span},
    widgets::{Block, Cell, Row, Table, TableState},
};

const BAR_CELLS: u16 = 22;
/// In a narrow terminal what it is for comes first: the bar is shorter, and what kind of thing it is is left out.
const NARROW: u16 = 110;
const BAR_CELLS_NARROW: u16 = 8;
/// `120d 03h 00m`.
const LENGTH_CELLS: u16 = 12;
const KEYS: &str = " ↑↓ select  p pause  r resume  c to background or cancel  s stop  q quit";

pub fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let parts = [Constraint::Min(3), Constraint::Length(1), Constraint::Length(1)];
    let [body, detail, foot] = Layout::vertical(parts).areas(frame.area());
    let now = model.now();
    let is_narrow = body.width < NARROW;
    let bar_cells = if is_narrow { BAR_CELLS_NARROW } else { BAR_CELLS };
    let columns = [
        ("FOR", Constraint::Fill(2)),
        ("KIND", Constraint::Length(13)),
        ("STATE", Constraint::Length(10)),
        ("PROGRESS", Constraint::Length(bar_cells)),
        ("LEFT", Constraint::Length(LENGTH_CELLS)),
        ("OF", Constraint::Length(LENGTH_CELLS)),
        ("SESSION", Constraint::Fill(1)),
    ];
    let shown = |name: &str| name != "KIND" || !is_narrow;
    let columns: Vec<_> = columns.into_iter().filter(|(name, _)| shown(name)).collect();
    let rows = model.pending.iter().map(|one| {
        let cells = row(one, now, bar_cells).into_iter();
        Row::new(cells.filter(|(name, _)| shown(name)).map(|(_, cell)| cell))
    });
    let head = columns.iter().map(|(name, _)| match *name {
        "LEFT" | "OF" => Line::from(*name).right_aligned(),
        name => Line::from(name),
    });
    let head = Row::new(head).style(Style::new().dim());
    let table = Table::new(rows, columns.iter().map(|(_, width)| *width))
        .header(head)
        .column_spacing(2)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title(title(model)).border_style(Style::new().dim()));
    let mut state = TableState::new().with_selected(model.selected_place());
    frame.render_stateful_widget(table, body, &mut state);
    frame.render_widget(details(model), detail);
    frame.render_widget(footer(model), foot);
}

fn title(model: &Model) -> Line<'static> {
    let of = model.session.as_deref().map_or(String::new(), |session| format!(" of {}", show::clean(session)));
    let more = if model.live.or_more { "+" } else { "" };
    let count = Span::from(format!(" Reveille: {}{more} live{of} ", model.live.all())).bold();
    match model.connected {
        true => Line::from(vec![count]),
        false => Line::from(vec![count, Span::from("not connected, may be old ").fg(Color::Red)]),
    }
}

/// All of what is selected: its row may be too short for it.
fn details(model: &Model) -> Line<'static> {
    let Some(one) = model.selected_place().and_then(|place| model.pending.get(place)) else { return Line::default() };
    let parts = [one.text.clone(), one.note.clone(), format!("session {}", show::clean(&one.session))];
    Line::from(format!(" {}", show::joined(parts)))
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

/// Its cells, by the names of their columns.
fn row(one: &Pending, now: i64, bar_cells: u16) -> [(&'static str, Cell<'static>); 7] {
    let left = one.remaining(now);
    let colour = match one.status.as_str() {
        "running" => Color::Green,
        "running_background" | "scheduled" | "pending" => Color::Blue,
        "paused" => Color::Yellow,
        "due" | "triggered" => Color::Magenta,
        _ => Color::Gray,
    };
    let shown = if one.status == "running_background" { "background" } else { one.status.as_str() };
    let total = if one.is_quiet() { "quiet hours".to_owned() } else { show::length(one.total) };
    let remaining = match (one.kind, one.at) {
        (Kind::SessionTimer, None) => "answering".to_owned(),
        _ => show::length(left.ceil()),
    };
    [
        ("FOR", Cell::from(one.text.clone())),
        ("KIND", Cell::from(one.kind.words()).style(Style::new().dim())),
        ("STATE", Cell::from(shown.to_owned()).style(colour)),
        ("PROGRESS", Cell::from(bar(one, one.own_time_left(now), now, bar_cells.into())).style(colour)),
        ("LEFT", Cell::from(Line::from(remaining).right_aligned())),
        ("OF", Cell::from(Line::from(total).right_aligned())),
        ("SESSION", Cell::from(show::clean(&one.session))),
    ]
}

/// Full cells have passed; lighter ones are the present stand-by, which ends earlier than the whole.
fn bar(one: &Pending, left: f64, now: i64, width: usize) -> String {
    let total = one.total;
    let cells = |seconds: f64| (width as f64 * (seconds / total.max(0.001)).clamp(0.0, 1.0)).round() as usize;
    let done = cells(total - left);
    let until = one.standby_until.filter(|until| *until > now);
    let standby = until.map_or(done, |until| cells(total - left + (until - now) as f64 / 1000.0)).max(done);
    format!("{}{}{}", "█".repeat(done), "▒".repeat(standby - done), "░".repeat(width - standby))
}

#[cfg(test)]
mod tests {
    use super::{
        super::feed::{Listed, Update},
        *,
    };
    use crate::cli::pending::{Live, tests::list};
    use ratatui::{Terminal, backend::TestBackend};
    use serde_json::json;

    #[test]
    fn the_list_is_drawn_with_bars_for_both_durations() {
        let mut model = Model::new(Some("巡检".into()));
        let items = [
            (
                Kind::Timer,
                json!({"timer_id": "a", "status": "running", "reason": "tests\u{1b}[31m", "session": "s", "total_duration": 100,
                   "remaining_time": 50, "ends_at": 51_000, "standby_until": 26_000}),
            ),
            (
                Kind::Timer,
                json!({"timer_id": "b", "status": "paused", "mission": "看部署 🙂", "session": "s", "total_duration": 100,
                   "remaining_time": 100, "ends_at": 999_000, "pause_until": 899_000}),
            ),
            (
                Kind::Reminder,
                json!({"taskId": "r", "status": "scheduled", "task": "备份", "session": "s",
                   "createdAt": "1970-01-01T00:00:00Z", "dueAt": "1970-01-01T00:10:01Z"}),
            ),
            (
                Kind::SessionTimer,
                json!({"timer_instance_id": "st", "status": "pending", "suspended": true, "timer_id": "idle",
                   "tool_name": "close", "session": "s", "delay_seconds": 300}),
            ),
        ];
        let pending = list(&items);
        model.update(Update::List(Listed { live: Live::of(&pending), pending, now: 1000 }));
        let mut terminal = Terminal::new(TestBackend::new(130, 9)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &mut model)).expect("drawn");
        let screen = terminal.backend().to_string();
        for part in [
            "4 live of",
            "session timer",
            "answering",
            "10m 00s",
            "tests [31m",
            "███████████▒▒▒▒▒▒░░░░░",
            "50s",
            "paused",
            "░░░░░░░░░░░░░░░░░░░░░░",
            "1m 40s",
        ] {
            assert!(screen.contains(part), "{part} is not in\n{screen}");
        }
        assert!(screen.contains("tests [31m, session s"), "what is selected, whole:\n{screen}");
        model.update(Update::Lost);
        terminal.draw(|frame| draw(frame, &mut model)).expect("drawn");
        assert!(terminal.backend().to_string().contains("not connected"));
    }
    #[test]
    fn a_narrow_terminal_shows_what_matters() {
        let mut model = Model::new(None);
        let items = [(
            Kind::Timer,
            json!({"timer_id": "a", "status": "running_background", "mission": "Rotate the certificates of the gateway",
                "session": "claude-billing", "total_duration": 446_400, "remaining_time": 440_000, "ends_at": 440_001_000,
                "until": {"tcp": "localhost:5432"}, "seen": "nobody listens"}),
        )];
        let pending = list(&items);
        let live = Live { timers: 500, or_more: true, ..Live::default() };
        model.update(Update::List(Listed { live, pending, now: 1000 }));
        let mut terminal = Terminal::new(TestBackend::new(80, 6)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &mut model)).expect("drawn");
        let screen = terminal.backend().to_string();
        for part in
            ["500+ live", "→ Rotate the", "background", "5d 02h 13m", "5d 04h 00m", "claude", "until localhost:5432"]
        {
            assert!(screen.contains(part), "{part} is not in\n{screen}");
        }
    }
}
