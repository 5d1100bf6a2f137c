//! The demo site: files of `demo/site`, so that a newcomer has something to take over.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// How long a client may take with its request.
const PATIENCE: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 256;
const LARGEST_HEAD: usize = 16 * 1024;

/// Serves the files below `root` until the runtime ends.
pub(super) async fn serve(listener: TcpListener, root: PathBuf) {
    let root = Arc::new(root);
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let root = Arc::clone(&root);
        #[expect(clippy::disallowed_methods, reason = "owned by the runtime, which `up` drops at its end")]
        tokio::spawn(async move {
            // A client that is slow or gone is not answered.
            let _ = tokio::time::timeout(PATIENCE, answer(client, &root)).await;
            drop(slot);
        });
    }
}

async fn answer(mut client: TcpStream, root: &Path) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < LARGEST_HEAD {
        if client.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let found = match file(root, target) {
        Some(path) if method == "GET" || method == "HEAD" => tokio::fs::read(&path).await.ok().map(|bytes| (media_type(&path), bytes)),
        _ => None,
    };
    let (status, media, body) = match found {
        Some((media, bytes)) => ("200 OK", media, bytes),
        None => ("404 Not Found", "text/plain; charset=utf-8", b"There is no such page in the demo.\n".to_vec()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await?;
    if method != "HEAD" {
        client.write_all(&body).await?;
    }
    client.shutdown().await
}

/// The file of a request target; never one outside `root`.
fn file(root: &Path, target: &str) -> Option<PathBuf> {
    let path = target.split(['?', '#']).next().unwrap_or_default().trim_start_matches('/');
    let path = Path::new(if path.is_empty() { "index.html" } else { path });
    path.components().all(|part| matches!(part, Component::Normal(_))).then(|| root.join(path))
}

fn media_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::file;
    use std::path::Path;

    #[test]
    fn nothing_outside_the_site_is_served() {
        let root = Path::new("/site");
        for (target, want) in [
            ("/", Some("/site/index.html")),
            ("/a/b.js?x=1", Some("/site/a/b.js")),
            ("/../etc/passwd", None),
            ("/a/../../etc/passwd", None),
            ("//etc/passwd", Some("/site/etc/passwd")),
        ] {
            assert_eq!(file(root, target).as_deref(), want.map(Path::new), "{target}");
        }
    }
}
