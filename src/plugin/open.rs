//! `kubectl attention open`: the dashboard in a browser, logged in by a one-time link.
//!
//! The link is made by the gateway for the bearer of the kubeconfig's token. Without `--gateway` a port of this machine is
//! forwarded to the Service by kubectl, for as long as the command runs.

use super::args::OpenArgs;
use super::connect::Cluster;
use super::error::{Error, Exit, causes};
use super::output::Output;
use super::select::bare_name;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use serde::Deserialize;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tower::{BoxError, ServiceBuilder, ServiceExt as _};
use url::{Host, Url};

const PATIENCE: Duration = Duration::from_secs(20);
/// The largest answer of a gateway that is read.
const LARGEST: usize = 64 * 1024;

pub(super) async fn run(cluster: &Cluster, args: &OpenArgs, out: &mut Output) -> Result<Exit, Error> {
    let path = match &args.name {
        None => "/attention".to_owned(),
        Some(name) => {
            let name = bare_name(name)?;
            cluster.requests(Some(&cluster.namespace)).get(name).await?;
            format!("/attention/{}/{name}", cluster.namespace)
        }
    };
    let (gateway, mut forwarded) = if let Some(text) = &args.gateway {
        (gateway_url(text)?, None)
    } else {
        let (url, forwarded) = forward(cluster, args).await?;
        (url, Some(forwarded))
    };
    let asking = login_link(cluster, &gateway, &path);
    let mut link = match &mut forwarded {
        None => asking.await?,
        Some(forwarded) => tokio::select! { link = asking => link?, ended = forwarded.ended() => return Err(ended) },
    };
    link.query_pairs_mut().append_pair("next", &path);
    out.line(link.as_str());
    if !args.print {
        start_browser(&link, out);
    }
    if let Some(mut forwarded) = forwarded {
        out.remark("The port is forwarded until you press Ctrl-C.");
        tokio::select! {
            ended = forwarded.ended() => return Err(ended),
            interrupted = tokio::signal::ctrl_c() => interrupted.map_err(|error| Error::Other(error.to_string()))?,
        }
    }
    Ok(Exit::Done)
}

/// The dashboard's address. A token is never sent in the clear over a network.
fn gateway_url(text: &str) -> Result<Url, Error> {
    let wrong = |why: &str| Error::Usage(format!("--gateway {text}: {why}"));
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    let local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return Err(wrong("it names no host")),
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if local => Ok(url),
        "http" => Err(wrong("your token would travel unprotected; use https")),
        _ => Err(wrong("it must begin with https://")),
    }
}

#[derive(Deserialize)]
struct LoginLink {
    url: String,
}

/// What a gateway answers when it refuses.
#[derive(Deserialize, Default)]
struct Problem {
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: String,
}

async fn login_link(cluster: &Cluster, gateway: &Url, path: &str) -> Result<Url, Error> {
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_native_roots()
        .map_err(|error| Error::Other(format!("the system's certificates can't be read: {error}")))?
        .https_or_http()
        .enable_http1()
        .build();
    let client = Client::builder(TokioExecutor::new()).build::<_, Full<Bytes>>(connector);
    let Some(auth) = cluster.config.auth_layer().map_err(Error::from)? else {
        return Err(Error::Other(format!(
            "your kubeconfig holds no token (perhaps a client certificate), so no login link can be made; open {} and log in there",
            gateway.join(path).map_or_else(|_| gateway.to_string(), |url| url.to_string())
        )));
    };
    let address = gateway.join("/api/v1/login-links").map_err(|error| Error::Usage(error.to_string()))?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(address.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from_static(b"{}")))
        .map_err(|error| Error::Usage(error.to_string()))?;
    let service = ServiceBuilder::new().layer(auth).service(client.map_err(BoxError::from));
    let unreachable = |why: String| Error::Other(format!("the dashboard at {gateway} can't be reached: {why}"));
    let exchange = async {
        let response = service.oneshot(request).await.map_err(|error| unreachable(causes(error.as_ref())))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST).collect().await.map_err(|error| unreachable(error.to_string()))?;
        Ok::<_, Error>((status, body.to_bytes()))
    };
    let (status, body) = tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| unreachable("no answer in time".into()))??;
    read_link(gateway, status, &body)
}

fn read_link(gateway: &Url, status: StatusCode, body: &[u8]) -> Result<Url, Error> {
    if !status.is_success() {
        let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
        let why = [problem.title, problem.detail].iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join(": ");
        return Err(Error::Other(format!(
            "the dashboard at {gateway} gave no login link: {status}{}{why}",
            if why.is_empty() { "" } else { ": " }
        )));
    }
    let link: LoginLink =
        serde_json::from_slice(body).map_err(|error| Error::Other(format!("the dashboard's answer can't be read: {error}")))?;
    // The gateway may know itself under another name; we reach it under ours.
    let link = gateway.join(&link.url).map_err(|error| Error::Other(format!("the dashboard's link can't be read: {error}")))?;
    let mut here = gateway.clone();
    here.set_path(link.path());
    here.set_query(link.query());
    here.set_fragment(link.fragment());
    Ok(here)
}

/// A port of this machine that kubectl forwards, until this is dropped.
struct Forwarded {
    kubectl: Child,
    /// Its later lines, one for each connection, are of no interest, but the pipe must not fill.
    lines: Lines<BufReader<ChildStdout>>,
}

impl Forwarded {
    /// Until kubectl ends, and how it did.
    async fn ended(&mut self) -> Error {
        while let Ok(Some(_)) = self.lines.next_line().await {}
        let how = self.kubectl.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
        Error::Other(format!("kubectl port-forward ended: {how}"))
    }
}

/// `kubectl port-forward` to the Service.
async fn forward(cluster: &Cluster, args: &OpenArgs) -> Result<(Url, Forwarded), Error> {
    let mut command = Command::new("kubectl");
    if let Some(file) = &cluster.connection.kubeconfig {
        command.arg("--kubeconfig").arg(file);
    }
    if let Some(context) = &cluster.connection.context {
        command.arg("--context").arg(context);
    }
    command.args(["port-forward", "--address", "127.0.0.1", "-n", &args.service_namespace, &format!("service/{}", args.service)]);
    command.arg(format!(":{}", args.service_port)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
    let failed = |why: String| Error::Other(format!("kubectl port-forward to {}/{}: {why}", args.service_namespace, args.service));
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let Some(stdout) = child.stdout.take() else { return Err(failed("it has no output".into())) };
    let mut lines = BufReader::new(stdout).lines();
    let port = async {
        while let Some(line) = lines.next_line().await.map_err(|error| failed(error.to_string()))? {
            if let Some(port) = forwarded_port(&line) {
                return Ok(port);
            }
        }
        Err(failed("it ended; see above. Name the Service with --service and --service-namespace, or the dashboard with --gateway".into()))
    };
    let port = tokio::time::timeout(PATIENCE, port).await.map_err(|_| failed("it did not start in time".into()))??;
    let url = Url::parse(&format!("http://127.0.0.1:{port}/")).map_err(|error| failed(error.to_string()))?;
    Ok((url, Forwarded { kubectl: child, lines }))
}

/// The port in `Forwarding from 127.0.0.1:43210 -> 8080`.
fn forwarded_port(line: &str) -> Option<u16> {
    line.strip_prefix("Forwarding from 127.0.0.1:")?.split_whitespace().next()?.parse().ok()
}

fn start_browser(link: &Url, out: &mut Output) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let program = std::env::var("BROWSER").ok().filter(|browser| !browser.is_empty()).unwrap_or_else(|| program.to_owned());
    let started = Command::new(&program).arg(link.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if started.is_err() {
        out.remark("Open the address above in a browser; it works once.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_never_travels_in_the_clear() {
        for (text, good) in [
            ("https://beckon.example.com", true),
            ("http://127.0.0.1:8080", true),
            ("http://localhost:8080/", true),
            ("http://[::1]:8080", true),
            ("http://beckon.example.com", false),
            ("http://localhost.example.com", false),
            ("ftp://localhost", false),
            ("beckon.example.com", false),
            ("", false),
        ] {
            assert_eq!(gateway_url(text).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn the_forwarded_port_is_read_from_kubectls_line() {
        for (line, want) in [
            ("Forwarding from 127.0.0.1:43210 -> 8080", Some(43_210)),
            ("Forwarding from [::1]:43210 -> 8080", None),
            ("Handling connection for 43210", None),
            ("", None),
        ] {
            assert_eq!(forwarded_port(line), want, "{line}");
        }
    }

    #[test]
    fn the_link_leads_where_we_reach_the_gateway() {
        let gateway = Url::parse("http://127.0.0.1:4000/").expect("a url");
        let link = |body: &str| read_link(&gateway, StatusCode::CREATED, body.as_bytes()).map(String::from);
        assert_eq!(link(r#"{"url":"https://inside.svc/login?link=abc"}"#).ok().as_deref(), Some("http://127.0.0.1:4000/login?link=abc"));
        assert_eq!(link(r#"{"url":"/login?link=abc#a"}"#).ok().as_deref(), Some("http://127.0.0.1:4000/login?link=abc#a"));
        assert!(link("{}").is_err());
        let refused = read_link(&gateway, StatusCode::FORBIDDEN, br#"{"title":"Forbidden","detail":"no"}"#).map(String::from);
        assert_eq!(
            refused.expect_err("refused").to_string(),
            "the dashboard at http://127.0.0.1:4000/ gave no login link: 403 Forbidden: Forbidden: no"
        );
    }
}
