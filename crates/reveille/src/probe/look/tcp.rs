//! A connection, closed as soon as it stands.

use super::{Eyes, Look};
use tokio::net::TcpStream;

impl Eyes {
    pub(super) async fn tcp(&self, host: &str, port: u16, target: &str) -> Look {
        let found = match self.rules.reach.resolve(host, port).await {
            Ok(found) => found,
            Err(error) => return Look::new(false, format!("{target}: {error}")),
        };
        let mut last = "the name has no address".to_owned();
        for address in found {
            match TcpStream::connect(address).await {
                Ok(_) => return Look::new(true, format!("{target} takes connections")),
                Err(error) => last = error.to_string(),
            }
        }
        Look::new(false, format!("{target}: {last}"))
    }
}
