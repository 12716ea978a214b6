//! Where the server of a data directory is. It says so in a file there for as long as it runs. One that was killed leaves
//! the file behind, and its port may be another server's by then: requests by that address name the server they mean.

use crate::{private, secret};
use std::{fs, io, net::SocketAddr, path::Path};

/// The server a request is meant for; any other refuses it.
pub const SERVER_HEADER: &str = "x-reveille-server";

#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    pub url: String,
    /// One run of one server. Not there in files of old versions.
    pub server: Option<String>,
}

impl Address {
    pub fn new(address: SocketAddr) -> Self {
        Self { url: format!("http://{address}"), server: Some(secret::fresh()) }
    }

    /// Where this is, nothing is known of who answers there.
    pub fn at(url: &str) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), server: None }
    }

    pub fn read(file: &Path) -> Option<Self> {
        let text = fs::read_to_string(file).ok()?;
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        Some(Self { url: lines.next()?.to_owned(), server: lines.next().map(str::to_owned) })
    }

    /// In one step, so that nobody reads half of it.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        private::write(file, &format!("{}\n{}\n", self.url, self.server.as_deref().unwrap_or_default()))
    }
}
