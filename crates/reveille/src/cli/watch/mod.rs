//! `reveille watch`: the live list in a terminal. `model` is what is seen and what keys do to it, `draw` how it looks,
//! `feed` keeps it true; here they are brought together.

mod draw;
mod feed;
mod model;

use super::{
    Common, Done, Failure,
    client::{Client, segment},
    pending::Kind,
};
use clap::Args;
use crossterm::event::{Event, EventStream, KeyEventKind};
use feed::Update;
use futures_util::StreamExt;
use model::{Act, Ask, Model};
use serde_json::json;
use std::{io::IsTerminal, process::ExitCode, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// How often countdowns and bars are drawn anew.
const TICK: Duration = Duration::from_millis(250);

#[derive(Args)]
pub struct WatchArgs {
    /// Only this session's
    #[arg(long, short)]
    session: Option<String>,
}

pub async fn run(common: &Common, args: WatchArgs) -> Done {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::Refused("watch draws on a terminal; `reveille ls --json` is for programs".into()));
    }
    let client = Arc::new(common.client()?);
    // Before the screen is taken: an error is read on the ordinary one.
    let (sender, mut updates) = mpsc::channel(8);
    let first = feed::load(&client, args.session.as_deref()).await?;
    let mut model = Model::new(args.session.clone());
    model.update(Update::List(first));
    tokio::spawn(feed::follow(client.clone(), args.session, sender.clone()));

    let mut terminal = ratatui::try_init()?;
    let mut keys = EventStream::new();
    let mut tick = tokio::time::interval(TICK);
    let ended = loop {
        if let Err(error) = terminal.draw(|frame| draw::draw(frame, &mut model)) {
            break Err(error.into());
        }
        tokio::select! {
            _ = tick.tick() => {}
            update = updates.recv() => match update {
                Some(update) => model.update(update),
                None => break Ok(()),
            },
            key = keys.next() => match key {
                Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => match model.key(key) {
                    Some(Ask::Quit) => break Ok(()),
                    Some(Ask::Act(act)) => drop(tokio::spawn(carry_out(client.clone(), act, sender.clone()))),
                    None => {}
                },
                Some(Ok(_)) => {}
                Some(Err(error)) => break Err(error.into()),
                None => break Ok(()),
            },
        }
    };
    ratatui::restore();
    ended.map(|()| ExitCode::SUCCESS)
}

async fn carry_out(client: Arc<Client>, act: Act, say: mpsc::Sender<Update>) {
    let Act { kind, id, action, duration, reason } = act;
    let (path, body) = match kind {
        Kind::Reminder => ("reminders", json!({})),
        _ => ("timers", json!({"reason": reason, "pause_duration": duration})),
    };
    let said = match client.post(&format!("/api/{path}/{}/{action}", segment(&id)), &body).await {
        Ok(_) => format!("{id}: {action} done"),
        Err(failure) => failure.why(),
    };
    let _ = say.send(Update::Said(said)).await;
}
