//! A client of the gateway: its model calls gain what waits for their session, and are held while a reminder is pending.

use super::Client;
use crate::{node::Node, trace::Ask, wire};
use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt, Full};
use reveille_gateway::Protocol;
use serde_json::{Value, json};
use std::sync::Arc;

impl Client {
    pub(super) async fn model_step(&mut self, node: &Arc<Node>) {
        let (session, gateway) = (self.session(), node.gateway.clone());
        let (protocol, stream) = (*self.random.pick(&Protocol::ALL), self.random.mille(700));
        // Users give orders in the middle of a text.
        let order = match self.random.below(20) {
            0..4 => "<**stopMessage:\"继续\",2**> ",
            4 => "<**stopMessage:clear**> ",
            5 => "<**clock:clear**> ",
            _ => "",
        };
        let body = wire::request(protocol, &format!("{order}{}", self.label()), stream);
        let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = http::Uri::from_static(protocol.path());
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let named = HeaderValue::from_bytes(session.as_str().as_bytes());
        headers.insert("x-reveille-session", named.expect("a session's name fits into a header"));
        let asked = async move {
            let mut answer = gateway.handle(request).await;
            let mut text = String::new();
            while let Some(Ok(frame)) = answer.body_mut().frame().await {
                text.push_str(&String::from_utf8_lossy(frame.data_ref().map_or(&[][..], |data| data)));
            }
            Ok((answer.status().as_u16(), text))
        };
        let shown = |(status, text): &(u16, String)| -> Value { json!({"status": status, "text": text}) };
        self.call(node, &session, Ask::Model, asked, shown).await;
    }
}
