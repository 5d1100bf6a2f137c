"""Input is allowed only while the request is open, and is checked on every event: at the driver, whatever a page sends."""

import asyncio
import base64
import json
import os
import signal
import ssl
import urllib.request

import pytest
import websockets
from playwright.sync_api import expect

from agents import LOOP
from people import click_events
from waiting import eventually, holds

REASON = "Please solve the puzzle."


def driven(world, agents, people, shop):
    """A page that the operator drives: agent, session, call, request, operator, visit, where to click."""
    agent, operator, visit = agents(), people(), shop.visit()
    session = agent.session(visit.url)
    agent.click(session, "Add Lighthouse to cart")
    agent.click(session, "Go to checkout")
    call = agent.ask(session, REASON)
    name = world.open_request(session)["metadata"]["name"]
    layout = visit.layout("puzzle", "tiles")
    operator.open(name)
    operator.take_over()
    operator.click(layout["tiles"][0], layout)
    eventually(lambda: visit.of("click") and visit.of("click")[-1]["target"].startswith("tile"), "a click in the page", 10)
    return agent, session, call, name, operator, visit, layout


def silent(visit, before, seconds=2):
    """Nothing more reaches the page."""
    holds(lambda: len(visit.hands()) == before, f"input reached the page: {visit.hands()[before:]}", seconds)


def settle_down(visit):
    """What is in flight has arrived: the number of events stays the same for half a second."""
    last = [len(visit.hands()), 0]

    def calm():
        now = len(visit.hands())
        last[1] = last[1] + 1 if now == last[0] else 0
        last[0] = now
        return last[1] > 10

    eventually(calm, "a page at rest", 10)
    return last[0]


def test_after_resolve_every_event_is_refused(world, agents, people, shop):
    _, _, call, _, operator, visit, layout = driven(world, agents, people, shop)
    lease = operator.lease()
    operator.answer("Resolve", "Done.")
    assert call.result(10)["status"] == "resolved"
    before = settle_down(visit)
    refused = operator.force_input(lease, click_events(layout["tiles"][1]))
    assert refused[-1]["code"] in ("LEASE_ENDED", "NO_LEASE")
    silent(visit, before)


def test_after_a_resolve_by_kubectl_the_page_lets_go(world, agents, people, shop):
    _, _, call, name, operator, visit, layout = driven(world, agents, people, shop)
    lease = operator.lease()
    world.patch("operator-2", "attn", name, {"spec": {"resolution": {"outcome": "Resolved", "message": "I did it."}}})
    assert call.result(10)["resolved_by"] == "operator-2"
    eventually(lambda: operator.live.get_attribute("data-hands") != "me", "the hands off the page", 10)
    before = settle_down(visit)
    operator.click(layout["tiles"][2], layout)
    refused = operator.force_input(lease, click_events(layout["tiles"][1]))
    assert refused[-1]["code"] in ("LEASE_ENDED", "NO_LEASE")
    silent(visit, before)


def test_who_lacks_the_lease_moves_nothing(world, agents, people, shop):
    _, _, _, name, operator, visit, layout = driven(world, agents, people, shop)
    before = settle_down(visit)
    watcher = people("operator-2")
    watcher.open(name)
    watcher.see()
    expect(watcher.page.get_by_text("operator is driving")).to_be_visible()
    watcher.click(layout["tiles"][1], layout)
    for lease in ("made-up", "", operator.lease()):
        refused = watcher.force_input(lease, click_events(layout["tiles"][1]))
        assert refused[-1]["code"] in ("LEASE_ENDED", "NO_LEASE", "BAD_MESSAGE"), (lease, refused)
    silent(visit, before)
    # The one who has it still drives.
    operator.click(layout["tiles"][1], layout)
    eventually(lambda: len(visit.hands()) > before, "the operator's click", 10)


def test_a_viewer_can_neither_take_nor_answer(world, agents, people, shop):
    agent = agents()
    session = agent.session(shop.visit().url)
    agent.ask(session, REASON)
    name = world.open_request(session)["metadata"]["name"]
    viewer = people("viewer")
    viewer.open(name)
    expect(viewer.page.get_by_text(REASON).first).to_be_visible()
    expect(viewer.page.get_by_role("button", name="Open live & take over")).to_have_count(0)
    expect(viewer.page.get_by_role("button", name="Resolve", exact=True)).to_have_count(0)
    for method, path, body in (
        ("POST", f"/api/v1/sessions/{world.namespace}/{session}/control/take", {"request": name}),
        ("POST", f"/api/v1/attention/{world.namespace}/{name}/resolve", {"message": "mine"}),
    ):
        status = viewer.page.evaluate(
            "async ([method, path, body]) => (await fetch(path, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).status",
            [method, path, body],
        )
        assert status == 403, (path, status)
    assert world.get("attn", name)["status"]["phase"] == "Pending"


class Driver:
    """The driver of a session's pod, spoken to with the session's own token: what a gateway that has gone wrong could send."""

    def __init__(self, world, session):
        secret = world.get("secret", f"{session}-driver")["data"]
        self.token = base64.b64decode(secret["token"]).decode()
        self.trust = ssl.create_default_context(cadata=base64.b64decode(secret["tls.crt"]).decode())
        self.address = world.get("pod", session)["status"]["podIP"]

    def send(self, lease, events):
        """Sends input, and returns the first refusal, or None when there was none within two seconds."""
        return LOOP.submit(self.exchange(lease, events)).result(20)

    async def exchange(self, lease, events):
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"wss://{self.address}:7443/v1/live"
        async with websockets.connect(url, ssl=self.trust, server_hostname="driver.beckon.dev", additional_headers=headers, max_size=None, proxy=None) as socket:
            await socket.send(json.dumps({"type": "input", "lease": lease, "events": events}))
            try:
                async with asyncio.timeout(2):
                    async for message in socket:
                        if isinstance(message, str) and json.loads(message)["type"] == "refused":
                            return json.loads(message)
            except TimeoutError:
                return None


@pytest.fixture
def thaw(world):
    frozen = []
    yield frozen
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)
    world.wait_ready()


def test_a_resolve_by_kubectl_closes_the_gate_while_the_gateways_are_cut_off(world, agents, people, shop, thaw):
    _, session, _, name, operator, visit, layout = driven(world, agents, people, shop)
    lease, driver = operator.lease(), Driver(world, session)
    # As long as the gateways keep the grant alive the lease is good, wherever it comes from.
    before = settle_down(visit)
    assert driver.send(lease, click_events(layout["tiles"][1])) is None
    eventually(lambda: len(visit.hands()) > before, "a click with the lease", 10)
    # No gateway can reach the pod any more, so nobody can tell it that the request is settled.
    for pid in world.up["processes"]["gateway"]:
        os.kill(pid, signal.SIGSTOP)
        thaw.append(pid)
    world.patch("operator-2", "attn", name, {"spec": {"resolution": {"outcome": "Resolved", "message": "I did it."}}})
    refused = eventually(lambda: driver.send(lease, click_events(layout["tiles"][2])), "the gate closed by itself", 8)
    assert refused["code"] in ("LEASE_ENDED", "NO_LEASE")
    before = settle_down(visit)
    assert driver.send(lease, click_events(layout["tiles"][2]))["code"] in ("LEASE_ENDED", "NO_LEASE")
    silent(visit, before)


def test_control_comes_back_after_a_moment_without_the_api_server(world, agents, people, shop, thaw):
    """Nobody can tell meanwhile whether the person may still drive, so nothing reaches the page; then they go on where they were."""
    _, _, call, _, operator, visit, layout = driven(world, agents, people, shop)
    before = settle_down(visit)
    server = world.api_server()
    thaw.append(server)
    os.kill(server, signal.SIGSTOP)
    expect(operator.page.get_by_text("Taking control back")).to_be_visible(timeout=10_000)
    operator.click(layout["tiles"][1], layout)
    silent(visit, before, 1)
    os.kill(server, signal.SIGCONT)
    eventually(lambda: operator.live.get_attribute("data-hands") == "me", "the hands on the page again", 15)
    operator.click(layout["tiles"][2], layout)
    eventually(lambda: len(visit.hands()) > before, "a click in the page", 10)
    operator.answer("Resolve", "Done.")
    assert call.result(10)["status"] == "resolved"


def test_the_debugging_port_of_chromium_does_not_exist(world, agents, shop):
    agent = agents()
    session = agent.session(shop.visit().url)
    address = world.get("pod", session)["status"]["podIP"]
    for port in (9222, 9229):
        with pytest.raises(OSError):
            urllib.request.urlopen(f"http://{address}:{port}/json/version", timeout=3)
