//! What an upstream said that did not answer: for whoever looks for the reason.

use crate::{fault::Fault, flow::Flow};
use http::Response;
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::time::timeout;

/// More of it says no more.
const WHY_BYTES_MAX: usize = 1024;
/// It is not waited for any longer.
const WHY_WAIT: Duration = Duration::from_secs(2);

pub(crate) async fn refusal(response: Response<Flow>, upstream: &str) -> Fault {
    let (status, mut body) = (response.status(), response.into_body());
    let mut why = Vec::new();
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await
            && why.len() < WHY_BYTES_MAX
        {
            why.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
    };
    let _ = timeout(WHY_WAIT, reading).await;
    why.truncate(WHY_BYTES_MAX);
    let why = String::from_utf8_lossy(&why).split_whitespace().collect::<Vec<_>>().join(" ");
    Fault::Answered { upstream: upstream.to_owned(), status, why }
}
