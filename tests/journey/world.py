"""A whole Beckon: `cargo xtask up`, its users, its processes, and kubectl."""

import base64
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import tempfile

import httpx2 as httpx

from waiting import eventually

# What people typed into the agents' pages.
TYPED = set()

# Where the API server keeps what tests look at.
PATHS = {
    "attn": "/apis/beckon.dev/v1alpha1/namespaces/{namespace}/attentionrequests",
    "bsess": "/apis/beckon.dev/v1alpha1/namespaces/{namespace}/browsersessions",
    "pod": "/api/v1/namespaces/{namespace}/pods",
    "secret": "/api/v1/namespaces/{namespace}/secrets",
}

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def xtask(*words, check=True):
    """Runs `cargo xtask`, or the binary that BECKON_XTASK names."""
    binary = os.environ.get("BECKON_XTASK")
    command = [binary] if binary else ["cargo", "xtask"]
    done = subprocess.run([*command, *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=2700)
    if check and done.returncode != 0:
        raise AssertionError(f"xtask {' '.join(words)} ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}")
    return done


class World:
    """One `up`. With BECKON_UP_DIR, one that runs already and is left alone."""

    def __init__(self, *settings):
        existing = os.environ.get("BECKON_UP_DIR")
        self.own = existing is None
        self.dir = pathlib.Path(existing or tempfile.mkdtemp(prefix="beckon-journey-"))
        if self.own:
            sets = [word for setting in settings for word in ("--set", setting)]
            try:
                xtask("up", "--detach", "--dir", str(self.dir), *sets)
            except BaseException:
                self.down()
                raise

    def down(self):
        if self.own:
            xtask("down", "--dir", str(self.dir), check=False)
            shutil.rmtree(self.dir, ignore_errors=True)

    @property
    def up(self):
        """What `up` wrote; read anew each time, since pids change."""
        return json.loads((self.dir / "up.json").read_text())

    @property
    def namespace(self):
        return self.up["namespace"]

    def told(self):
        """What gateways, controllers and the control plane have written into their logs: file and line, without the time."""
        for path in sorted((self.dir / "logs").rglob("*.log")):
            for line in path.read_text(errors="replace").splitlines():
                yield path.name, re.sub(r'"timestamp":"[^"]*"', "", line)

    def secrets(self):
        """What may stand in no log: the users' tokens, and what their people typed."""
        up = self.up
        tokens = {name: value for name, value in up.items() if name.endswith("Token")}
        assert len(tokens) >= 5, f"the users' tokens in {sorted(up)}"
        return tokens | {f"typed {n}": text for n, text in enumerate(sorted(TYPED))}

    # Processes.

    @staticmethod
    def state(pid):
        """The letter of /proc, or None when there is no such process."""
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return None

    def signal(self, pid, what):
        os.kill(pid, what)
        if what == signal.SIGKILL:
            eventually(lambda: self.state(pid) in (None, "Z"), f"the end of {pid}")

    def wait_ready(self):
        """Until every process is there again, as after a restart."""
        # Each question starts two processes.
        eventually(lambda: xtask("status", "--dir", str(self.dir), check=False).returncode == 0, "everything ready", 90, every=0.5)

    def browser_pid(self, session):
        """The `beckon browser` of a session."""
        mark = f"BECKON_SESSION={session}".encode()
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"browser" in words[1:3] and mark in (entry / "environ").read_bytes().split(b"\0"):
                    if b"beckon" in os.path.basename(words[0]):
                        return int(entry.name)
            except OSError:
                continue
        raise AssertionError(f"no browser process of {session}")

    def api_server(self):
        """The process of the API server."""
        mark = os.fsencode(self.dir)
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if any(word.endswith(b"kube-apiserver") for word in words[:2]) and any(mark in word for word in words):
                return int(entry.name)
        raise AssertionError("no API server")

    @staticmethod
    def children(pid):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                        found.append(int(entry.name))
                except (OSError, IndexError):
                    continue
        return found

    # The API server.

    def run(self, user, *words, program="kubectl"):
        """kubectl, or a plugin of it, as one of the users."""
        environment = dict(os.environ, PATH=f"{self.dir}/bin:{os.environ['PATH']}", KUBECONFIG=self.up["kubeconfig"])
        return subprocess.run([program, *words, "--context", user], env=environment, capture_output=True, text=True, timeout=60)

    def kubectl(self, user, *words):
        done = self.run(user, *words)
        assert done.returncode == 0, f"kubectl {' '.join(words)} as {user}: {done.stderr}"
        return done.stdout

    @functools.cached_property
    def admin(self):
        return self.api("admin")

    def get(self, kind, name=""):
        """An object, or without a name the list of all. Asked without kubectl, since tests ask again and again, and each start of
        kubectl costs a processor a tenth of a second."""
        return self.admin.get(f"{PATHS[kind].format(namespace=self.namespace)}/{name}".rstrip("/")).raise_for_status().json()

    def requests(self, session=None):
        items = self.get("attn")["items"]
        return [item for item in items if session is None or item["spec"].get("sessionRef", {}).get("name") == session]

    def open_request(self, session, reason=None):
        """The open request of a session, once it waits for a person."""

        def find():
            for item in self.requests(session):
                if item.get("status", {}).get("phase") == "Pending" and reason in (None, item["spec"]["reason"]):
                    return item
            return None

        return eventually(find, f"an open request of {session}", 15)

    def settled(self, name, seconds=30):
        """The request, once it is settled."""

        def find():
            item = self.get("attn", name)
            return item if item.get("status", {}).get("phase") not in (None, "Pending") else None

        return eventually(find, f"{name} settled", seconds)

    def patch(self, user, kind, name, body):
        return self.kubectl(user, "patch", kind, name, "-n", self.namespace, "--type=merge", "-p", json.dumps(body))

    def api(self, user):
        """An HTTP client of the API server, for what kubectl is too slow for."""
        config = json.loads(self.kubectl("admin", "config", "view", "--raw", "-o", "json"))
        cluster = config["clusters"][0]["cluster"]
        token = next(entry["user"] for entry in config["users"] if entry["name"] == user)["token"]
        trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        return httpx.Client(base_url=cluster["server"], verify=trust, headers={"Authorization": f"Bearer {token}"}, timeout=30)
