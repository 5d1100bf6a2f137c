"""The story of the takeover, through real parts: an agent asks, a person takes over its page, the agent goes on in it."""

import json
import re
import subprocess
import sys
import time

import pytest
from playwright.sync_api import expect

from agents import RawCall
from waiting import eventually
from world import REPOSITORY

REASON = "Checkout shows a CAPTCHA. Please solve it and resolve this request."


def meets_the_puzzle(agent, visit):
    session = agent.session(visit.url)
    agent.click(session, "Add Lighthouse to cart")
    agent.click(session, "Go to checkout")
    visit.layout("puzzle", "tiles")
    return session


def pays(agent, session):
    agent.click(session, "Pay")
    found = re.search(r"Your order number is (HT-[A-Z0-9]+-\d)", agent.look(session))
    assert found, "no order number"
    return found.group(1)


def watch_for(page, text):
    """Remembers when the Attention page first shows a text."""
    page.evaluate(
        """(text) => { window.__seen ??= {}; const look = () => { if (!window.__seen[text] && document.querySelector("#requests tbody")?.textContent.includes(text)) window.__seen[text] = Date.now(); };
        new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true }); }""",
        text,
    )


def took(page, text, call):
    """Milliseconds from the agent's call until the page showed it."""
    return eventually(lambda: page.evaluate("(text) => window.__seen[text]", text), "a row", 10) - call.began * 1000


def shown_within_a_second(world, agent, page, session):
    """One more request is shown within a second: a machine that is busy gets four tries, which a page that only asked every now
    and then would not pass either."""
    for attempt in range(4):
        reason = f"Once more: {session} {attempt}."
        watch_for(page, reason)
        call = agent.ask(session, reason, mode="notify")
        milliseconds = took(page, reason, call)
        name = world.open_request(session, reason)["metadata"]["name"]
        world.patch("operator", "attn", name, {"spec": {"resolution": {"outcome": "Resolved"}}})
        call.result(10)
        if milliseconds <= 1000:
            return True
    return False


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_a_person_takes_over_and_the_agent_goes_on_in_the_same_page(world, shop, agents, people, era):
    agent, operator, visit = agents(mode=era), people(), shop.visit()
    session = meets_the_puzzle(agent, visit)
    left = visit.layout("puzzle")
    stale = agent.reference(session, "Picture 1")

    # The request shows up without a reload, within a second.
    rows = operator.page.get_by_role("row").filter(has_text=session)
    expect(rows).to_have_count(0)
    watch_for(operator.page, session)
    call = agent.ask(session, REASON, options={"choices": ["solve", "skip"]})
    expect(rows).to_have_count(1)
    at_once = took(operator.page, session, call) <= 1000
    expect(rows).to_contain_text("Takeover")
    assert eventually(lambda: call.progress, "progress at once", 5)
    request = world.open_request(session)["metadata"]["name"]
    assert any(request in (message or "") for _, _, message in call.progress)

    # What it asks, and the page as it is.
    operator.page.get_by_role("link", name=REASON).click()
    for text in (REASON, '{"choices":["solve","skip"]}', "Takeover"):
        expect(operator.page.get_by_text(text).first).to_be_visible()
    operator.see()

    # Watching alone moves nothing.
    before = len(visit.hands())
    operator.page.mouse.click(*operator.point(left["tiles"][0], left))
    operator.take_over()
    assert visit.hands()[before:] == []
    held = agent.error("click", session_id=session, ref=stale)
    assert held.code == "CONTROL_HELD" and "operator" in held.message

    code = operator.solve(visit)
    # The page's reports travel at the same time: the last key may be told after what it did.
    typed = lambda: "".join(event["key"] for event in visit.hands()[before:] if event["type"] == "keydown")
    eventually(lambda: typed() == code + "Enter" and visit.of("keyup")[-1]["key"] == "Enter", "every key", 10)
    events = visit.hands()[before:]
    assert all(event["trusted"] for event in events)
    for kind in ("pointerdown", "mousedown", "pointerup", "click", "keydown", "input", "keyup"):
        assert any(event["type"] == kind for event in events), kind
    assert "".join(event["key"] for event in events if event["type"] == "keydown") == code + "Enter"
    assert [event["value"] for event in events if event["type"] == "input"][-1] == code

    answered = time.time()
    operator.answer("Resolve", "Done, continue.")
    answer = call.result(10)
    assert set(answer) == {"status", "message", "resolved_by", "resolved_at", "request_id"}
    at = answer.pop("resolved_at")
    assert answer == {"status": "resolved", "message": "Done, continue.", "resolved_by": "operator", "request_id": request}
    assert isinstance(at, int) and abs(at / 1000 - answered) < 5

    # The agent looks first, then goes on where it was.
    assert agent.error("click", session_id=session, ref=stale).code == "OBSERVE_FIRST"
    order = pays(agent, session)
    assert order == f"HT-{left['visit']}-1" and visit.layout("done")["visit"] == left["visit"]
    # The same answer again, later.
    assert agent.call("get_attention_result", request_id=request) == {**answer, "resolved_at": at}
    assert at_once or shown_within_a_second(world, agent, people().page, session)
    # The row stays in the history, with who and how.
    operator.visit("/history")
    past = operator.page.get_by_role("row").filter(has_text=session).filter(has_text=REASON)
    expect(past).to_contain_text("Resolved")
    expect(past).to_contain_text("operator")
    assert operator.problems == []


def test_by_kubectl_alone(world, agents, shop):
    agent = agents()
    session = agent.session(shop.visit().url)
    call = agent.ask(session, REASON, mode="notify")
    name = world.open_request(session)["metadata"]["name"]
    table = world.kubectl("operator", "get", "attn", "-n", world.namespace).splitlines()
    assert table[0].split() == ["NAME", "SESSION", "MODE", "PHASE", "BY", "DEADLINE", "AGE", "REASON"]
    row = next(line for line in table if line.startswith(name))
    assert row.split()[1:4] == [session, "Notify", "Pending"] and row.endswith(REASON)

    body = '{"spec":{"resolution":{"outcome":"Resolved","message":"done"}}}'
    world.kubectl("operator", "patch", "attn", name, "-n", world.namespace, "--type=merge", "-p", body)
    answer = call.result(10)
    assert answer == {"status": "resolved", "message": "done", "resolved_by": "operator", "resolved_at": answer["resolved_at"], "request_id": name}
    world.kubectl("operator", "wait", "--for=condition=Settled", f"attn/{name}", "-n", world.namespace, "--timeout=10s")
    status = world.get("attn", name)["status"]
    assert (status["phase"], status["resolvedBy"], status["message"]) == ("Resolved", "operator", "done")


def test_by_the_plugin_of_kubectl(world, agents, shop):
    agent = agents()
    session = agent.session(shop.visit().url)
    call = agent.ask(session, REASON)
    name = world.open_request(session)["metadata"]["name"]
    where = ("-n", world.namespace)
    assert f"attentionrequest.beckon.dev/{name}" in world.run("viewer", "attention", "list", "-o", "name", *where).stdout.split()
    shown = world.run("viewer", "attention", "show", name, *where).stdout
    assert f"Session:       {session}" in shown and f"    | {REASON}" in shown and shop.origin in shown
    refused = world.run("agent", "attention", "resolve", name, *where)
    assert refused.returncode == 4 and "resolve" in refused.stderr
    done = world.run("operator", "attention", "reject", name, "-m", "Use the other shop.", *where)
    assert (done.returncode, done.stdout) == (0, f"attentionrequest.beckon.dev/{name} rejected\n")
    answer = call.result(10)
    assert (answer["status"], answer["message"], answer["resolved_by"]) == ("rejected", "Use the other shop.", "operator")
    late = world.run("operator-2", "attention", "reject", name, "-m", "Use the other shop.", *where)
    assert late.returncode == 5 and "rejected by operator" in late.stderr


def test_a_one_time_link_of_the_plugin_leads_to_the_request(world, agents, shop, chromium):
    agent = agents()
    session = agent.session(shop.visit().url)
    agent.ask(session, REASON, mode="notify")
    name = world.open_request(session)["metadata"]["name"]
    gateway = world.up["dashboardURL"]
    opened = world.run("operator", "attention", "open", name, "--print", "--gateway", gateway, "-n", world.namespace)
    assert opened.returncode == 0, opened.stderr
    link = opened.stdout.strip()
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"**/attention/{world.namespace}/{name}")
        expect(page.get_by_text(REASON).first).to_be_visible()
        # Once.
        page.goto(link)
        expect(page.get_by_role("alert")).to_have_text("It was used before, or it is older than 10 minutes.")
    finally:
        context.close()


def test_an_answer_without_a_message_has_no_message(world, agents, people, shop):
    agent, operator = agents(), people()
    session = agent.session(shop.visit().url)
    call = agent.ask(session, REASON, mode="notify")
    name = world.open_request(session)["metadata"]["name"]
    operator.open(name)
    operator.see()
    # A request that may only be looked at offers no hands.
    expect(operator.page.get_by_role("button", name="Open live & take over")).to_have_count(0)
    operator.answer("Reject")
    answer = call.result(10)
    assert answer == {"status": "rejected", "resolved_by": "operator", "resolved_at": answer["resolved_at"], "request_id": name}


def demo(world, visit):
    """What the README tells a newcomer to run, in a shop of its own."""
    words = [sys.executable, str(REPOSITORY / "demo" / "agent.py"), "--dir", str(world.dir), "--shop", visit.url]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_the_demo_agent_tells_its_story(world, people, shop):
    visit, operator = shop.visit(), people()
    process = demo(world, visit)
    try:
        # The agent starts a process and a browser first.
        visit.layout("puzzle", "tiles", seconds=120)
        link = operator.page.get_by_role("link", name=re.compile("The shop shows a puzzle"))
        link.click()
        operator.take_over()
        operator.solve(visit)
        operator.answer("Resolve", "All yours.")
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert "was resolved by operator, who says: All yours." in said
    assert re.search(r"The order number is HT-[A-Z0-9]+-1", said), said


@pytest.mark.parametrize(
    "outcome, why",
    [("Rejected", "my request was rejected"), ("Resolved", "the page has no button 'Pay', so what I asked for was not done")],
)
def test_the_demo_agent_says_why_it_stops(world, shop, outcome, why):
    visit = shop.visit()
    process = demo(world, visit)
    try:
        visit.layout("puzzle", "tiles", seconds=120)

        def waiting():
            mine = [item for item in world.requests() if item["spec"]["reason"].startswith("The shop shows a puzzle")]
            return [item["metadata"]["name"] for item in mine if item.get("status", {}).get("phase") == "Pending"]

        (name,) = eventually(waiting, "the demo's request", 30)
        world.patch("operator", "attn", name, {"spec": {"resolution": {"outcome": outcome}}})
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1, said
    assert said.endswith(f"\nI stop here: {why}.\n") and "Traceback" not in said, said


def test_options_come_out_token_for_token(world, agents, people, shop):
    agent, operator = agents(), people()
    session = agent.session(shop.visit().url)
    options = r'{"z":1.0,"a":1e400,"deep":[-0,0.10,{"k":"\u00e9\/\ud83d\ude00","k2":""}],"big":123456789012345678901234567890}'
    arguments = f'{{"session_id":"{session}","reason":"Pick one.","mode":"notify","options":{options}}}'
    call = RawCall(world.up["mcpURL"], world.up["agentToken"], "request_attention", arguments)
    request = world.open_request(session)
    name = request["metadata"]["name"]
    assert request["spec"]["options"] == options
    shown = world.run("operator", "attention", "show", name, "-n", world.namespace, "-o", "json").stdout
    assert json.loads(shown)["spec"]["options"] == options
    assert f"    | {options}\n" in world.run("operator", "attention", "show", name, "-n", world.namespace).stdout
    operator.open(name)
    assert operator.page.get_by_text('"big":123456789012345678901234567890').first.inner_text() == options
    world.patch("operator", "attn", name, {"spec": {"resolution": {"outcome": "Resolved", "message": "ok"}}})
    assert call.result()["structuredContent"]["status"] == "resolved"
