//! Upstreams behind TLS, trusted by the system's roots, over HTTP/2 and HTTP/1.1; and what the log says of a call.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc};
use support::process::{Daemon, Home};
use tokio::net::TcpListener;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

/// A server for `localhost` that offers these protocols and says which one was spoken; its port.
async fn secure(key: &CertifiedKey<rcgen::KeyPair>, protocols: &[&[u8]]) -> u16 {
    let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(key.cert.der().to_vec())], private)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(|request: Request<Incoming>| async move {
                    let key = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
                    let said = json!({"version": format!("{:?}", request.version()), "key": key});
                    Ok::<_, hyper::Error>(Response::new(said.to_string()))
                });
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    port
}

async fn daemon(home: &Home, port: u16, roots: &Path) -> Daemon {
    let upstream = format!("name = \"tls\"\nbase_url = \"https://localhost:{port}\"\nprotocols = [\"chat\"]\n");
    home.write_config(&format!("[gateway]\nretries = 0\n[[gateway.upstream]]\n{upstream}api_key_env = \"MY_KEY\"\n"));
    let log = std::fs::File::create(home.log()).unwrap();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("SSL_CERT_FILE", roots).env("MY_KEY", "sk-very-secret").env("REVEILLE_LOG", "debug").stderr(log);
    Daemon::start(command).await
}

async fn ask(daemon: &Daemon) -> (u16, Value) {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "a private matter"}]});
    let call = support::client().post(format!("{}/v1/chat/completions", daemon.url)).json(&body);
    let answer = call.bearer_auth("sk-of-the-client").send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn tls_by_the_systems_roots_over_both_versions() {
    let home = Home::default();
    let key = generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let roots = home.dir.path().join("roots.pem");
    std::fs::write(&roots, key.cert.pem()).unwrap();
    for (protocols, version) in [(&[b"h2" as &[u8], b"http/1.1"][..], "HTTP/2.0"), (&[b"http/1.1"], "HTTP/1.1")] {
        let port = secure(&key, protocols).await;
        let daemon = daemon(&home, port, &roots).await;
        for _ in 0..2 {
            assert_eq!(ask(&daemon).await, (200, json!({"version": version, "key": "Bearer sk-very-secret"})));
        }
        let log = std::fs::read_to_string(home.log()).unwrap();
        assert!(log.contains("outcome=\"complete\"") && log.contains("first_byte_ms"), "{log}");
        for secret in ["sk-very-secret", "sk-of-the-client", "a private matter"] {
            assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
        }
        daemon.kill().await;
    }
}

#[tokio::test]
async fn a_stranger_is_not_trusted() {
    let home = Home::default();
    let key = || generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let roots = home.dir.path().join("roots.pem");
    std::fs::write(&roots, key().cert.pem()).unwrap();
    let port = secure(&key(), &[b"h2"]).await;
    let daemon = daemon(&home, port, &roots).await;
    let (status, body) = ask(&daemon).await;
    assert_eq!((status, &body["error"]["code"]), (502, &json!("upstream_unreachable")));
    assert!(body["error"]["message"].as_str().unwrap().contains("certificate"), "{body}");
    // The log says why, and no more than it must of what others wrote.
    let long = json!({"model": "x".repeat(100_000), "messages": []});
    support::client().post(format!("{}/v1/chat/completions", daemon.url)).json(&long).send().await.unwrap();
    let log = std::fs::read_to_string(home.log()).unwrap();
    let line = log.lines().find(|line| line.contains("outcome=\"upstream_unreachable\"")).expect("a line for the call");
    assert!(line.contains("fault=") && line.contains("certificate"), "{line}");
    let longest = log.lines().filter(|line| line.contains("reveille::gateway")).map(str::len).max();
    assert!(longest.is_some_and(|longest| longest < 2000), "{longest:?}");
}
