//! Speaking to a running server.

use super::Failure;
use crate::{
    address::{Address, SERVER_HEADER},
    config::{Config, Token},
};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;

pub struct Client {
    http: reqwest::Client,
    address: Address,
    kind: Option<&'static str>,
    token: Option<Token>,
}

impl Client {
    /// A server named by the user; the token of our own configuration is none of its business.
    pub fn new(url: &str) -> Result<Self, Failure> {
        Self::to(Address::at(url), Token::from_environment())
    }

    fn to(address: Address, token: Option<Token>) -> Result<Self, Failure> {
        // The server is on this machine or named on purpose: a proxy from the environment is not meant for it.
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { http, address, kind: None, token })
    }

    /// Calls in the name of this kind of program.
    pub fn kind(self, kind: &'static str) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// The server that runs on the configured data directory, else the one on the configured address.
    pub fn of(config: &Config) -> Result<Self, Failure> {
        let running = Address::read(&config.address_file());
        let address = running.unwrap_or_else(|| Address::at(&format!("http://{}", config.listen)));
        Self::to(address, config.token.clone())
    }

    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, Failure> {
        self.answer(self.request(Method::GET, path).query(query)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.answer(self.request(Method::POST, path).json(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.answer(self.request(Method::PUT, path).json(body)).await
    }

    pub async fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.answer(self.request(Method::DELETE, path)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.address.url));
        if let Some(server) = &self.address.server {
            request = request.header(SERVER_HEADER, server);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        match self.kind {
            Some(kind) => request.header("x-reveille-client", kind),
            None => request,
        }
    }

    /// An answer that goes on.
    pub async fn stream(&self, path: &str, query: &[(&str, &str)]) -> Result<Response, Failure> {
        let request = self.request(Method::GET, path).query(query);
        let response = self.send(request).await?;
        response.error_for_status().map_err(|error| self.unreachable(&error))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        match response.status() {
            StatusCode::MISDIRECTED_REQUEST => Err(Failure::NoServer(format!(
                "no server runs on this data directory; the one at {} is another's. Start one with `reveille`",
                self.address.url
            ))),
            _ => Ok(response),
        }
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Value, Failure> {
        let response = self.send(request).await?;
        let status = response.status();
        let body: Value = response.json().await.map_err(|error| {
            Failure::Refused(format!("{} answered {status} with something that is not JSON: {error}", self.address.url))
        })?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        Err(Failure::problem(body))
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        if error.is_connect() {
            return Failure::NoServer(format!(
                "no server answers at {}. Start one with `reveille`, or name another with --url",
                self.address.url
            ));
        }
        Failure::Refused(format!("the connection to {} broke off: {error}", self.address.url))
    }
}

/// One segment of a path, whatever characters are in it.
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
