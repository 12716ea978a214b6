//! Small facts of the protocol that more than one file needs.

use rmcp::{
    RoleServer,
    model::{Implementation, MetaObject, ProtocolVersion},
    service::RequestContext,
};

/// Requests of 2026-07-28 and later carry all about themselves; there are no sessions of the protocol.
pub fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

pub fn server() -> Implementation {
    Implementation::new("reveille", env!("CARGO_PKG_VERSION")).with_title("Reveille, the clock for AI agents")
}

/// What every modern result says about its server; older ones have heard it at `initialize`.
pub fn server_meta(context: &RequestContext<RoleServer>) -> Option<MetaObject> {
    is_modern(context).then(|| {
        let mut meta = MetaObject::new();
        let server = serde_json::to_value(server()).expect("representable as JSON");
        meta.insert("io.modelcontextprotocol/serverInfo".into(), server);
        meta
    })
}

/// What the client calls itself, if it says so.
pub fn client_name(context: &RequestContext<RoleServer>) -> Option<String> {
    context.client_info().map(|client| client.name)
}
