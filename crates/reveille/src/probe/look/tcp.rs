//! A connection, closed as soon as it stands.

use super::{Eyes, Look};
use futures_util::future::select_ok;
use std::{io, pin::Pin};
use tokio::net::TcpStream;

/// Of the addresses of a name, so many are tried.
const ADDRESSES_MAX: usize = 8;

impl Eyes {
    pub(super) async fn tcp(&self, host: &str, port: u16, target: &str) -> Look {
        let found = match self.rules.reach.resolve(host, port).await {
            Ok(found) => found,
            Err(error) => return Look::new(false, format!("{target}: {error}")),
        };
        match first(found.into_iter().map(TcpStream::connect)).await {
            Ok(_) => Look::new(true, format!("{target} takes connections")),
            Err(error) => Look::new(false, format!("{target}: {error}")),
        }
    }
}

/// All at once, so that one that hangs takes nobody else's time; the rest is dropped with the first that stands.
async fn first<T>(attempts: impl Iterator<Item = impl Future<Output = io::Result<T>> + Send>) -> io::Result<T> {
    let attempts: Vec<Pin<Box<_>>> = attempts.take(ADDRESSES_MAX).map(Box::pin).collect();
    if attempts.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    select_ok(attempts).await.map(|(stands, _)| stands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::future::{pending, ready};

    #[tokio::test]
    async fn an_address_that_hangs_hides_no_other() {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let attempts = [pending().boxed(), ready(Err(refused())).boxed(), ready(Ok("the second")).boxed()];
        assert_eq!(first(attempts.into_iter()).await.expect("stands"), "the second");
        let error = first([ready(Err::<(), _>(refused()))].into_iter()).await.expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(first(std::iter::empty::<std::future::Ready<io::Result<()>>>()).await.is_err());
    }
}
