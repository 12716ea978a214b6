//! Bytes into messages of the protocol. The SDK answers what is none with less than a client needs to know.

use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId};
use serde_json::Value;

/// Not a message of the protocol.
#[derive(Debug)]
pub struct Fault {
    pub error: ErrorData,
    /// Of the request, as far as it could be read.
    pub id: Option<RequestId>,
    /// Nobody waits for an answer to a notification.
    pub is_notification: bool,
}

pub fn read(bytes: &[u8]) -> Result<(Value, ClientJsonRpcMessage), Box<Fault>> {
    let fault = |error, id| Box::new(Fault { error, id, is_notification: false });
    let message: Value = serde_json::from_slice(bytes)
        .map_err(|error| fault(ErrorData::parse_error(format!("not JSON: {error}"), None), None))?;
    if message.is_array() {
        let why = "batches are not part of the protocol: send one message";
        return Err(fault(ErrorData::invalid_request(why, None), None));
    }
    let error = match serde_json::from_slice(bytes) {
        Ok(read) => return Ok((message, read)),
        Err(error) => error,
    };
    let id = serde_json::from_value(message["id"].clone()).ok();
    let error = match message["method"].as_str() {
        // All else is as it must be.
        Some(method) if message["jsonrpc"] == "2.0" && id.is_some() => {
            ErrorData::invalid_params(format!("the parameters of {method} cannot be read"), None)
        }
        _ => ErrorData::invalid_request(format!("not a JSON-RPC message: {error}"), None),
    };
    let is_notification = message.get("id").is_none() && message["method"].is_string();
    Err(Box::new(Fault { error, id, is_notification }))
}
