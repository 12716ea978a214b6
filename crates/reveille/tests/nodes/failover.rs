//! A primary with a synchronous standby: the primary dies, the standby is promoted, and nodes that were given both go on.

use crate::support::{process::*, *};
use reqwest::Method;
use scratch_postgres::{Care, Cluster};
use serde_json::json;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_follow_the_primary_and_lose_nothing() {
    let primary = Cluster::start(Care::None, &["synchronous_standby_names = '*'", "wal_level = replica"]);
    // Until the standby is there, nothing could be committed.
    primary.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = ''");
    primary.sql("postgres", "SELECT pg_reload_conf()");
    primary.sql("postgres", "CREATE DATABASE reveille");
    let standby = primary.standby(Care::None, &[]);
    primary.sql("postgres", "ALTER SYSTEM RESET synchronous_standby_names");
    primary.sql("postgres", "SELECT pg_reload_conf()");
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", primary.port, standby.port);
    let url = format!("postgres://reveille@{hosts}/reveille");
    let homes = [Home::default(), Home::default()];
    let mut nodes = Vec::new();
    for home in &homes {
        home.write_config(&format!("database_url = \"{url}\"\n"));
        nodes.push(home.serve().await);
    }
    // Written by both nodes all the while; what is acknowledged is remembered.
    let (acknowledged, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let mut writers = Vec::new();
    for writer in 0..8 {
        let (acknowledged, stop, base) = (acknowledged.clone(), stop.clone(), nodes[writer % 2].url.clone());
        writers.push(tokio::spawn(async move {
            let (http, mut number) = (client(), 0);
            while !stop.load(Ordering::Relaxed) {
                let (session, key) = (format!("s{writer}_{}", number / 50), format!("{writer}_{number}"));
                let url = format!("{base}/api/sessions/{session}/tools/timer");
                let body = json!({"total_duration": 3600, "mission": key});
                match try_send(&http, Method::POST, &url, Some(&body), Some(&key)).await {
                    Ok(answer) if answer.status == 200 => {
                        acknowledged.lock().unwrap().push(id(&answer.body));
                        number += 1;
                    }
                    _ => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        }));
    }
    let count = || acknowledged.lock().unwrap().len();
    let reaches = async |wanted: usize| {
        within("timers are made", async {
            while count() < wanted {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    };
    reaches(200).await;
    primary.kill();
    standby.promote();
    let before = count();
    reaches(before + 200).await;
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        within("a writer ends", writer).await.unwrap();
    }
    let mut kept: Vec<String> =
        standby.sql("reveille", "SELECT id FROM reveille.items").lines().map(Into::into).collect();
    kept.sort();
    let lost: Vec<String> =
        acknowledged.lock().unwrap().iter().filter(|id| kept.binary_search(id).is_err()).cloned().collect();
    assert!(lost.is_empty(), "{} acknowledged timers are lost", lost.len());
    for node in nodes {
        assert_eq!(node.terminate().await, Some(0));
    }
}
