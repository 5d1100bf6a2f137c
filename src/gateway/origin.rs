//! Which hosts callers may name and which origins web pages may call from: against DNS rebinding and cross-site requests.

use super::config::Settings;
use http::header::{HOST, HeaderValue};
use http::{HeaderMap, Uri};

/// A refused `Host` or `Origin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// The host is not one of ours.
    #[error("the Host header names a host that is not allowed here: add it with --allowed-host")]
    Host,
    /// The page's origin is not allowed.
    #[error("the Origin header names an origin that is not allowed here: add it with --allowed-origin")]
    Origin,
}

/// The host that a request names: in its header `Host`, or, as over HTTP/2, in its address alone.
pub fn host_named(uri: &Uri, headers: &HeaderMap) -> Option<HeaderValue> {
    headers.get(HOST).cloned().or_else(|| HeaderValue::from_str(uri.authority()?.as_str()).ok())
}

/// Checks the host, and the origin where there is one. A caller that is no browser sends none.
pub fn check(settings: &Settings, uri: &Uri, headers: &HeaderMap) -> Result<(), OriginError> {
    let named = host_named(uri, headers);
    let host = named.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !host_allowed(settings, host) {
        return Err(OriginError::Host);
    }
    let mut origins = headers.get_all(http::header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => Ok(()),
        (Some(origin), None) if origin_allowed(settings, host, origin.to_str().unwrap_or_default()) => Ok(()),
        _ => Err(OriginError::Origin),
    }
}

fn host_allowed(settings: &Settings, host: &str) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
    let name = bare(authority.host());
    settings.allowed_hosts.iter().any(|allowed| match allowed.parse::<http::uri::Authority>() {
        Ok(allowed) => bare(allowed.host()) == name && (allowed.port().is_none() || allowed.port_u16() == authority.port_u16()),
        Err(_) => allowed.to_ascii_lowercase() == name,
    })
}

/// One of the list, or the page that this very server served.
fn origin_allowed(settings: &Settings, host: &str, origin: &str) -> bool {
    let Ok(url) = url::Url::parse(origin) else { return false };
    let (Some(name), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return false };
    let spelled = format!("{}://{name}:{port}", url.scheme());
    if settings.allowed_origins.contains(&spelled) {
        return true;
    }
    let own = url::Url::parse(&format!("http://{host}"));
    url.scheme() == "http" && own.is_ok_and(|own| own.host_str() == Some(name) && own.port_or_known_default() == Some(port))
}

fn bare(host: &str) -> String {
    host.trim_matches(['[', ']']).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: crate::gateway::GatewayArgs,
    }

    #[test]
    fn hosts_and_origins() {
        let flags = [
            "beckon",
            "--allowed-host",
            "svc.ns.svc:8080",
            "--allowed-host",
            "beckon.example.com",
            "--allowed-origin",
            "https://app.example.com",
        ];
        let settings = Cli::parse_from(flags).args.settings().unwrap();
        let cases = [
            ("127.0.0.1:8080", None, Ok(())),
            ("localhost", None, Ok(())),
            ("[::1]:8080", None, Ok(())),
            ("BECKON.example.com:444", None, Ok(())),
            ("svc.ns.svc:8080", None, Ok(())),
            ("svc.ns.svc:8081", None, Err(OriginError::Host)),
            ("evil.example.com", None, Err(OriginError::Host)),
            ("127.0.0.1.evil.example.com", None, Err(OriginError::Host)),
            ("", None, Err(OriginError::Host)),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080"), Ok(())),
            ("127.0.0.1:8080", Some("http://127.0.0.1:9999"), Err(OriginError::Origin)),
            ("127.0.0.1:8080", Some("http://evil.example.com"), Err(OriginError::Origin)),
            ("127.0.0.1:8080", Some("null"), Err(OriginError::Origin)),
            ("beckon.example.com", Some("https://app.example.com"), Ok(())),
            ("beckon.example.com", Some("https://app.example.com:444"), Err(OriginError::Origin)),
            ("beckon.example.com", Some("https://beckon.example.com"), Err(OriginError::Origin)),
        ];
        for (host, origin, want) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(http::header::ORIGIN, origin.parse().unwrap());
            }
            assert_eq!(check(&settings, &Uri::from_static("/mcp"), &headers), want, "{host} {origin:?}");
        }
    }
}
