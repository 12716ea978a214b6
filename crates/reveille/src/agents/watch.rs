//! The operator's files: read at the start, and again whenever they change. A change that makes no sense is said in the
//! log and by the API, and what that file had in force before stays. Which directories are watched for that is in `places`.

use super::{AgentConfig, Registry, places::Places, registry::Source, secret};
use crate::config::Config;
use anyhow::Context;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

/// Editors write in several steps; the files are read once they are quiet.
const QUIET: Duration = Duration::from_millis(100);
/// Or after this, if they never are: a file that is written without end must not keep the others from being read.
const QUIET_MAX: Duration = Duration::from_secs(2);
/// A file that is gone may be on its way back, as some programs save. So long its agents stay.
const GONE: Duration = Duration::from_secs(2);
/// A file larger than this is no agent.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What the configuration file itself is called among the files.
const CONFIGURATION: &str = "agent";

/// All files of agents.
pub fn read(config: &Config) -> anyhow::Result<Vec<Source>> {
    let inline = config.agent.iter().cloned().enumerate().map(|(number, agent)| (format!("agent[{number}]"), agent));
    let mut sources = vec![Source { name: CONFIGURATION.into(), agents: Ok(inline.collect()) }];
    sources.extend(read_directory(config)?);
    Ok(sources)
}

fn read_directory(config: &Config) -> anyhow::Result<Vec<Source>> {
    let Some(directory) = &config.agents.dir else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .with_context(|| format!("is {}, which cannot be read", directory.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    let sources = paths.iter().filter_map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let agents = match read_file(path) {
            Ok(agent) => Ok(vec![(name.clone(), agent?)]),
            Err(error) => Err(format!("{error:#}")),
        };
        Some(Source { name: name.into(), agents })
    });
    Ok(sources.collect())
}

/// Whether it may be an agent's.
pub fn is_agents(path: &Path) -> bool {
    matches!(path.extension().and_then(|extension| extension.to_str()), Some("json" | "toml"))
}

/// `tenant.chatbot.json` names its agent, if the file itself does not.
fn read_file(path: &Path) -> anyhow::Result<Option<AgentConfig>> {
    if !is_agents(path) || !path.is_file() {
        return Ok(None);
    }
    anyhow::ensure!(fs::metadata(path)?.len() <= FILE_BYTES_MAX, "is larger than {FILE_BYTES_MAX} bytes");
    let text = fs::read_to_string(path)?;
    let mut agent: AgentConfig = match path.extension().and_then(|extension| extension.to_str()) {
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

/// Reads again what was changed, until `stop` is cancelled. `on_read` hears of every configuration that can be read.
pub async fn run(
    config: Config,
    registry: Arc<Registry>,
    on_read: impl Fn(&Config) + Send + Sync,
    stop: CancellationToken,
) {
    if config.source.is_none() && config.agents.dir.is_none() {
        return;
    }
    let (changed, mut changes) = mpsc::channel::<()>(1);
    let mut watched: Option<(Places, RecommendedWatcher)> = None;
    loop {
        // Where the files really are may have changed with them.
        let secrets = referred_to(&look(&config).unwrap_or_default());
        let files = config.source.iter().chain(&secrets).map(PathBuf::as_path);
        let places = Places::of(files, config.agents.dir.as_deref());
        let moved = watched.as_ref().is_none_or(|(before, _)| *before != places);
        if moved {
            match watch(&places, changed.clone()) {
                Ok(watcher) => watched = Some((places, watcher)),
                Err(error) => {
                    tracing::warn!(%error, "changes of the configuration are not noticed before the next start");
                    return;
                }
            }
            // Whatever happened before somebody looked is looked at now.
            let _ = changed.try_send(());
        }
        match stop.run_until_cancelled(settled(&mut changes)).await {
            Some(true) => {}
            Some(false) | None => return,
        }
        let mut found = look(&config);
        if found.as_ref().is_ok_and(|found| registry.would_lose(found)) {
            let back = async {
                let _ = tokio::time::timeout(GONE, changes.recv()).await;
                tokio::time::sleep(QUIET).await;
            };
            if stop.run_until_cancelled(back).await.is_none() {
                return;
            }
            found = look(&config);
        }
        // One that cannot be read is told of below.
        if let Some(Ok(fresh)) = config.source.as_deref().map(|path| Config::load(Some(path))) {
            on_read(&fresh);
        }
        apply(&registry, found);
    }
}

/// Waits for a change, and until there are no more for a moment. `false`: there never will be.
async fn settled(changes: &mut mpsc::Receiver<()>) -> bool {
    if changes.recv().await.is_none() {
        return false;
    }
    let latest = Instant::now() + QUIET_MAX;
    loop {
        let quiet = (Instant::now() + QUIET).min(latest);
        match tokio::time::timeout_at(quiet, changes.recv()).await {
            Ok(Some(())) if Instant::now() < latest => {}
            _ => return true,
        }
    }
}

fn watch(places: &Places, changed: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let ours = places.clone();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // What was lost on the way may have been ours.
        let matters = event.map_or(true, |event| {
            let read = matches!(event.kind, EventKind::Access(_));
            event.need_rescan() || (!read && event.paths.iter().any(|path| ours.has(path)))
        });
        if matters {
            // Full: a look is on its way already.
            let _ = changed.try_send(());
        }
    })?;
    for directory in places.directories() {
        watcher.watch(directory, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// What the files say now.
fn look(config: &Config) -> anyhow::Result<Vec<Source>> {
    let Some(path) = &config.source else { return read(config) };
    match Config::load(Some(path)) {
        Ok(mut fresh) => {
            // Where it was told to look is for the whole of a process.
            fresh.agents.dir.clone_from(&config.agents.dir);
            read(&fresh)
        }
        Err(error) => {
            let mut sources = vec![Source { name: CONFIGURATION.into(), agents: Err(error.to_string()) }];
            sources.extend(read_directory(config)?);
            Ok(sources)
        }
    }
}

/// Files with secrets of these agents. Whoever renews one does not touch the agent's own file.
fn referred_to(sources: &[Source]) -> BTreeSet<PathBuf> {
    let agents = sources.iter().filter_map(|source| source.agents.as_ref().ok()).flatten();
    agents.flat_map(|(_, agent)| agent.secrets().flat_map(secret::files)).map(PathBuf::from).collect()
}

/// Puts it in force, as far as it makes sense.
fn apply(registry: &Registry, found: anyhow::Result<Vec<Source>>) {
    let problems = match found {
        Ok(sources) => {
            let (count, problems) = registry.renew(&sources);
            tracing::info!(count, "agents were read");
            problems
        }
        Err(error) => {
            let problem = format!("`agents.dir` {error:#}");
            registry.keeps_last(problem.clone());
            vec![problem]
        }
    };
    for problem in problems {
        tracing::error!("a file of agents makes no sense and what it defined before stays in force: {problem}");
    }
}
