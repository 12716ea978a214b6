//! How the page gets in: it shows the token once and keeps a cookie that scripts cannot read.

use super::{
    App,
    access::{Caller, no_cookie},
    body::JsonBody,
    problem::ApiError,
};
use crate::{access::Scope, tools::Problem};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
pub struct SignedIn {
    /// Requests need the token.
    pub required: bool,
    /// This caller has it, or none is needed.
    pub signed_in: bool,
    /// What it allows: `operator`, `agent` or `read-only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<&'static str>,
}

impl SignedIn {
    const NOT: Self = Self { required: true, signed_in: false, scope: None };
}

/// Whether a token is needed and this caller has one. A page's cookie is renewed.
#[utoipa::path(get, path = "/api/sign-in", tag = "operation", responses((status = 200, body = SignedIn)))]
pub async fn read(State(app): State<App>, Extension(caller): Extension<Caller>, headers: HeaderMap) -> Response {
    let (scope, cookie) = match &caller {
        Caller::Known(pass) => (pass.grant.scope, app.access.cookie(pass, is_secure(&headers))),
        Caller::Anybody => (Scope::Operator, None),
        Caller::Stranger => return with_cookie(Json(SignedIn::NOT).into_response(), None),
    };
    let said = SignedIn { required: app.access.wants_token(), signed_in: true, scope: Some(scope.name()) };
    with_cookie(Json(said).into_response(), cookie)
}

#[derive(Deserialize, ToSchema, Default)]
#[serde(default)]
pub struct SignInBody {
    token: String,
}

/// Show the token and get a cookie for it.
#[utoipa::path(post, path = "/api/sign-in", tag = "operation", request_body(content = SignInBody), responses(
    (status = 200, body = SignedIn),
    (status = 401, body = Problem, content_type = "application/problem+json"),
))]
pub async fn enter(State(app): State<App>, headers: HeaderMap, body: JsonBody) -> Result<Response, ApiError> {
    let SignInBody { token } = body.read()?;
    if !app.access.wants_token() {
        let said = SignedIn { required: false, signed_in: true, scope: Some(Scope::Operator.name()) };
        return Ok(with_cookie(Json(said).into_response(), None));
    }
    let Some(pass) = app.access.knows(&token) else {
        let detail = "this is not a token of this server";
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "Not signed in", "wrong_token", detail));
    };
    let said = SignedIn { required: true, signed_in: true, scope: Some(pass.grant.scope.name()) };
    Ok(with_cookie(Json(said).into_response(), app.access.cookie(&pass, is_secure(&headers))))
}

/// Give the cookie back.
#[utoipa::path(delete, path = "/api/sign-in", tag = "operation", responses((status = 200, body = SignedIn)))]
pub async fn leave(State(app): State<App>, Extension(caller): Extension<Caller>) -> Response {
    let required = app.access.wants_token();
    let scope = (!required).then(|| Scope::Operator.name());
    let cookie = match &caller {
        Caller::Known(pass) => no_cookie(pass),
        Caller::Anybody | Caller::Stranger => None,
    };
    with_cookie(Json(SignedIn { required, signed_in: !required, scope }).into_response(), cookie)
}

fn with_cookie(mut response: Response, cookie: Option<HeaderValue>) -> Response {
    if let Some(cookie) = cookie {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A proxy may have taken the s off on the way here; the page, or the proxy, says so.
fn is_secure(headers: &HeaderMap) -> bool {
    let says = |name: &str, secure: &[u8]| headers.get(name).is_some_and(|value| value.as_bytes().starts_with(secure));
    says("origin", b"https://") || says("x-forwarded-proto", b"https")
}
