"""The dashboard's pages as people need them: readable by everybody, by keyboard and on a phone, and deaf to what agents write."""

import json

import pytest
from playwright.sync_api import expect

from waiting import eventually

REASON = "Checkout shows a CAPTCHA. Please solve it and resolve this request."
SCREENS = {
    "wide": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 768, "height": 1024}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True, "is_mobile": True},
}


@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing_on_any_page(world, agents, people, shop, screen):
    agent, operator = agents(), people(**SCREENS[screen])
    session = agent.session(shop.visit().url)
    agent.ask(session, REASON + "\n" * 3 + "More.\n" * 30, options={"choices": ["solve", "skip"]})
    agent.ask(session, "Which colour?", mode="notify")
    name = world.open_request(session, "Which colour?")["metadata"]["name"]
    takeover = next(item["metadata"]["name"] for item in world.requests(session) if item["spec"]["mode"] == "Takeover")
    faults = {}

    def look(what):
        faults.update({f"{what}: {fault}": None for fault in operator.axe()})
        if operator.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            faults[f"{what}: wider than the screen"] = None

    row = operator.page.get_by_role("row").filter(has_text="Which colour?")
    row.get_by_role("checkbox").check()
    assert row.get_by_role("link").bounding_box()["width"] > 120, "there is room for the reason"
    for button in ("Resolve selected", "Reject selected", "Clear"):
        expect(operator.page.get_by_role("button", name=button)).to_be_in_viewport(ratio=1)
    look("attention")
    operator.page.get_by_role("button", name="Resolve selected").click()
    look("bulk")
    operator.open(name)
    look("notify")
    operator.answer("Resolve", "Blue.")
    expect(operator.page.get_by_role("region", name="The outcome")).to_be_visible()
    look("settled")
    operator.open(takeover)
    operator.take_over()
    look("driving")
    operator.page.get_by_role("button", name="Let go").click()
    operator.page.get_by_role("button", name="Resize agent browser").click()
    look("resize")
    for path in ("/sessions", f"/sessions/{world.namespace}/{session}", "/history", "/history?q=nothing+is+like+this", "/help", "/nowhere"):
        operator.visit(path)
        look(path)
    operator.page.get_by_role("button", name="Sign out").click()
    expect(operator.page.get_by_text("You are signed out.")).to_be_visible()
    look("signed out")
    assert list(faults) == []
    assert operator.problems == []


HOSTILE = "\n".join(
    [
        "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'><svg onload=window.hacked=1>",
        "</blockquote></section><form action=/logout method=post><button>Resolve</button></form><a href='javascript:window.hacked=1'>click</a>",
        "<style>.answer { display: none }</style><base href='https://evil.example/'><meta http-equiv=refresh content=0;url=https://evil.example/>",
        "{{7*7}} ${7*7} <%= 7*7 %> #{7*7} __proto__ constructor[prototype]",
        "[click](javascript:window.hacked=1) javascript:window.hacked=1 data:text/html,<script>window.hacked=1</script>",
        "\u202egnp.exe\u202c \u2066evil\u2069 \u200b\u200b zero \ufeff \u00ad tag \U000e0041",
        "W" * 400,
        "https://" + "a" * 300 + ".example/",
        "שלום עולם — مرحبا بالعالم — 👩‍💻🏳️‍🌈 — Z̸͎̈a̵l̶g̷o̴" + "\u0301" * 40,
        "&lt;b&gt; &amp; &#60;script&#62; %3Cscript%3E \\u003cscript\\u003e",
    ]
)


def test_an_agents_words_are_words_wherever_they_are_shown(world, agents, people, shop):
    agent, operator = agents(), people()
    session = agent.session(shop.visit().url)
    options = {"choices": ["<b onclick=hacked>bold</b>", "\u202ekcab"], "<script>": "</pre><script>window.hacked=1</script>"}
    agent.ask(session, HOSTILE, options=options)
    name = world.open_request(session)["metadata"]["name"]
    # The script of the page would report what its policy refused.
    refused = []
    operator.page.on("console", lambda line: refused.append(line.text) if "Content Security Policy" in line.text or "TrustedHTML" in line.text else None)

    def inert(root):
        inside = operator.page.locator(root).first
        expect(inside).to_be_visible()
        assert inside.evaluate("(node) => [...node.querySelectorAll('script, img, svg[onload], style, form, base, meta, iframe, blockquote a, b')].length") == 0, root
        assert operator.page.evaluate("window.hacked") is None
        # Nothing of it makes the page wider than the screen.
        assert operator.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), root
        return inside

    inert(f"tr[data-key='{world.namespace}/{name}'] td.c-reason")
    operator.visit(f"/sessions/{world.namespace}/{session}")
    inert("#banner")
    operator.open(name)
    words = inert(".words")
    assert operator.page.locator("#reason").evaluate("(node) => node.textContent") == HOSTILE
    assert json.loads(operator.page.locator("#options").evaluate("(node) => node.textContent")) == options
    # Characters that reorder or hide are named, and what is behind them stays in its line.
    for code in ("U+202E", "U+2066", "U+200B", "U+FEFF", "U+00AD", "U+E0041"):
        assert words.locator(f".odd[data-name='{code}']").count() > 0, code
    # An offered answer is text too, and goes into the box as it is.
    operator.page.get_by_role("button", name="<b onclick=hacked>bold</b>").click()
    expect(operator.page.get_by_label("Message for the agent")).to_have_value("<b onclick=hacked>bold</b>")
    operator.answer("Resolve")
    inert(".verdict .said")
    operator.visit("/history")
    inert("table")
    assert refused == [] and operator.problems == []


def test_a_request_is_answered_by_keyboard_alone(world, agents, people, shop):
    agent, operator = agents(), people()
    session = agent.session(shop.visit().url)
    reason = f"Answer me by keys, {session}."
    call = agent.ask(session, reason, mode="notify")
    keys, page = operator.page.keyboard, operator.page
    row = page.get_by_role("row").filter(has_text=reason)
    expect(row).to_be_visible()
    keys.press("/")
    keys.type(session)
    expect(page.locator("tbody tr:visible")).to_have_count(1)
    keys.press("Tab")
    page.evaluate("document.activeElement.blur()")
    keys.press("j")
    expect(row.get_by_role("link")).to_be_focused()
    keys.press("c")
    expect(row).to_contain_text("you")
    expect(row.get_by_role("link")).to_be_focused()
    keys.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    keys.press("Enter")
    page.wait_for_url(f"**/attention/{world.namespace}/*")
    keys.press("r")
    resolve = page.get_by_role("button", name="Resolve", exact=True)
    expect(resolve).to_be_focused()
    # Who has the focus sees it.
    ring = resolve.evaluate("(node) => { const style = getComputedStyle(node); return [style.outlineStyle, parseFloat(style.outlineWidth)]; }")
    assert ring[0] == "solid" and ring[1] >= 2, ring
    keys.press("Shift+Tab")
    keys.press("Shift+Tab")
    expect(page.get_by_label("Message for the agent")).to_be_focused()
    # Letters are letters here.
    keys.type("good work, r e t c x ?")
    keys.press("Tab")
    keys.press("Tab")
    expect(resolve).to_be_focused()
    keys.press("Enter")
    assert call.result(10)["message"] == "good work, r e t c x ?"
    expect(page.locator(".verdict")).to_be_focused()
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    keys.press("Escape")

    def goes_to_the_history():
        # Two keys within a moment, which a busy machine may not make.
        keys.press("g")
        keys.press("h")
        return page.url.endswith("/history")

    eventually(goes_to_the_history, "g and h lead to the history")


def test_on_a_phone_a_finger_taps_scrolls_and_types(world, agents, people, shop):
    agent, operator, visit = agents(), people(**SCREENS["phone"]), shop.visit()
    session = agent.session(visit.url)
    agent.click(session, "Add Lighthouse to cart")
    agent.click(session, "Go to checkout")
    layout = visit.layout("puzzle", "tiles")
    agent.ask(session, REASON)
    name = world.open_request(session)["metadata"]["name"]
    operator.open(name)
    operator.see()
    page = operator.page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut off at the side"
    # The answer is in reach without scrolling.
    for button in ("Resolve", "Reject"):
        expect(page.get_by_role("button", name=button, exact=True)).to_be_in_viewport()
    # Who only watches scrolls their own page over the picture.
    assert operator.picture.evaluate("(node) => getComputedStyle(node).touchAction") == "auto"
    page.get_by_role("button", name="Open live & take over").tap()
    eventually(lambda: operator.live.get_attribute("data-hands") == "me", "the hands on the page", 15)
    assert operator.picture.evaluate("(node) => getComputedStyle(node).touchAction") == "none"
    boats = [tile for tile in layout["tiles"] if tile["boat"]]
    for tile in boats:
        page.touchscreen.tap(*operator.point(tile, layout))
    tapped = eventually(lambda: len(found := [event for event in visit.of("click") if event["target"].startswith("tile")]) == len(boats) and found, "a tap on each boat", 10)
    assert all(event["trusted"] for event in tapped)
    # Two fingers, lifted one after the other.
    glass = operator.context.new_cdp_session(page)
    at = [operator.point({"x": x, "y": 60}, layout) for x in (900, 1000)]
    for kind, fingers in (("touchStart", at[:1]), ("touchStart", at), ("touchMove", at[:1]), ("touchEnd", [])):
        glass.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(fingers)]})
    layout = visit.layout("puzzle", "ship")
    operator.drag(layout["ship"], layout["dock"], layout)
    layout = visit.layout("code", "code")
    phone = operator.context.new_page()
    phone.goto(visit.phone)
    code = eventually(lambda: phone.locator("#code").inner_text(), "a code on the phone", 5)
    phone.close()
    # A phone's keyboard says no keys, only text.
    page.touchscreen.tap(*operator.point(layout["code"], layout))
    page.get_by_role("button", name="Keyboard").tap()
    expect(page.locator("textarea.keys")).to_be_focused()
    page.keyboard.insert_text(code)
    eventually(lambda: visit.of("input") and visit.of("input")[-1]["value"] == code, "the code in the page", 10)
    page.keyboard.press("Enter")
    visit.layout("pay")
    assert page.evaluate("window.__live.refused") == []
    assert operator.problems == []


def test_the_phone_fits_the_agents_page_to_itself(world, agents, people, shop):
    agent, operator = agents(), people(**SCREENS["phone"])
    session = agent.session(shop.visit().url)
    agent.ask(session, REASON)
    operator.open(world.open_request(session)["metadata"]["name"])
    operator.see()
    operator.page.get_by_role("button", name="Resize agent browser").tap()
    operator.page.get_by_role("button", name="As large as this view").tap()
    operator.page.get_by_role("button", name="Resize", exact=True).tap()
    width = eventually(lambda: (size := world.get("bsess", session)["status"].get("viewport")) and size["width"] < 400 and size["width"], "a phone's width", 10)
    eventually(lambda: operator.picture.evaluate("(node) => node.getBoundingClientRect().width / " + str(width)) > 0.9, "a picture at full size", 10)
