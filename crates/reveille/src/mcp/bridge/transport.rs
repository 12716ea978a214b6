//! The SDK's transport, with an eye on what was really written and on the client's leaving.

use super::receipt::Written;
use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage},
    transport::Transport,
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub struct Receipted<T> {
    inner: T,
    written: Arc<Written>,
    /// Cancelled at the end of the input.
    over: CancellationToken,
    /// A request has come; before it nothing else means anything.
    opened: bool,
}

impl<T> Receipted<T> {
    pub fn new(inner: T, written: Arc<Written>, over: CancellationToken) -> Self {
        Self { inner, written, over, opened: false }
    }
}

impl<T: Transport<RoleServer> + 'static> Transport<RoleServer> for Receipted<T> {
    type Error = T::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let receipt = match &message {
            JsonRpcMessage::Response(response) => self.written.take(&response.id),
            _ => None,
        };
        let sending = self.inner.send(message);
        async move {
            sending.await?;
            if let Some(receipt) = receipt {
                receipt.commit();
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let message = self.inner.receive().await;
            match &message {
                None => self.over.cancel(),
                Some(JsonRpcMessage::Request(_)) => self.opened = true,
                // The SDK would take this for the end of the connection.
                Some(_) if !self.opened => continue,
                Some(_) => {}
            }
            return message;
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}
