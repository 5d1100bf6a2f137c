//! Starts `beckon browser` as a pod would and speaks its driver API.

use crate::viewer::Viewer;
use beckon::driver::{self, ControlGrant, DriverState, TakeControl, ToolReply};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

pub const CHROMIUM: &str = "Chromium";
pub const SHELL: &str = "HeadlessShell";
pub const BOTH: [&str; 2] = [CHROMIUM, SHELL];
pub const TOKEN: &str = "a-token-of-the-session-0123456789";
/// Everything that is waited for comes within this.
pub const SOON: Duration = Duration::from_secs(30);
/// Chromium sandboxes nothing as root, so a test that runs as root starts the pod's process as the pod does.
const POD_UID: u32 = 10001;
/// Browsers at a time: a small machine runs more of them, but not in time.
static TURNS: Semaphore = Semaphore::const_new(2);

/// The test in both at the same time, for one that mostly waits. It must keep no control: that is lost where the end of the other
/// browser holds up the renewals.
pub async fn in_both(test: impl AsyncFn(&'static str)) {
    tokio::join!(test(CHROMIUM), test(SHELL));
}

/// A copy of the binary that the pod's user can read.
fn binary() -> &'static Path {
    static COPY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = COPY.get_or_init(|| {
        let directory = readable_directory();
        let path = directory.path().join("beckon");
        fs::copy(env!("CARGO_BIN_EXE_beckon"), &path).unwrap();
        (directory, path)
    });
    path
}

fn readable_directory() -> TempDir {
    let directory = tempfile::Builder::new().prefix("beckon-test-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// A session's Secret, as mounted.
pub struct Secret {
    pub directory: TempDir,
    tls: Arc<rustls::ClientConfig>,
}

impl Secret {
    pub fn new() -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let directory = readable_directory();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![driver::SERVER_NAME.to_owned()]).unwrap().self_signed(&key).unwrap().pem();
        fs::write(directory.path().join(driver::SECRET_TOKEN), TOKEN).unwrap();
        fs::write(directory.path().join(driver::SECRET_CERTIFICATE), &certificate).unwrap();
        fs::write(directory.path().join(driver::SECRET_KEY), key.serialize_pem()).unwrap();
        // The certificate is its own trust root, as in the gateway.
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap();
        let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Self { directory, tls: Arc::new(tls) }
    }
}

/// `beckon browser` with these arguments, as the pod's user, its stderr piped.
pub fn command(arguments: &[&str]) -> Command {
    command_in(&[], arguments)
}

/// The same, started by another program.
pub fn command_in(before: &[&str], arguments: &[&str]) -> Command {
    let mut command = match before {
        [] => Command::new(binary()),
        [program, words @ ..] => {
            let mut command = Command::new(program);
            command.args(words).arg(binary());
            command
        }
    };
    command.arg("browser").args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("BECKON_LOG", "info,beckon=debug");
    // Profiles in memory: on a disk that is busy with something else Chromium waits for its writes, half a minute at worst.
    command.env("TMPDIR", "/dev/shm");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    if nix::unistd::geteuid().is_root() {
        command.uid(POD_UID).gid(POD_UID);
    }
    command
}

/// The way to a driver.
#[derive(Clone)]
struct Door {
    address: SocketAddr,
    tls: Arc<rustls::ClientConfig>,
}

impl Door {
    async fn tls(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from(driver::SERVER_NAME).unwrap();
        TlsConnector::from(self.tls.clone()).connect(name, stream).await.unwrap()
    }

    async fn call(&self, method: &str, path: &str, token: Option<&str>, body: &Value) -> (u16, Value) {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(self.tls().await)).await.unwrap();
        tokio::spawn(connection);
        let mut request = http::Request::builder().method(method).uri(path).header("host", driver::SERVER_NAME);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into()))
    }
}

/// A running session pod.
pub struct Browser {
    child: Child,
    _secret: Secret,
    door: Door,
    renewals: Mutex<Vec<tokio::task::AbortHandle>>,
    log: Arc<watch::Sender<Vec<String>>>,
    _turn: SemaphorePermit<'static>,
}

impl Browser {
    pub async fn start(flavour: &str) -> Self {
        Self::start_with(flavour, &[]).await
    }

    pub async fn start_with(flavour: &str, more: &[&str]) -> Self {
        Self::start_as(&[], flavour, more, &[]).await
    }

    /// Starts it by another program.
    pub async fn start_in(before: &[&str], flavour: &str, more: &[&str]) -> Self {
        Self::start_as(before, flavour, more, &[]).await
    }

    /// Starts it with these variables.
    pub async fn start_saying(flavour: &str, variables: &[(&str, &str)]) -> Self {
        Self::start_as(&[], flavour, &[], variables).await
    }

    async fn start_as(before: &[&str], flavour: &str, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let turn = TURNS.acquire().await.unwrap();
        let secret = Secret::new();
        let directory = secret.directory.path().to_str().unwrap();
        let mut arguments = vec!["--listen", "127.0.0.1:0", "--driver-dir", directory, "--flavour", flavour];
        arguments.extend(more);
        let mut child = command_in(before, &arguments).envs(variables.iter().copied()).spawn().unwrap();
        let log = Arc::new(watch::channel(Vec::new()).0);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let (stderr, lines) = (child.stderr.take().unwrap(), log.clone());
        std::thread::spawn(move || {
            let mut sender = Some(sender);
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let address = serde_json::from_str::<Value>(&line).ok().and_then(|line| line["address"].as_str()?.parse().ok());
                lines.send_modify(|lines| lines.push(line));
                if let (Some(address), true) = (address, sender.is_some()) {
                    let _ = sender.take().unwrap().send(address);
                }
            }
        });
        let Ok(Ok(address)) = tokio::time::timeout(SOON * 2, receiver).await else {
            drop(child.kill());
            panic!("the driver did not start: {:?}", log.borrow());
        };
        let door = Door { address, tls: secret.tls.clone() };
        Self { child, _secret: secret, door, renewals: Mutex::default(), log, _turn: turn }
    }

    /// Starts it at a page of the test's site.
    pub async fn at(flavour: &str, url: &str) -> Self {
        let browser = Self::start(flavour).await;
        browser.tool("navigate", &json!({ "url": url })).await.unwrap();
        browser
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub fn address(&self) -> SocketAddr {
        self.door.address
    }

    /// Everything that it said so far.
    pub fn log(&self) -> Vec<String> {
        self.log.borrow().clone()
    }

    pub fn logged(&self, text: &str) -> usize {
        self.log.borrow().iter().filter(|line| line.contains(text)).count()
    }

    /// Waits until it says this.
    pub async fn says(&self, text: &str) {
        let mut lines = self.log.subscribe();
        let said = lines.wait_for(|lines| lines.iter().any(|line| line.contains(text)));
        assert!(tokio::time::timeout(SOON, said).await.is_ok(), "it never said {text:?}");
    }

    /// Everything below the driver's process: id, command line.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let all: Vec<(i32, i32, String)> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|pid: i32| {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
                let parent = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?;
                let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
                Some((pid, parent, String::from_utf8_lossy(&line).replace('\0', " ")))
            })
            .collect();
        let mut below = vec![self.pid()];
        let mut at = 0;
        while at < below.len() {
            let above = below[at];
            below.extend(all.iter().filter(|(_, parent, _)| *parent == above).map(|(pid, ..)| *pid));
            at += 1;
        }
        all.into_iter().filter(|(pid, ..)| below[1..].contains(pid)).map(|(pid, _, line)| (pid, line)).collect()
    }

    pub fn chromium(&self) -> i32 {
        let processes = self.processes();
        processes.iter().find(|(_, line)| line.contains("--remote-debugging-pipe") && !line.contains("--type=")).unwrap().0
    }

    /// Its renderers; the page that is shown has one.
    pub fn renderers(&self) -> Vec<i32> {
        let deadline = Instant::now() + SOON;
        loop {
            let found: Vec<i32> =
                self.processes().into_iter().filter(|(_, line)| line.contains("--type=renderer")).map(|(pid, _)| pid).collect();
            if !found.is_empty() {
                return found;
            }
            assert!(Instant::now() < deadline, "no renderer in {:?}", self.processes());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills its renderers. One that is spare, or of a page that was left, may end by itself meanwhile.
    pub fn kill_renderers(&self) {
        let killed = self.renderers().into_iter().filter(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).is_ok()).count();
        assert!(killed > 0, "no renderer was left to be killed");
    }

    /// Bytes of memory that the driver's own process holds.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Waits for its end.
    pub async fn ended(&mut self, within: Duration) -> ExitStatus {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it did not end: {:?}", self.log.borrow());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Status and body.
    pub async fn call(&self, method: &str, path: &str, token: Option<&str>, body: &Value) -> (u16, Value) {
        self.door.call(method, path, token, body).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Value> {
        match self.call("POST", path, Some(TOKEN), &serde_json::to_value(body).unwrap()).await {
            (200, body) => Ok(serde_json::from_value(body).unwrap()),
            (_, body) => Err(body),
        }
    }

    pub async fn state(&self) -> DriverState {
        let (status, body) = self.call("GET", driver::STATE_PATH, Some(TOKEN), &Value::Null).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_value(body).unwrap()
    }

    /// Waits for a state.
    pub async fn until(&self, what: &str, wanted: impl Fn(&DriverState) -> bool) -> DriverState {
        let deadline = Instant::now() + SOON;
        loop {
            let state = self.state().await;
            if wanted(&state) {
                return state;
            }
            assert!(Instant::now() < deadline, "{what}: {state:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn tool(&self, tool: &str, arguments: &Value) -> Result<ToolReply, Value> {
        self.post(&format!("{}/{tool}", driver::TOOLS_PATH), arguments).await
    }

    /// The code of a refusal.
    pub async fn refused(&self, tool: &str, arguments: &Value) -> String {
        let error = self.tool(tool, arguments).await.map(|reply| panic!("{tool} did it: {reply:?}")).unwrap_err();
        error["code"].as_str().unwrap().to_owned()
    }

    pub async fn snapshot(&self) -> String {
        self.tool("snapshot", &json!({})).await.unwrap().result["snapshot"].as_str().unwrap().to_owned()
    }

    /// The reference of the first line of a snapshot that has this in it.
    pub async fn find(&self, text: &str) -> String {
        let snapshot = self.snapshot().await;
        reference(&snapshot, text).unwrap_or_else(|| panic!("no {text:?} in\n{snapshot}"))
    }

    pub async fn click(&self, text: &str) -> ToolReply {
        let reference = self.find(text).await;
        self.tool("click", &json!({ "ref": reference })).await.unwrap()
    }

    pub async fn take(&self, holder: &str) -> Result<ControlGrant, Value> {
        self.post(driver::TAKE_PATH, &ask(holder)).await
    }

    /// Takes control and keeps it, as a gateway does while its person is there.
    pub async fn hold(&self, holder: &str) -> ControlGrant {
        let grant = self.take(holder).await.unwrap();
        let (door, body) = (self.door.clone(), json!({ "lease": grant.lease, "extend": false }));
        let renewal = tokio::spawn(async move {
            let mut every = tokio::time::interval(Duration::from_millis(300));
            loop {
                every.tick().await;
                if door.call("POST", driver::RENEW_PATH, Some(TOKEN), &body).await.0 != 200 {
                    return;
                }
            }
        });
        self.renewals.lock().unwrap().push(renewal.abort_handle());
        grant
    }

    pub async fn take_as(&self, ask: &TakeControl) -> Result<ControlGrant, Value> {
        self.post(driver::TAKE_PATH, ask).await
    }

    pub async fn renew(&self, lease: &str) -> Result<ControlGrant, Value> {
        self.post(driver::RENEW_PATH, &json!({ "lease": lease, "extend": false })).await
    }

    pub async fn release(&self, body: &Value) -> Result<driver::ControlState, Value> {
        self.post(driver::RELEASE_PATH, body).await
    }

    pub async fn resize(&self, width: i32, height: i32) -> Value {
        self.post(driver::RESIZE_PATH, &json!({ "width": width, "height": height })).await.unwrap()
    }

    pub async fn viewer(&self) -> Viewer {
        let mut request = format!("wss://{}{}", driver::SERVER_NAME, driver::LIVE_PATH).into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
        let (socket, _) = tokio_tungstenite::client_async(request, self.door.tls().await).await.unwrap();
        Viewer::of(socket)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        for renewal in self.renewals.lock().unwrap().drain(..) {
            renewal.abort();
        }
        if let Ok(None) = self.child.try_wait() {
            let _ = kill(Pid::from_raw(self.pid()), Signal::SIGTERM);
            let deadline = Instant::now() + Duration::from_secs(8);
            while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(self.child.kill());
        }
        drop(self.child.wait());
        if std::thread::panicking() {
            let log = self.log.borrow();
            let tail = log.len().saturating_sub(15);
            eprintln!("the driver said last:\n{}", log[tail..].join("\n"));
        }
    }
}

/// What a person asks for, bound to no request.
pub fn ask(holder: &str) -> TakeControl {
    TakeControl { holder: holder.to_owned(), request: None, idle_release_seconds: 600, reconnect_seconds: 30, ceiling_seconds: 3600 }
}

/// The reference of the first line that has this in it.
pub fn reference(snapshot: &str, text: &str) -> Option<String> {
    let line = snapshot.lines().find(|line| line.contains(text))?;
    Some(line.split("[ref=").nth(1)?.split(']').next()?.to_owned())
}
