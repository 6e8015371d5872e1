//! Who may ask: only who knows the token if there is one, and never another site by way of a browser.

use super::App;
use super::listener::Peer;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;

/// Passes a request on, or answers it with why not. One request for each connection: the next one would have to be timed
/// anew.
pub(super) async fn guard(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let refusal = refusal(&app, request.headers(), request.uri().query().unwrap_or(""))
        .or_else(|| (!peer.admit()).then_some((StatusCode::SERVICE_UNAVAILABLE, "Too many clients.\n")));
    let mut response = match refusal {
        Some((status, text)) => (status, text).into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONNECTION, "close"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refusal(app: &App, headers: &HeaderMap, query: &str) -> Option<(StatusCode, &'static str)> {
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok());
    if !host.is_some_and(is_address) {
        return Some((
            StatusCode::FORBIDDEN,
            "The Host header must be an IP address or localhost: a name could be another site's, rebound to this host.\n",
        ));
    }
    let foreign = headers.get("sec-fetch-site").is_some_and(|s| s == "cross-site")
        && headers.get("sec-fetch-mode").is_none_or(|m| m != "navigate");
    let origin = headers.get(header::ORIGIN).and_then(|o| o.to_str().ok());
    let own = |o: &str| o.strip_prefix("http://").is_some_and(|o| Some(o) == host);
    if foreign || origin.is_some_and(|o| !own(o)) {
        return Some((StatusCode::FORBIDDEN, "Other sites may not read this.\n"));
    }
    let wanted = app.token.as_deref()?;
    let bearer = headers.get(header::AUTHORIZATION).and_then(|a| a.to_str().ok());
    let bearer = bearer.and_then(|a| a.strip_prefix("Bearer "));
    let in_query = query.split('&').find_map(|p| p.strip_prefix("token="));
    match bearer.or(in_query) {
        Some(given) if same(given.as_bytes(), wanted.as_bytes()) => None,
        Some(_) => Some((StatusCode::UNAUTHORIZED, "The token is wrong.\n")),
        None => Some((
            StatusCode::UNAUTHORIZED,
            "A token is needed: ?token=… in the address, or the header Authorization: Bearer ….\n",
        )),
    }
}

/// Whether a Host header names this host by an address, which no foreign name can be bound to.
fn is_address(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((ip, "")) => ip,
            Some((ip, port)) if port.strip_prefix(':').is_some_and(is_port) => ip,
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) if is_port(port) => name,
            Some(_) => return false,
            None => host,
        },
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

/// Compares in a time that depends on the lengths only.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    let mut different = u8::from(given.len() != wanted.len());
    for (i, w) in wanted.iter().enumerate() {
        different |= black_box(given.get(i).copied().unwrap_or(!w) ^ w);
    }
    black_box(different) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_or_localhost() {
        for good in ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "10.1.2.3", "[::1]:1", "[fe80::1]"] {
            assert!(is_address(good), "{good}");
        }
        let bad = [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "127.0.0.1:evil",
            "[::1",
            "[::1]x",
            "localhost:1:2",
            "1.2.3",
        ];
        for bad in bad {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn tokens_are_the_same_only_if_every_byte_is() {
        assert!(same(b"abc", b"abc"));
        for other in [&b""[..], b"ab", b"abcd", b"abd", b"xbc", b"ABC"] {
            assert!(!same(other, b"abc"), "{other:?}");
        }
        assert!(same(b"", b""), "the options refuse an empty token");
    }
}
