//! A GET, without following redirects. Only the head counts unless a body is asked for.

use super::{Eyes, Look};
use crate::{
    outgoing::{ANSWER_BYTES_MAX, Fault},
    probe::rules,
};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use regex::bytes::Regex;
use reveille_core::Millis;

/// A body that goes on after this is judged by what has come.
const BODY_MAX: Millis = Millis::from_secs(5);

impl Eyes {
    pub(super) async fn http(&self, url: &str, status: Option<u16>, body_matches: Option<&str>) -> Look {
        match self.get(url, status, body_matches).await {
            Ok((holds, seen)) => Look::new(holds, format!("{url} {seen}")),
            Err(why) => Look::new(false, format!("{url}: {why}")),
        }
    }

    async fn get(&self, url: &str, status: Option<u16>, body_matches: Option<&str>) -> Result<(bool, String), String> {
        let address = rules::address(url).map_err(|reject| reject.to_string())?;
        let pattern = body_matches.map(rules::pattern).transpose().map_err(|reject| reject.to_string())?;
        let agent = concat!("reveille/", env!("CARGO_PKG_VERSION"));
        let request = Request::get(address.as_str()).header(header::USER_AGENT, agent).header(header::ACCEPT, "*/*");
        let request = request.body(Full::<Bytes>::default()).map_err(|error| error.to_string())?;
        let response =
            self.outgoing.begin(request, self.rules.reach).await.map_err(|fault: Fault| fault.to_string())?;
        let (head, body) = response.into_parts();
        let code = head.status.as_u16();
        let expected = status.map_or(code < 400, |status| status == code);
        let Some(pattern) = pattern.filter(|_| expected) else { return Ok((expected, format!("answered {code}"))) };
        let body = self.beginning(body).await;
        Ok(match pattern.find(&body) {
            Some(found) => (true, format!("answered {code}: {}", line_of(&body, found.start(), found.end()))),
            None => (false, format!("answered {code}, but its body does not match {}", shown(&pattern))),
        })
    }

    /// Of the body, what comes in time and within bounds.
    async fn beginning(&self, mut body: Incoming) -> Vec<u8> {
        let mut kept = Vec::new();
        let reading = async {
            while kept.len() < ANSWER_BYTES_MAX
                && let Some(Ok(frame)) = body.frame().await
            {
                kept.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            }
        };
        tokio::select! {
            () = reading => {}
            () = self.over(BODY_MAX) => {}
        }
        kept.truncate(ANSWER_BYTES_MAX);
        kept
    }
}

/// The line of a text in which something was found.
pub(super) fn line_of(text: &[u8], start: usize, end: usize) -> String {
    let begin = text[..start].iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    let stop = text[end..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |place| end + place);
    // Of a very long line, the part around it.
    const AROUND: usize = 150;
    let (begin, stop) = (begin.max(start.saturating_sub(AROUND)), stop.min(end + AROUND));
    String::from_utf8_lossy(&text[begin..stop]).into_owned()
}

fn shown(pattern: &Regex) -> String {
    reveille_core::text::shown(pattern.as_str())
}
