"""The demo shop, served to the agents' browsers, with what its pages report: the proof of what reached them."""

import functools
import http.server
import json
import threading
import urllib.parse

from waiting import eventually
from world import REPOSITORY


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.reports.setdefault(self.path, []).extend(json.loads(body))
        self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Shop:
    """A web server of its own for a run."""

    def __init__(self):
        handler = functools.partial(Handler, directory=str(REPOSITORY / "demo" / "site"))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.reports = {}
        self.server.lock = threading.Lock()
        threading.Thread(target=self.server.serve_forever, daemon=True, name="shop").start()
        self.origin = f"http://127.0.0.1:{self.server.server_port}"
        self.visits = 0

    def visit(self, **more):
        self.visits += 1
        return Visit(self, f"/reports/{self.visits}", more)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Visit:
    """One page of the shop, and what it said."""

    def __init__(self, shop, path, more):
        self.shop = shop
        self.path = path
        self.url = f"{shop.origin}/index.html?" + urllib.parse.urlencode({"report": path, "seed": 7, **more})
        self.phone = f"{shop.origin}/phone.html"

    @property
    def events(self):
        with self.shop.server.lock:
            said = list(self.shop.server.reports.get(self.path, ()))
        # Reports travel at the same time and may overtake each other.
        return sorted(said, key=lambda event: event["number"])

    def hands(self):
        """What a hand did: everything but the page's own reports, and moves."""
        return [event for event in self.events if event["type"] not in ("layout", "order", "pointermove")]

    def of(self, *types):
        return [event for event in self.events if event["type"] in types]

    def layout(self, step, key=None, seconds=30):
        """Where things are, as a person sees them."""

        def newest():
            found = [event for event in self.of("layout") if event["step"] == step]
            return found[-1] if found and (key is None or found[-1].get(key)) else None

        return eventually(newest, f"the page at {step}", seconds)
