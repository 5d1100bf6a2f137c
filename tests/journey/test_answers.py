"""What a person typed is never lost, whatever happens meanwhile; and who else is at it is plain to see."""

import os
import re
import signal

from playwright.sync_api import expect

from waiting import eventually

REASON = "Please look."
CUT = """
(() => {
  const Plain = EventSource;
  window.__feeds = [];
  window.EventSource = class extends Plain { constructor(...words) { super(...words); window.__feeds.push(this); } };
})();
"""


def asked(world, agent, shop, reason=REASON, **more):
    session = agent.session(shop.visit().url)
    call = agent.ask(session, reason, **{"mode": "notify", **more})
    return session, call, world.open_request(session, reason)["metadata"]["name"]


def box(person):
    return person.page.get_by_label("Message for the agent")


def replies(reply):
    """What answers in the server's place; None: nobody."""
    return lambda route: route.fulfill(**reply) if reply else route.abort()


def resolve(world, user, name, message):
    world.patch(user, "attn", name, {"spec": {"resolution": {"outcome": "Resolved", "message": message}}})


def test_a_claim_of_another_leaves_the_box_alone(world, agents, people, shop):
    _, _, name = asked(world, agents(), shop)
    operator = people()
    operator.open(name)
    expect(operator.page.get_by_text("nobody")).to_be_visible()
    box(operator).press_sequentially("half a senten")
    other = people("operator-2")
    other.open(name)
    other.page.get_by_role("button", name="Claim").click()
    expect(other.page.get_by_text("you", exact=True)).to_be_visible()
    expect(operator.page.get_by_role("region", name="What the server knows")).to_contain_text("operator-2")
    # No click in between: the caret is where it was.
    operator.page.keyboard.type("ce")
    expect(box(operator)).to_have_value("half a sentence")
    operator.page.get_by_role("button", name="Claim instead").click()
    expect(operator.page.get_by_text("you", exact=True)).to_be_visible()
    assert world.get("attn", name)["spec"]["claim"]["by"]["username"] == "operator"


def test_more_time_is_one_press(world, agents, people, shop):
    _, _, name = asked(world, agents(), shop, max_wait_seconds=120)
    operator = people()
    operator.open(name)
    before = world.get("attn", name)["status"]["deadline"]
    expect(operator.page.get_by_text(re.compile(r"^[01]:\d\d left$"))).to_be_visible()
    operator.page.get_by_role("button", name="+30 min").click()
    expect(operator.page.get_by_text(re.compile(r"^3[012]:\d\d left$"))).to_be_visible()
    assert world.get("attn", name)["status"]["deadline"] > before


def test_when_the_answer_fails_the_text_stays(world, agents, people, shop):
    _, call, name = asked(world, agents(), shop)
    operator = people()
    operator.open(name)
    box(operator).fill("Hard to type again.")
    path = f"**/api/v1/attention/{world.namespace}/{name}/resolve"
    for reply, told in (
        ({"status": 503, "json": {"code": "UNAVAILABLE", "detail": "The API server did not answer."}}, "The API server did not answer."),
        ({"status": 403, "json": {"code": "FORBIDDEN", "detail": "This request is for user ann."}}, "This request is for user ann."),
        ({"status": 500, "body": "<html>proxy</html>"}, "The server did not answer."),
        (None, "The server can't be reached."),
    ):
        operator.page.route(path, replies(reply))
        operator.answer("Resolve")
        alert = operator.page.get_by_role("alert")
        expect(alert).to_contain_text(told)
        expect(alert).to_contain_text("Your message is still here.")
        expect(box(operator)).to_have_value("Hard to type again.")
        expect(operator.page.get_by_role("button", name="Resolve", exact=True)).to_be_enabled()
        operator.page.unroute(path)
    # Not even a reload loses it.
    operator.page.reload()
    expect(box(operator)).to_have_value("Hard to type again.")
    operator.answer("Resolve")
    assert call.result(10)["message"] == "Hard to type again."
    operator.page.reload()
    expect(operator.page.get_by_text("was not sent")).to_be_hidden()


def test_who_is_signed_out_signs_in_again_and_goes_on_typing(world, agents, people, shop):
    _, call, name = asked(world, agents(), shop, mode="takeover")
    operator = people()
    operator.open(name)
    operator.see()
    box(operator).fill("Typed before the end.")
    # In another window.
    operator.page.evaluate("fetch('/logout', { method: 'POST' })")
    dialog = operator.page.get_by_role("dialog", name="You have been signed out")
    expect(dialog).to_be_visible()
    dialog.get_by_role("link", name="Sign in").click()
    operator.page.get_by_label("API token").fill(world.up["operatorToken"])
    operator.page.get_by_role("button", name="Sign in").click()
    expect(box(operator)).to_have_value("Typed before the end.")
    operator.answer("Resolve")
    assert call.result(10)["message"] == "Typed before the end."
    # Who signs out by themselves leaves nothing behind.
    operator.visit("/attention")
    operator.page.evaluate("sessionStorage.setItem('beckon-draft operator x', 'y')")
    operator.page.get_by_role("button", name="Sign out").click()
    expect(operator.page.get_by_text("You are signed out.")).to_be_visible()
    assert operator.page.evaluate("sessionStorage.length") == 0


def test_who_was_slower_is_told_and_keeps_the_text(world, agents, people, shop):
    _, _, name = asked(world, agents(), shop)
    operator = people()
    operator.open(name)
    box(operator).fill("My own words.")
    resolve(world, "operator-2", name, "Mine were first.")
    outcome = operator.page.get_by_role("region", name="The outcome")
    for text in ("Resolved", "operator-2", "Mine were first.", "Your message was not sent", "My own words."):
        expect(outcome).to_contain_text(text)
    expect(outcome.locator(".verdict")).to_be_focused()


def test_a_page_that_was_cut_off_catches_up(world, agents, people, shop):
    agent = agents()
    _, _, name = asked(world, agent, shop)
    _, _, listed = asked(world, agent, shop)
    operator = people()
    operator.page.add_init_script(CUT)
    operator.open(name)
    watcher = people()
    watcher.page.add_init_script(CUT)
    watcher.visit("/attention")
    row = watcher.page.locator(f"tr[data-key='{world.namespace}/{listed}']")
    expect(row).to_be_visible()
    box(operator).fill("Typed in the dark.")
    for person in (operator, watcher):
        person.context.route("**/events?*", lambda route: route.abort())
        person.context.route("**/api/v1/whoami", lambda route: route.abort())
        person.page.evaluate("for (const feed of window.__feeds) { feed.close(); feed.dispatchEvent(new Event('error')); }")
        expect(person.page.get_by_text("Not connected since")).to_be_visible()
    for request in (name, listed):
        resolve(world, "operator-2", request, "Meanwhile.")
    world.settled(name)
    expect(box(operator)).to_have_value("Typed in the dark.")
    for person in (operator, watcher):
        person.context.unroute_all()
    outcome = operator.page.get_by_role("region", name="The outcome")
    expect(outcome).to_contain_text("Meanwhile.", timeout=30_000)
    expect(outcome).to_contain_text("Typed in the dark.")
    expect(row).to_contain_text("Resolved", timeout=30_000)
    expect(row).to_contain_text("operator-2")
    for person in (operator, watcher):
        expect(person.page.get_by_text("Not connected since")).to_be_hidden()


def test_offered_answers_fill_the_box(world, agents, people, shop):
    _, call, name = asked(world, agents(), shop, options=["Blue", "Red, please"])
    operator = people()
    operator.open(name)
    expect(operator.page.locator("#options")).to_have_text('["Blue","Red, please"]')
    operator.page.get_by_role("button", name="Red, please").click()
    expect(box(operator)).to_be_focused()
    operator.answer("Resolve")
    assert call.result(10)["message"] == "Red, please"


def test_a_new_request_is_told_on_every_page(world, agents, people, shop):
    agent, operator = agents(), people(to="/history")
    expect(operator.page.get_by_role("heading", name="History")).to_be_visible()
    eventually(lambda: operator.page.evaluate("document.querySelector('.link-state').hidden"), "a feed", 10)
    _, _, name = asked(world, agent, shop, "Is anybody there?")
    notice = operator.page.get_by_role("status").filter(has_text="An agent asks: Is anybody there?")
    notice.get_by_role("link").click()
    operator.page.wait_for_url(f"**/attention/{world.namespace}/{name}")
    assert re.match(r"\(\d+\) ", operator.page.title())


def test_who_else_drives_is_told(world, agents, people, shop):
    agent, operator = agents(), people()
    session, _, name = asked(world, agent, shop, mode="takeover")
    agent.ask(session, "And this?", mode="notify")
    world.open_request(session, "And this?")
    operator.open(name)
    expect(operator.page.get_by_role("link", name="And this?")).to_be_visible()
    operator.take_over()
    other = people("operator-2")
    other.open(name)
    other.see()
    expect(other.page.get_by_text("operator is driving")).to_be_visible()
    take = other.page.get_by_role("button", name="Open live & take over")
    expect(take).to_be_disabled()
    expect(take).to_have_attribute("title", "operator is driving: you can take over when they let go.")
    operator.page.keyboard.press("Escape")
    operator.page.keyboard.press("Escape")
    expect(take).to_be_enabled()


def test_a_crash_is_called_a_crash(world, agents, people, shop):
    agent, operator = agents(), people()
    session, call, name = asked(world, agent, shop, mode="takeover")
    operator.open(name)
    operator.see()
    box(operator).fill("I was about to say.")


    os.kill(world.browser_pid(session), signal.SIGKILL)
    assert call.result(30)["status"] == "rejected"
    expect(operator.live).to_contain_text("The browser crashed", timeout=30_000)
    outcome = operator.page.get_by_role("region", name="The outcome")
    expect(outcome).to_contain_text("The session crashed while the attention request was open.")
    expect(outcome).to_contain_text("I was about to say.")
    operator.page.reload()
    expect(operator.live).to_contain_text("The browser crashed")


def test_many_answered_at_once_keep_their_message_when_some_fail(world, agents, people, shop):
    agent, operator = agents(), people()
    made = [asked(world, agent, shop, f"Number {n} of these.")[2] for n in range(3)]
    page = operator.page
    row = lambda name: page.locator(f"tr[data-key='{world.namespace}/{name}']")
    for name in made:
        row(name).get_by_role("checkbox").check()
    expect(page.get_by_text("3 selected")).to_be_visible()
    page.get_by_role("button", name="Reject selected").click()
    dialog = page.get_by_role("dialog", name="Reject 3 requests?")
    dialog.get_by_label("Message for the agents").fill("Stop all of it.")
    page.keyboard.press("Escape")
    resolve(world, "operator-2", made[0], "First.")
    expect(row(made[0])).to_contain_text("Resolved")
    # The settled one is selected no more, and the words are still there.
    page.get_by_role("button", name="Reject selected").click()
    dialog = page.get_by_role("dialog", name="Reject 2 requests?")
    expect(dialog.get_by_label("Message for the agents")).to_have_value("Stop all of it.")
    page.route("**/api/v1/attention/bulk", lambda route: route.abort(), times=1)
    dialog.get_by_role("button", name="Reject 2 requests").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The server can't be reached.")
    dialog.get_by_role("button", name="Reject 2 requests").click()
    expect(page.get_by_text("Rejected 2 requests.")).to_be_visible()
    assert world.settled(made[2])["spec"]["resolution"]["message"] == "Stop all of it."
