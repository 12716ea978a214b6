//! The gateway's door: everything under `/v1/`.

use super::App;
use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};

pub async fn relay(State(app): State<App>, request: Request) -> Response {
    app.gateway.handle(request).await.map(Body::new)
}
