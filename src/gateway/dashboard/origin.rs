//! Which hosts are ours, and whether a request comes from our own pages.

use crate::gateway::Settings;
use http::HeaderMap;
use http::header::{HOST, HeaderName, ORIGIN};
use http::uri::Authority;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request is refused before anybody looks at it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// The `Host` is not ours: a rebound name, or a missing setting.
    #[error("the host {0:?} is not one of this server's: call it by a name that it is configured with (--allowed-host)")]
    Host(String),
    /// The `Origin` is another site's.
    #[error("this request comes from another site ({0:?}): only this server's own pages may do that")]
    Origin(String),
    /// No `Origin`, where a browser sends one.
    #[error("the header Origin is missing: a browser sends it; programs use a bearer token")]
    NoOrigin,
}

/// The request's host, if it is one of ours.
pub fn host<'h>(headers: &'h HeaderMap, settings: &Settings) -> Result<&'h str, Foreign> {
    let text = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let wrong = || Foreign::Host(text.chars().take(100).collect());
    let authority = Authority::try_from(text).map_err(|_| wrong())?;
    let name = bare(authority.host());
    let known = |allowed: &String| {
        Authority::try_from(allowed.as_str()).map_or_else(
            // An IPv6 address without brackets is no authority.
            |_| allowed == name,
            |allowed| {
                bare(allowed.host()).eq_ignore_ascii_case(name) && allowed.port_u16().is_none_or(|port| authority.port_u16() == Some(port))
            },
        )
    };
    if settings.allowed_hosts.iter().any(known) { Ok(text) } else { Err(wrong()) }
}

/// Whether a request with side effects comes from a page of this very origin. Returns that origin.
pub fn own<'h>(headers: &'h HeaderMap, settings: &Settings) -> Result<&'h str, Foreign> {
    let host = host(headers, settings)?;
    let origin = headers.get(ORIGIN).ok_or(Foreign::NoOrigin)?.to_str().unwrap_or("not text");
    let wrong = || Foreign::Origin(origin.chars().take(100).collect());
    if headers.get(SITE).is_some_and(|site| site != "same-origin") {
        return Err(wrong());
    }
    let (scheme, authority) = split(origin).ok_or_else(wrong)?;
    let fits = match settings.public_url.as_deref().and_then(split) {
        // A public address is reached through a proxy, which may have changed the host; then it alone counts. Loopback is
        // reached without that proxy.
        Some(public) if same(public, (scheme, authority)) => true,
        Some(_) => is_loopback(host) && same((scheme, host), (scheme, authority)),
        None => same((scheme, host), (scheme, authority)),
    };
    if fits { Ok(origin) } else { Err(wrong()) }
}

/// The address of this server as the caller sees it, for links.
pub fn base(headers: &HeaderMap, settings: &Settings) -> Result<String, Foreign> {
    let host = host(headers, settings)?;
    match &settings.public_url {
        Some(url) if !is_loopback(host) => Ok(url.clone()),
        _ => Ok(format!("{}://{host}", if is_loopback(host) { "http" } else { "https" })),
    }
}

fn split(origin: &str) -> Option<(&str, &str)> {
    let (scheme, authority) = origin.split_once("://")?;
    (matches!(scheme, "http" | "https") && !authority.is_empty() && !authority.contains(['/', '@', '?', '#']))
        .then_some((scheme, authority))
}

/// Scheme, host and port are the same, the scheme's own port spelled out or not.
fn same((a_scheme, a): (&str, &str), (b_scheme, b): (&str, &str)) -> bool {
    let port = |scheme: &str| if scheme == "https" { 443 } else { 80 };
    let parts = |scheme: &str, text: &str| {
        let authority = Authority::try_from(text).ok()?;
        Some((bare(authority.host()).to_ascii_lowercase(), authority.port_u16().unwrap_or_else(|| port(scheme))))
    };
    a_scheme == b_scheme && parts(a_scheme, a).is_some_and(|a| Some(a) == parts(b_scheme, b))
}

fn is_loopback(host: &str) -> bool {
    Authority::try_from(host).is_ok_and(|authority| {
        let name = bare(authority.host());
        name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(public: Option<&str>) -> Settings {
        use clap::Parser as _;
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            args: crate::gateway::GatewayArgs,
        }
        let mut flags = vec!["beckon", "--allowed-host", "beckon.ns.svc:8080"];
        flags.extend(public.into_iter().flat_map(|url| ["--public-url", url]));
        Cli::parse_from(flags).args.settings().unwrap()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_our_hosts_are_served() {
        for (value, want) in [
            ("127.0.0.1:8080", true),
            ("localhost", true),
            ("[::1]:9", true),
            ("beckon.ns.svc:8080", true),
            ("beckon.ns.svc:9", false),
            ("evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(host(&headers(&[("host", value)]), &settings(None)).is_ok(), want, "{value}");
        }
        assert!(host(&HeaderMap::new(), &settings(None)).is_err());
    }

    #[test]
    fn writes_come_from_our_own_pages() {
        for (host, origin, site, want) in [
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080"), None, true),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080"), Some("same-origin"), true),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080"), Some("same-site"), false),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080"), Some("cross-site"), false),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8081"), None, false),
            ("127.0.0.1:8080", Some("http://localhost:8080"), None, false),
            ("127.0.0.1:8080", Some("null"), None, false),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080@evil.example"), None, false),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080/"), None, false),
            ("127.0.0.1:8080", None, None, false),
            ("evil.example", Some("http://evil.example"), None, false),
            ("localhost", Some("http://localhost:80"), None, true),
        ] {
            let mut pairs = vec![("host", host)];
            pairs.extend(origin.map(|origin| ("origin", origin)));
            pairs.extend(site.map(|site| ("sec-fetch-site", site)));
            assert_eq!(own(&headers(&pairs), &settings(None)).is_ok(), want, "{host} {origin:?} {site:?}");
        }
    }

    #[test]
    fn a_public_address_counts_with_its_scheme() {
        let s = settings(Some("https://beckon.example.com"));
        for (host, origin, want) in [
            ("beckon.example.com", "https://beckon.example.com", true),
            ("beckon.example.com", "http://beckon.example.com", false),
            ("beckon.ns.svc:8080", "https://beckon.example.com", true),
            ("beckon.ns.svc:8080", "http://beckon.ns.svc:8080", false),
            ("127.0.0.1:8080", "http://127.0.0.1:8080", true),
        ] {
            assert_eq!(own(&headers(&[("host", host), ("origin", origin)]), &s).is_ok(), want, "{host} {origin}");
        }
        assert_eq!(base(&headers(&[("host", "beckon.ns.svc:8080")]), &s).unwrap(), "https://beckon.example.com");
        assert_eq!(base(&headers(&[("host", "127.0.0.1:8080")]), &s).unwrap(), "http://127.0.0.1:8080");
    }
}
