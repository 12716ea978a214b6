//! All doors under mixed load for as long as one likes: memory and descriptors must stay flat, no error come that was not
//! asked for, and nothing be left behind. Ends with a verdict, and with a failure if that is bad.

mod chats;
mod door;
mod gateway;
mod mcp;
mod programs;
mod stage;
mod tools;

use anyhow::ensure;
use door::{Door, Notes};
use stage::Stage;
use std::{path::Path, time::Duration};
use tokio::{task::JoinSet, time::Instant};

/// Agents that use their tools at once.
const AGENTS: usize = 8;
/// Sessions of the chatbot, each with its timers, endpoints, webhooks and a WebSocket.
const CHATS: usize = 6;
/// Sessions that are woken by a command.
const SLEEPERS: usize = 2;
/// Of the whole run: the first quarter is for caches and pools to fill.
const SAMPLES: usize = 40;
/// Memory at the end over that after the warm-up: what is allocated and freed is not given back to the byte.
const MEMORY_GROWTH_MAX: f64 = 1.10;
const MEMORY_SLACK_KIB: u64 = 8 * 1024;
const FILES_SLACK: u64 = 16;
/// So long after the last request nothing may be under way any more.
const SETTLE: Duration = Duration::from_secs(20);
/// What stands for something that is under way; all of them are nought when nobody calls.
const UNDER_WAY: [&str; 4] = [
    "reveille_gateway_holds ",
    "reveille_standing_by ",
    "reveille_wake_commands_running ",
    "reveille_event_followers ",
];

#[derive(Clone, Copy)]
struct Sample {
    memory_kib: u64,
    files: u64,
}

pub async fn run(dir: &Path, minutes: f64) -> anyhow::Result<()> {
    let length = Duration::from_secs_f64(minutes * 60.0);
    let stage = Stage::set(dir).await?;
    let door = Door::new(&stage.server.address, Instant::now() + length);
    stage.agents(&door).await;
    let mut tasks = JoinSet::new();
    for number in 0..AGENTS {
        tasks.spawn(tools::agent(door.clone(), number));
    }
    tasks.spawn(tools::reminders(door.clone()));
    tasks.spawn(tools::looks(door.clone()));
    tasks.spawn(tools::follows(door.clone()));
    for api in gateway::Api::ALL {
        for stream in [false, true] {
            tasks.spawn(gateway::plain(door.clone(), api, stream));
            tasks.spawn(gateway::clocked(door.clone(), api, stream));
            tasks.spawn(gateway::held(door.clone(), api, stream));
        }
        tasks.spawn(gateway::left(door.clone(), api));
        tasks.spawn(chats::queries(door.clone(), api));
    }
    for number in 0..CHATS {
        tasks.spawn(chats::chat(door.clone(), stage.endpoints.clone(), number));
    }
    tasks.spawn(mcp::calls(door.clone()));
    tasks.spawn(mcp::connections(door.clone()));
    tasks.spawn(mcp::stands_by(door.clone()));
    tasks.spawn(mcp::tasks(door.clone()));
    for number in 0..SLEEPERS {
        tasks.spawn(programs::woken(door.clone(), stage.desk(), number));
    }
    tasks.spawn(programs::commands(door.clone()));
    tasks.spawn(programs::hooks(door.clone()));
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        tokio::time::sleep(length / SAMPLES as u32).await;
        samples.push(Sample { memory_kib: stage.server.resident_kib()?, files: stage.server.files()? });
    }
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    let left = left_behind(&door).await;
    let said = stage.said()?;
    verdict(&samples, &door.notes(), &left, &said, minutes)
}

/// What is still under way a while after everybody has gone.
async fn left_behind(door: &Door) -> Vec<String> {
    let until = Instant::now() + SETTLE;
    loop {
        let metrics = door.text("/metrics").await;
        let count = |name: &str| metrics.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        let counts = UNDER_WAY.map(|name| count(name).unwrap_or_else(|| format!("{name}is not there")));
        let left: Vec<String> = counts.into_iter().filter(|line| !line.ends_with(" 0")).collect();
        if left.is_empty() || Instant::now() > until {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn verdict(samples: &[Sample], notes: &Notes, left: &[String], said: &[String], minutes: f64) -> anyhow::Result<()> {
    let quarter = samples.len() / 4;
    let median = |part: &[Sample], of: fn(&Sample) -> u64| {
        let mut values: Vec<u64> = part.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let (early, late) = (&samples[quarter..2 * quarter], &samples[samples.len() - quarter..]);
    let memory = (median(early, |sample| sample.memory_kib), median(late, |sample| sample.memory_kib));
    let files = (median(early, |sample| sample.files), median(late, |sample| sample.files));
    let answers: u64 = notes.answers.values().sum();
    println!("soak of {minutes} minutes: {answers} answers {:?}", notes.answers);
    println!("memory: {} KiB after the warm-up, {} KiB at the end", memory.0, memory.1);
    println!("descriptors: {} after the warm-up, {} at the end", files.0, files.1);
    println!("errors: {}", notes.errors.len());
    notes.errors.iter().take(10).for_each(|error| println!("  {error}"));
    println!("lines that the server wrote into its log as warnings or errors: {}", said.len());
    said.iter().take(10).for_each(|line| println!("  {line}"));
    println!("left under way: {left:?}");
    ensure!(notes.answers.len() == door::DOORS.len(), "FAILED: not everything was answered: {:?}", notes.answers);
    ensure!(notes.errors.is_empty() && said.is_empty(), "FAILED: errors that nobody asked for");
    ensure!(left.is_empty(), "FAILED: something is left under way");
    let bound = (memory.0 as f64 * MEMORY_GROWTH_MAX) as u64 + MEMORY_SLACK_KIB;
    ensure!(memory.1 <= bound, "FAILED: memory grows");
    ensure!(files.1 <= files.0 + FILES_SLACK, "FAILED: descriptors are not given back");
    println!("GOOD: memory and descriptors are flat, nothing is left, and no error came that was not asked for");
    Ok(())
}
