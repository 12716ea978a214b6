//! Any bytes at any door: answered as documented, never with a fault of the server's own, and the server lives on.

use super::support::{client, process::Home, within};
use reqwest::{Method, Response};
use reveille::config::Config;
use serde_json::Value;
use std::path::Path;

#[path = "../../../../fuzz/mutate.rs"]
mod mutate;

/// Of each kind.
const INPUTS: usize = 600;

/// A refusal is a problem with a code.
async fn sensible(what: &str, input: &[u8], response: Response) {
    let status = response.status().as_u16();
    let shown = || String::from_utf8_lossy(input).into_owned();
    assert!(status < 500, "{what} answers {status} to {}", shown());
    let body = within(what, response.bytes()).await.unwrap();
    if status >= 400 {
        let problem: Value =
            serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{what}: {body:?} to {}", shown()));
        assert!(problem["code"].is_string() && problem["detail"].is_string(), "{what}: {problem} to {}", shown());
        assert!(body.len() < 4000, "{what} repeats too much: {problem}");
    }
}

#[tokio::test]
async fn bodies_of_all_kinds() {
    let home = Home::default();
    let server = home.serve().await;
    let http = client();
    let tools = ["timer", "read_timer", "stop_timer", "pause_timer", "clock"];
    let send = async |method: Method, path: &str, input: &[u8]| {
        let request = http.request(method, format!("{}{path}", server.url)).header("x-reveille-standby-max", "0.001");
        within(path, request.body(input.to_vec()).send()).await.unwrap()
    };
    for (target, method) in [("tool", Method::POST), ("agent", Method::PUT), ("mcp", Method::POST)] {
        let mut inputs = Vec::new();
        mutate::each(target, mutate::inputs(INPUTS), |input| inputs.push(input.to_vec()));
        for (number, input) in inputs.iter().enumerate() {
            let path = match target {
                "tool" => format!("/api/sessions/s{}/tools/{}", number / 50, tools[number % tools.len()]),
                "agent" => format!("/api/agents/acme/bot{}", number % 5),
                _ => "/mcp".to_owned(),
            };
            let response = send(method.clone(), &path, input).await;
            if target == "mcp" {
                let shown = String::from_utf8_lossy(input);
                assert!(response.status().as_u16() < 500, "{} to {shown}", response.status());
                within("MCP", response.bytes()).await.unwrap();
            } else {
                sensible(&path, input, response).await;
            }
        }
        println!("{target}: {} inputs", inputs.len());
    }
    assert_eq!(send(Method::GET, "/readyz", b"").await.status(), 200);
    assert_eq!(server.terminate().await, Some(0));
    let log = std::fs::read_to_string(home.log()).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn configurations() {
    mutate::each("config", mutate::inputs(5 * INPUTS), |input| {
        let text = String::from_utf8_lossy(input);
        match Config::read(Path::new("reveille.toml"), &text) {
            Ok(config) => drop(config.check()),
            Err(error) => assert!(error.to_string().contains("reveille.toml"), "{error}"),
        }
    });
}
