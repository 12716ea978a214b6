//! The operator's files: read at the start, and again whenever they change. A change that makes no sense is said in the
//! log and by the API, and what was in force before stays.

use super::{AgentConfig, Registry};
use crate::config::Config;
use anyhow::Context;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Editors write in several steps; the files are read once they are quiet.
const QUIET: Duration = Duration::from_millis(100);
/// A file larger than this is no agent.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// All agents of the files, each with the place it was found at.
pub fn read(config: &Config) -> anyhow::Result<Vec<(String, AgentConfig)>> {
    let inline = config.agent.iter().cloned().enumerate().map(|(number, agent)| (format!("agent[{number}]"), agent));
    let mut agents: Vec<_> = inline.collect();
    let Some(directory) = &config.agents.dir else { return Ok(agents) };
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .with_context(|| format!("`agents.dir`: {} cannot be read", directory.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(agent) = read_file(&path).with_context(|| format!("{}", path.display()))? {
            agents.push((name, agent));
        }
    }
    Ok(agents)
}

/// `tenant.chatbot.json` names its agent, if the file itself does not.
fn read_file(path: &Path) -> anyhow::Result<Option<AgentConfig>> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    if !matches!(extension, Some("json" | "toml")) || !path.is_file() {
        return Ok(None);
    }
    anyhow::ensure!(fs::metadata(path)?.len() <= FILE_BYTES_MAX, "is larger than {FILE_BYTES_MAX} bytes");
    let text = fs::read_to_string(path)?;
    let mut agent: AgentConfig = match extension {
        Some("toml") => toml::from_str(&text)?,
        _ => parse(&text)?,
    };
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if let Some((tenant, chatbot)) = stem.split_once('.') {
        agent.tenant.get_or_insert_with(|| tenant.to_owned());
        agent.chatbot.get_or_insert_with(|| chatbot.to_owned());
    }
    Ok(Some(agent))
}

/// JSON, with errors that name the field.
pub fn parse(text: &str) -> anyhow::Result<AgentConfig> {
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        anyhow::anyhow!("`{path}`: {}", error.into_inner())
    })
}

/// Reads again what was changed, until `stop` is cancelled.
pub async fn run(config: Config, registry: Arc<Registry>, stop: CancellationToken) {
    let (changed, mut changes) = mpsc::channel::<()>(1);
    let watched = [config.source.clone(), config.agents.dir.clone()].into_iter().flatten();
    let watched: Vec<PathBuf> = watched.map(|path| fs::canonicalize(&path).unwrap_or(path)).collect();
    if watched.is_empty() {
        return;
    }
    let (source, directory) = (watched.clone(), config.agents.dir.is_some());
    let notice = move |event: notify::Result<Event>| {
        let Ok(event) = event else { return };
        let ours =
            |path: &PathBuf| source.iter().any(|watched| path == watched || (directory && path.starts_with(watched)));
        if !matches!(event.kind, EventKind::Access(_)) && event.paths.iter().any(ours) {
            // Full: a look is on its way already.
            let _ = changed.try_send(());
        }
    };
    let _watcher = match watch(&watched, notice) {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, "changes of the configuration are not noticed before the next start");
            return;
        }
    };
    while let Some(Some(())) = stop.run_until_cancelled(changes.recv()).await {
        while tokio::time::timeout(QUIET, changes.recv()).await.is_ok_and(|change| change.is_some()) {}
        reload(&config, &registry);
    }
}

fn watch(
    paths: &[PathBuf],
    notice: impl Fn(notify::Result<Event>) + Send + 'static,
) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(notice)?;
    for path in paths {
        // The directory, since editors put a new file in place of the old one.
        let directory = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        if directory.is_dir() {
            watcher.watch(directory, RecursiveMode::NonRecursive)?;
        }
    }
    Ok(watcher)
}

/// What the files say now, if it makes sense.
pub fn reload(config: &Config, registry: &Registry) {
    let read = || -> anyhow::Result<usize> {
        let fresh = match &config.source {
            Some(path) if path.exists() => Config::load(Some(path))?,
            _ => config.clone(),
        };
        Ok(registry.load(read(&fresh)?)?)
    };
    match read() {
        Ok(count) => tracing::info!(count, "agents were read again"),
        Err(error) => {
            tracing::error!("the agents' configuration makes no sense and the last good one stays in force: {error:#}");
            registry.keeps_last(format!("{error:#}"));
        }
    }
}
