//! The operator's files, changed in every way that files are changed.

use super::support::{endpoint::Endpoints, *};
use reqwest::Method;
use reveille::{
    agents::{Registry, registry::Settings, watch},
    config::Config,
};
use reveille_core::{AgentId, Limits};
use reveille_store::MemoryStore;
use serde_json::{Value, json};
use std::{fs, num::NonZeroUsize, path::Path, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

const POLL: Duration = Duration::from_millis(20);

fn with(delay: &str) -> String {
    json!({"timers": [{"timer_id": "t", "delay_seconds": delay, "tool_name": "generate_response", "message": "?"}]})
        .to_string()
}

async fn delay(world: &World) -> Value {
    world.get("/api/agents/acme/files").await["timers"][0]["delay_seconds"].clone()
}

/// Waits until the agent has this delay; it is there all the while.
async fn becomes(world: &World, seconds: u64) {
    within("the change is noticed", async {
        while delay(world).await != seconds {
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
}

async fn problem(world: &World) -> String {
    within("the mistake is noticed", async {
        loop {
            if let Some(problem) = world.get("/api/agents").await["problems"][0].as_str() {
                return problem.to_owned();
            }
            tokio::time::sleep(POLL).await;
        }
    })
    .await
}

async fn watching(agents: &Path) -> World {
    let world = World::with(|config| config.agents.dir = Some(agents.to_owned())).await;
    assert_eq!(delay(&world).await, 60);
    world
}

#[tokio::test]
async fn files_are_read_again_when_they_change_and_a_bad_one_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (agents, file) = (directory.path().join("agents"), directory.path().join("agents/acme.files.json"));
    fs::create_dir(&agents).unwrap();
    fs::write(&file, with("1m")).unwrap();
    let world = watching(&agents).await;
    fs::write(&file, r#"{"timers": [{"timer_id": "t", "tool_name": "nobody"}]}"#).unwrap();
    assert!(problem(&world).await.contains("timers[0].tool_name"));
    assert_eq!(delay(&world).await, 60);
    fs::write(&file, with("2m")).unwrap();
    becomes(&world, 120).await;
    assert!(world.get("/api/agents").await["problems"].is_null());
    let refused = world.request(Method::PUT, "/api/agents/acme/files", Some(&json!({}))).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("agent_of_file")));
    let refused = world.request(Method::DELETE, "/api/agents/acme/files", None).await;
    assert_eq!(refused.status, 409);
    assert_eq!(world.get("/api/agents").await["agents"], json!([{"agent": "acme:files", "origin": "file"}]));
}

#[tokio::test]
async fn what_changed_before_anybody_watched_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("acme.files.json"), with("1m")).unwrap();
    let mut config = Config::default();
    config.agents.dir = Some(directory.path().to_owned());
    let settings =
        Settings { limits: Limits::default(), timers_max: 10, api_secrets: Vec::new(), cache: NonZeroUsize::MIN };
    let (registry, stop) =
        (Arc::new(Registry::new(Arc::new(MemoryStore::new("s")), settings)), CancellationToken::new());
    let watching = tokio::spawn(watch::run(config, registry.clone(), |_| {}, stop.clone()));
    let id = AgentId::of("acme", "files").unwrap();
    within("it is read", async {
        while registry.get(&id).await.unwrap().is_none() {
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
    stop.cancel();
    within("it ends", watching).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_gone_for_a_moment_takes_nothing_away() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("acme.files.json");
    fs::write(&file, with("1m")).unwrap();
    let world = watching(directory.path()).await;
    fs::remove_file(&file).unwrap();
    for _ in 0..25 {
        assert_eq!(delay(&world).await, 60);
        tokio::time::sleep(POLL).await;
    }
    fs::write(&file, with("2m")).unwrap();
    becomes(&world, 120).await;
    // One that stays away is gone.
    fs::remove_file(&file).unwrap();
    within("it is gone", async {
        while world.request(Method::GET, "/api/agents/acme/files", None).await.status != 404 {
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_configuration_itself_may_be_gone_for_a_moment() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("reveille.toml");
    let text = |delay: u32| {
        format!(
            "[[agent]]\ntenant = \"acme\"\nchatbot = \"files\"\n[[agent.timers]]\ntimer_id = \"t\"\n\
             delay_seconds = {delay}\ntool_name = \"generate_response\"\n"
        )
    };
    fs::write(&file, text(60)).unwrap();
    let read = Config::load(Some(&file)).unwrap();
    let world = World::with(|config| (config.agent, config.source) = (read.agent, read.source)).await;
    assert_eq!(delay(&world).await, 60);
    fs::write(&file, text(120)).unwrap();
    becomes(&world, 120).await;
    fs::remove_file(&file).unwrap();
    assert!(problem(&world).await.contains("reveille.toml"));
    assert_eq!(delay(&world).await, 120, "the last good one, not the first");
    fs::write(&file, text(180)).unwrap();
    becomes(&world, 180).await;
}

#[tokio::test]
async fn writing_without_end_does_not_keep_the_rest_from_being_read() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("acme.files.json"), with("1m")).unwrap();
    let world = watching(directory.path()).await;
    let noise = directory.path().join("noise.log");
    let writing = tokio::spawn(async move {
        for number in 0u64.. {
            fs::write(&noise, number.to_string()).unwrap();
            tokio::time::sleep(POLL).await;
        }
    });
    fs::write(directory.path().join("acme.files.json"), with("2m")).unwrap();
    becomes(&world, 120).await;
    writing.abort();
}

/// As Kubernetes replaces a config map: the files are links, and what they lead through is exchanged at once.
#[cfg(unix)]
#[tokio::test]
async fn links_that_are_exchanged_are_noticed() {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().unwrap();
    let mount = directory.path().join("mount");
    let fill = |name: &str, delay: &str| {
        fs::create_dir_all(mount.join(name)).unwrap();
        fs::write(mount.join(name).join("acme.files.json"), with(delay)).unwrap();
        symlink(name, mount.join("..data_tmp")).unwrap();
        fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    };
    fill("..1", "1m");
    symlink("..data/acme.files.json", mount.join("acme.files.json")).unwrap();
    symlink("mount/..data", directory.path().join("agents")).unwrap();
    for watched in ["mount", "agents"] {
        let world = watching(&directory.path().join(watched)).await;
        fill("..2", "2m");
        becomes(&world, 120).await;
        // And what is in the new place.
        fs::write(mount.join("..2/acme.files.json"), with("3m")).unwrap();
        becomes(&world, 180).await;
        fs::remove_dir_all(mount.join("..2")).unwrap();
        fs::write(mount.join("..1/acme.files.json"), with("1m")).unwrap();
        symlink("..1", mount.join("..data_tmp")).unwrap();
        fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
        becomes(&world, 60).await;
    }
}

#[tokio::test]
async fn a_bad_file_keeps_no_other_from_being_changed() {
    let directory = tempfile::tempdir().unwrap();
    let (file, other) = (directory.path().join("acme.files.json"), directory.path().join("acme.other.json"));
    fs::write(&file, with("1m")).unwrap();
    fs::write(&other, with("10m")).unwrap();
    let world = watching(directory.path()).await;
    fs::write(&other, "{").unwrap();
    assert!(problem(&world).await.contains("acme.other.json"));
    fs::write(&file, with("2m")).unwrap();
    becomes(&world, 120).await;
    // What it had is in force, and operators see that it is not what they wrote.
    assert_eq!(world.get("/api/agents/acme/other").await["timers"][0]["delay_seconds"], 600);
    let metrics = world.http.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("\nreveille_agent_files_not_in_force 1\n"), "{metrics}");
    fs::write(&other, with("20m")).unwrap();
    within("it is good again", async {
        while !world.get("/api/agents").await["problems"].is_null() {
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
    assert_eq!(world.get("/api/agents/acme/other").await["timers"][0]["delay_seconds"], 1200);
}

#[tokio::test]
async fn a_secret_that_is_renewed_is_used() {
    let (directory, endpoints) = (tempfile::tempdir().unwrap(), Endpoints::start().await);
    let (agents, key) = (directory.path().join("agents"), directory.path().join("keys/crm"));
    fs::create_dir(&agents).unwrap();
    fs::create_dir(key.parent().unwrap()).unwrap();
    fs::write(&key, "one\n").unwrap();
    let headers = json!({"authorization": format!("Bearer ${{file:{}}}", key.display())});
    let agent = json!({
        "tools": [{"name": "note", "endpoint": {"url": endpoints.url, "headers": headers}}],
        "timers": [{"timer_id": "t", "delay_seconds": 60, "max_triggers": 0, "tool_name": "note"}],
    });
    fs::write(agents.join("acme.files.json"), agent.to_string()).unwrap();
    let world = watching(&agents).await;
    world.post("/api/sessions/chat-1/activity", json!({"agent": "acme:files"})).await;
    world.advance(60);
    assert_eq!(endpoints.next().await.header("authorization"), "Bearer one");
    fs::write(&key, "two\n").unwrap();
    within("the new one is used", async {
        loop {
            world.advance(60);
            match endpoints.next().await.header("authorization") {
                "Bearer two" => return,
                other => assert_eq!(other, "Bearer one"),
            }
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
}

#[test]
fn a_directory_of_agents_is_beside_the_file_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("reveille.toml");
    fs::write(&file, "[agents]\ndir = \"agents\"\n").unwrap();
    let config = Config::load(Some(&file)).unwrap();
    assert_eq!(config.agents.dir, Some(directory.path().join("agents")));
    let missing = config.check().unwrap_err().to_string();
    assert_eq!(missing.matches("agents.dir").count(), 1, "{missing}");
    fs::create_dir(directory.path().join("agents")).unwrap();
    config.check().unwrap();
}
