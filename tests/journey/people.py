"""People at the dashboard: Playwright drives a Chromium of theirs."""

import importlib.resources
import json
import re

from waiting import eventually
from world import TYPED

# Keeps the sockets of the live view, and the lease that the page holds, where a test can say what the page would not.
SPY = """
(() => {
  const Plain = WebSocket;
  window.__live = { sockets: [], lease: null, refused: [] };
  window.WebSocket = class extends Plain {
    constructor(...words) {
      super(...words);
      window.__live.sockets.push(this);
      this.addEventListener("message", ({ data }) => {
        if (typeof data !== "string") return;
        const event = JSON.parse(data);
        if (event.type === "refused") window.__live.refused.push(event);
      });
    }
    send(data) {
      if (typeof data === "string") {
        const command = JSON.parse(data);
        if (command.lease) window.__live.lease = command.lease;
      }
      super.send(data);
    }
  };
})();
"""


AXE = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()


class Person:
    """One user of the cluster with a browser."""

    def __init__(self, chromium, world, user, dashboard=None, **screen):
        self.world = world
        self.user = user
        self.dashboard = dashboard or world.up["dashboardURL"]
        self.context = chromium.new_context(**{"viewport": {"width": 1500, "height": 950}, **screen})
        self.context.add_init_script(SPY)
        self.context.set_default_timeout(15_000)
        self.page = self.context.new_page()
        self.problems = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))

    def close(self):
        self.context.close()

    def axe(self):
        """What axe finds wrong with the page as it is, by WCAG 2.2 AA and by its own good practices."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE)
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        found = self.page.evaluate("(tags) => axe.run(document, { runOnly: tags, resultTypes: ['violations'] })", tags)["violations"]
        return [f"{one['id']}: {one['help']}: {node['target']}: {node['failureSummary']}" for one in found for node in one["nodes"]]

    def sign_in(self, to="/attention"):
        """By a token, as at the door."""
        token = self.world.up[{"operator": "operatorToken", "operator-2": "operator2Token", "viewer": "viewerToken"}[self.user]]
        self.page.goto(f"{self.dashboard.rstrip('/')}/login?next={to}")
        self.page.get_by_label("API token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(re.compile(re.escape(to)))

    def visit(self, path):
        self.page.goto(self.dashboard.rstrip("/") + path)

    def open(self, request):
        self.visit(f"/attention/{self.world.namespace}/{request}")

    @property
    def live(self):
        return self.page.get_by_role("region", name="Live view")

    @property
    def picture(self):
        return self.page.get_by_role("img", name="The agent's page")

    def see(self):
        """Waits for a frame."""
        eventually(lambda: self.live.get_attribute("data-sequence"), "a frame of the live view", 15)

    def take_over(self):
        self.see()
        self.page.get_by_role("button", name="Open live & take over").click()
        eventually(lambda: self.live.get_attribute("data-hands") == "me", "the hands on the page", 15)

    def point(self, place, layout):
        """Where a point of the agent's page is on the person's screen."""
        box = self.picture.bounding_box()
        return (box["x"] + place["x"] * box["width"] / layout["width"], box["y"] + place["y"] * box["height"] / layout["height"])

    def click(self, place, layout):
        self.page.mouse.click(*self.point(place, layout))

    def drag(self, start, end, layout):
        self.page.mouse.move(*self.point(start, layout))
        self.page.mouse.down()
        self.page.mouse.move(*self.point(end, layout), steps=6)
        self.page.mouse.up()

    def answer(self, word, message=""):
        if message:
            self.page.get_by_label("Message for the agent").fill(message)
        self.page.get_by_role("button", name=word, exact=True).click()

    def solve(self, visit):
        """Puzzle and code, with mouse and keys in the live view."""
        layout = visit.layout("puzzle", "tiles")
        for tile in layout["tiles"]:
            if tile["boat"]:
                self.click(tile, layout)
        layout = visit.layout("puzzle", "ship")
        self.drag(layout["ship"], layout["dock"], layout)
        layout = visit.layout("code", "code")
        phone = self.context.new_page()
        phone.goto(visit.phone)
        code = eventually(lambda: phone.locator("#code").inner_text(), "a code on the phone", 5)
        phone.close()
        self.click(layout["code"], layout)
        TYPED.add(code)
        self.page.keyboard.type(code, delay=20)
        self.page.keyboard.press("Enter")
        visit.layout("pay")
        return code

    # What the page itself would not send.

    def lease(self):
        return self.page.evaluate("window.__live.lease")

    def force_input(self, lease, events):
        """Sends input over the page's own socket, past everything that the page checks. Returns what was refused."""
        before = self.page.evaluate("window.__live.refused.length")
        sent = self.page.evaluate(
            """(text) => { const socket = window.__live.sockets.findLast((s) => s.readyState === 1); if (!socket) return false; Object.getPrototypeOf(Object.getPrototypeOf(socket)).send.call(socket, text); return true; }""",
            json.dumps({"type": "input", "lease": lease, "events": events}),
        )
        assert sent, "the live view has no open socket"

        def refused():
            return self.page.evaluate("(from) => window.__live.refused.slice(from)", before)

        return eventually(refused, "a refusal", 10)


def click_events(place):
    """A click as the live view sends it."""
    spot = {"x": place["x"], "y": place["y"], "modifiers": 0}
    return [
        {"kind": "move", "buttons": 0, **spot},
        {"kind": "down", "button": "left", "buttons": 1, "count": 1, **spot},
        {"kind": "up", "button": "left", "buttons": 0, "count": 1, **spot},
    ]
