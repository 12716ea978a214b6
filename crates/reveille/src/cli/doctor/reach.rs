//! Asking over HTTP on this machine.

use super::super::Common;
use crate::{
    address::{Address, SERVER_HEADER},
    config::{Config, Token},
};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);

pub enum Reached {
    /// The server that was meant.
    Ours(StatusCode, Response),
    /// Somebody else has the address by now.
    Another,
    /// A Reveille that wants another token.
    Locked,
    Nobody,
}

pub async fn ask(address: &Address, token: Option<&Token>, path: &str) -> Reached {
    let Ok(http) = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build() else { return Reached::Nobody };
    let mut request = http.get(format!("{}{path}", address.url));
    if let Some(server) = &address.server {
        request = request.header(SERVER_HEADER, server);
    }
    if let Some(token) = token {
        request = request.bearer_auth(token.expose());
    }
    match request.send().await {
        Err(_) => Reached::Nobody,
        Ok(response) => match response.status() {
            StatusCode::MISDIRECTED_REQUEST => Reached::Another,
            StatusCode::UNAUTHORIZED => Reached::Locked,
            status => Reached::Ours(status, response),
        },
    }
}

/// Its statistics, if that is what it has.
pub async fn stats(address: &Address, token: Option<&Token>) -> Option<Value> {
    match ask(address, token, "/api/stats").await {
        Reached::Ours(StatusCode::OK, response) => {
            response.json::<Value>().await.ok().filter(|stats| stats["server_id"].is_string())
        }
        _ => None,
    }
}

/// Where the server should be, and by what token it is asked: as all commands find it.
pub fn address(common: &Common, config: &Config) -> (Option<Address>, Option<Token>) {
    match &common.url {
        Some(url) => (Some(Address::at(url)), Token::from_environment()),
        None => (Address::read(&config.address_file()), config.token.clone()),
    }
}
