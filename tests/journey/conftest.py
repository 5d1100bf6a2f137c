"""What the journeys share. One world serves all of them; a killed process of it comes back by itself."""

import os

import pytest
from playwright.sync_api import expect, sync_playwright

from agents import Agent
from people import Person
from shop import Shop
from world import World

# A page on a busy machine takes its time.
expect.set_options(timeout=15_000)

# Short, so that what ends in hours ends in seconds here. The rest is as installed.
SETTINGS = ("attention.minWaitSeconds=0", "attention.reattachGraceSeconds=5")


@pytest.fixture(scope="session")
def world():
    world = World(*SETTINGS)
    yield world
    try:
        no_log_tells_a_secret(world)
    finally:
        world.down()


def no_log_tells_a_secret(world):
    """After all journeys, since each of them may be the one that makes a log say too much."""
    lines = list(world.told())
    assert any("gateway" in name for name, _ in lines) and any("controller" in name for name, _ in lines), {name for name, _ in lines}
    found = [(file, name) for name, secret in world.secrets().items() for file, line in lines if secret in line]
    assert not found, f"secrets in logs: {found}"


@pytest.fixture(scope="session")
def shop():
    shop = Shop()
    yield shop
    shop.close()


@pytest.fixture(scope="session")
def chromium():
    with sync_playwright() as playwright:
        switches = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        # The headless shell, as Playwright itself takes without a window: half the work of the other.
        program = os.environ.get("BECKON_PERSON", "/usr/bin/chromium-headless-shell")
        browser = playwright.chromium.launch(executable_path=program, args=switches)
        yield browser
        browser.close()


@pytest.fixture
def agents(world):
    """Makes agents; each ends its sessions with the test."""
    made = []

    def make(which="agent", url=None, mode="auto"):
        token = world.up[{"agent": "agentToken", "agent-2": "agent2Token"}[which]]
        made.append(Agent(url or world.up["mcpURL"], token, mode))
        return made[-1]

    before = {item["session_id"] for item in sessions(make())}
    yield make
    closer = make()
    for item in sessions(closer):
        if item["session_id"] not in before:
            closer.call("close_session", session_id=item["session_id"])
    for agent in made:
        agent.close()


def sessions(agent):
    return agent.call("list_sessions")["sessions"]


@pytest.fixture
def people(chromium, world):
    """Makes people who have signed in."""
    made = []

    def make(user="operator", to="/attention", dashboard=None, **screen):
        person = Person(chromium, world, user, dashboard, **screen)
        made.append(person)
        person.sign_in(to)
        return person

    yield make
    for person in made:
        person.close()


# For `cargo xtask test`, which counts: the words of `cargo test`.
LINES = "BECKON_JOURNEY_LINES" in os.environ
RESULTS = {"passed": 0, "failed": 0}


def pytest_report_teststatus(report):
    if LINES:
        return ("" if report.passed else report.outcome), "", ""
    return None


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        RESULTS["passed"] += 1
        tell(report, "ok")
    elif report.failed:
        RESULTS["failed"] += 1
        tell(report, "FAILED")
        if LINES:
            errors = "\n".join(line for line in report.longreprtext.splitlines() if line.startswith((">", "E")))
            os.write(1, f"---- {report.nodeid} stdout ----\n{errors}\n\n\n".encode())


def tell(report, word):
    if LINES:
        os.write(1, f"test {report.nodeid} ... {word}\n".encode())


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary():
    if LINES:
        word = "FAILED" if RESULTS["failed"] else "ok"
        os.write(1, f"\ntest result: {word}. {RESULTS['passed']} passed; {RESULTS['failed']} failed; 0 ignored\n".encode())
