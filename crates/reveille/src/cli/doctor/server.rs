//! The port: held by our own server, which answers; or free; or somebody else's.

use super::{
    super::Common,
    finding::Finding,
    reach::{Reached, address, ask, stats},
};
use crate::{address::Address, config::Config};
use reqwest::StatusCode;
use std::{io::ErrorKind, net::TcpListener};

const AREA: &str = "server";

#[derive(Default)]
pub struct Asked {
    pub findings: Vec<Finding>,
    /// The server's own time, in milliseconds since 1970.
    pub now: Option<i64>,
}

pub async fn ask_server(common: &Common, config: &Config) -> Asked {
    let (address, token) = address(common, config);
    let Some(address) = address else { return Asked { findings: vec![port(config).await], now: None } };
    let url = &address.url;
    let finding = match ask(&address, token.as_ref(), "/readyz").await {
        Reached::Ours(StatusCode::OK, _) => {
            let stats = stats(&address, token.as_ref()).await;
            let version = stats.as_ref().and_then(|stats| stats["version"].as_str()).unwrap_or("of an unknown version");
            let now = stats.as_ref().and_then(|stats| stats["now"].as_i64());
            let findings = vec![of_version(url, version)];
            return Asked { findings, now };
        }
        Reached::Ours(status, response) => {
            let said = response.text().await.unwrap_or_default();
            let cure = "its log says why (stderr, or `server.log` in the data directory); it resumes by itself when the store does";
            Finding::problem(AREA, format!("{url} answers {status}: {said}"), cure)
        }
        Reached::Locked => {
            let cure =
                "give the token the server was started with: REVEILLE_TOKEN, or `token_file` in the configuration";
            Finding::problem(AREA, format!("{url} does not take our token"), cure)
        }
        Reached::Another | Reached::Nobody if common.url.is_some() => {
            Finding::problem(AREA, format!("nothing answers at {url}"), "start it there, or leave out --url")
        }
        Reached::Another | Reached::Nobody => {
            let what = format!("a server was killed and left its address ({url}) behind; none runs now");
            let note = Finding::note(
                AREA,
                what,
                "`reveille` starts one, and so does the next tool call through `reveille mcp`",
            );
            return Asked { findings: vec![note, port(config).await], now: None };
        }
    };
    Asked { findings: vec![finding], now: None }
}

fn of_version(url: &str, version: &str) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    if version == own {
        return Finding::ok(AREA, format!("answers at {url}, version {version}"));
    }
    let what = format!("the one at {url} is {version}, this program is {own}");
    Finding::warning(AREA, what, "end it (SIGTERM; nothing is lost) and start it again")
}

/// Nobody of ours runs: could one?
async fn port(config: &Config) -> Finding {
    let listen = config.listen;
    match TcpListener::bind(listen) {
        Ok(_) => Finding::ok(AREA, format!("does not run; {listen} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let address = Address::at(&format!("http://{listen}"));
            let cure = format!(
                "end it, or choose another port with --listen; `ss -ltnp 'sport = :{}'` shows who it is",
                listen.port()
            );
            match stats(&address, config.token.as_ref()).await {
                Some(stats) => {
                    let what =
                        format!("{listen} is another Reveille's ({}), with another data directory", stats["server_id"]);
                    Finding::warning(AREA, what, format!("use its --data-dir; or {cure}"))
                }
                None => Finding::problem(AREA, format!("{listen} is held by another program"), cure),
            }
        }
        Err(error) => Finding::problem(
            AREA,
            format!("cannot listen on {listen}: {error}"),
            "choose another address with --listen",
        ),
    }
}
