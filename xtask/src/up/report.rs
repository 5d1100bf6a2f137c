//! `up.json`, for scripts, and what a person does next.

use super::args::Plan;
use super::stack::Stack;
use super::worker::{Kind, Worker};
use crate::failure::{Context as _, Result};
use crate::files::{repository, write_private};
use crate::http;
use crate::progress::print;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The ports that `up` itself serves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    /// The forwarder's.
    pub port: u16,
    /// The demo site's.
    pub demo_port: Option<u16>,
}

/// Writes `up.json` in one step.
pub(super) fn write(stack: &Stack, plan: &Plan, addresses: Addresses) -> Result<()> {
    let of = |kind: Kind| stack.workers.iter().filter(move |worker| worker.kind == kind);
    let token = |user: &str| stack.cluster.user_token(user);
    let pids = |kind: Kind| of(kind).map(Worker::pid).collect::<Vec<_>>();
    let port = addresses.port;
    let mut up = json!({
        "kubeconfig": plan.dir.join("kubeconfig"),
        "kubectl": plan.dir.join("bin/kubectl"),
        "namespace": plan.namespace,
        "mcpURL": format!("http://127.0.0.1:{port}/mcp"),
        "dashboardURL": format!("http://127.0.0.1:{port}/"),
        "mcpURLs": of(Kind::Gateway).map(|gateway| format!("http://127.0.0.1:{}/mcp", gateway.port)).collect::<Vec<_>>(),
        "dashboardURLs": of(Kind::Gateway).map(|gateway| format!("http://127.0.0.1:{}/", gateway.port)).collect::<Vec<_>>(),
        "agentToken": token("agent"),
        "agent2Token": token("agent-2"),
        "operatorToken": token("operator"),
        "operator2Token": token("operator-2"),
        "viewerToken": token("viewer"),
        "metricsURLs": stack.workers.iter().map(|worker| format!("http://127.0.0.1:{}/metrics", worker.admin_port)).collect::<Vec<_>>(),
        "processes": {"controller": pids(Kind::Controller), "gateway": pids(Kind::Gateway)},
    });
    if let (Some(port), Some(map)) = (addresses.demo_port, up.as_object_mut()) {
        map.insert("demoURL".to_owned(), json!(format!("http://127.0.0.1:{port}/")));
    }
    write_private(&plan.dir.join("env"), environment(&plan.dir, port).as_bytes())?;
    write_private(&plan.dir.join("up.json"), (serde_json::to_string_pretty(&up).context("up.json")? + "\n").as_bytes())
}

/// What a shell needs for the kubectl lines, to be sourced.
fn environment(dir: &Path, port: u16) -> String {
    let dir = dir.display();
    format!("export KUBECONFIG='{dir}/kubeconfig' PATH='{dir}/bin':\"$PATH\" BECKON_GATEWAY=http://127.0.0.1:{port}/\n")
}

/// Prints what to do next.
pub(super) fn print_next(dir: &Path, how_to_end: &str) -> Result<()> {
    let path = dir.join("up.json");
    let bytes = std::fs::read(&path).context(path.display())?;
    let up: Value = serde_json::from_slice(&bytes).context(path.display())?;
    let text = |key: &str| up.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let login = match login_link(&up) {
        Ok(link) => format!("log in as `operator` with this link, once:\n    {link}"),
        Err(why) => format!("log in with the token of `operator`, \"operatorToken\" in up.json (no one-time link: {why})"),
    };
    let client = json!({"mcpServers": {"beckon": {
        "type": "http",
        "url": text("mcpURL"),
        "headers": {"Authorization": format!("Bearer {}", text("agentToken"))},
    }}});
    let client = serde_json::to_string_pretty(&client).context("JSON")?.replace('\n', "\n    ");
    print(format!(
        "
Beckon is up.

  Dashboard   {dashboard}
    {login}

  Agents      {mcp}   (MCP over Streamable HTTP; the token of `agent`)
    {client}

  kubectl     . {env}
    kubectl get attn --context operator
    kubectl attention list --context operator",
        dashboard = text("dashboardURL"),
        mcp = text("mcpURL"),
        env = quoted(&dir.join("env")),
    ));
    if let Some(demo) = up.get("demoURL").and_then(Value::as_str) {
        print(format!("\n  Demo        {demo}   (a shop with a puzzle, for an agent to get stuck in)\n{}", demo_lines(dir)));
    }
    print(format!("\n  Scripts     {}\n  Logs        {}\n\n{how_to_end}", path.display(), dir.join("logs").display()));
    Ok(())
}

/// The lines that run the demo's agent, with a Python that has what it needs; from wherever this was called.
fn demo_lines(dir: &Path) -> String {
    let inside = std::env::current_dir().is_ok_and(|here| here == repository());
    let root = |path: &str| if inside { PathBuf::from(path) } else { repository().join(path) };
    let (venv, agent, needs) = (quoted(&root("target/demo")), quoted(&root("demo/agent.py")), quoted(&root("demo/requirements.txt")));
    let other = if dir == repository().join("target/up") { String::new() } else { format!(" --dir {}", quoted(dir)) };
    format!("    python3 -m venv {venv} && {venv}/bin/pip install -q -r {needs}\n    {venv}/bin/python {agent}{other}")
}

/// A path as a shell takes it.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@%,:=".contains(c));
    if plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// A one-time link that logs in as `operator`, made by a gateway.
fn login_link(up: &Value) -> std::result::Result<String, String> {
    let text = |key: &str| up.get(key).and_then(Value::as_str).unwrap_or_default();
    let dashboard = text("dashboardURL").trim_end_matches('/');
    let port = dashboard.rsplit(':').next().and_then(|port| port.parse().ok()).ok_or("no port")?;
    // The forwarder may have picked a gateway that was just being replaced.
    let ask = || http::post(port, "/api/v1/login-links", text("operatorToken"), "{\"next\":\"/attention\"}");
    let answer = ask().or_else(|_| ask()).map_err(|error| error.to_string())?;
    let link = serde_json::from_str::<Value>(&answer.body).ok().and_then(|body| Some(body.get("url")?.as_str()?.to_owned()));
    match link {
        Some(link) if link.starts_with('/') => Ok(format!("{dashboard}{link}")),
        Some(link) => Ok(link),
        None => Err(format!("the gateway says {}", answer.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_the_paths_that_are_printed() {
        for (path, shell) in [("/tmp/up-1", "/tmp/up-1"), ("/tmp/my up", "'/tmp/my up'"), ("/tmp/it's", r"'/tmp/it'\''s'")] {
            assert_eq!(quoted(Path::new(path)), shell);
        }
    }
}
