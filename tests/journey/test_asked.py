"""What the agent's browser itself asks is in no picture of the page: the dashboard draws it, and a person answers it there."""

import http.server
import re
import threading
import time

import pytest
from playwright.sync_api import expect

from waiting import eventually

PAGE = """<!doctype html><meta charset=utf-8><title>{name}</title><style>* {{ position: absolute; margin: 0; height: 40px; width: 200px }}</style>
<input type=date id=day aria-label=Day style="left:20px;top:20px">
<select id=size aria-label=Size style="appearance:none !important;left:20px;top:80px"><option>Small<option>Large</select>
<input type=file id=scan style="left:20px;top:140px">
<button id=ask style="left:20px;top:260px">Ask</button>
<input id=code maxlength=1 style="left:20px;top:200px;width:40px"><input id=rest style="left:80px;top:200px">
<script>
const say = (text) => fetch("/said", {{ method: "POST", body: text }});
for (const field of [day, size]) field.addEventListener("change", () => say(field.id + " " + field.value));
ask.addEventListener("click", () => say("answer " + prompt("Your code?", "default")));
scan.addEventListener("change", async () => say(scan.files[0].name + " " + await scan.files[0].text()));
code.addEventListener("paste", (event) => {{ const text = event.clipboardData.getData("text/plain");
  event.preventDefault(); code.value = text[0]; rest.value = text.slice(1); say("code " + code.value + rest.value); }});
for (const kind of ["touchstart", "touchmove", "touchend"]) addEventListener(kind, (event) => say(kind + " " + event.touches.length));
addEventListener("wheel", (event) => say("wheel " + Math.sign(event.deltaX) + " " + Math.sign(event.deltaY)));
for (const kind of ["keydown", "keyup"]) addEventListener(kind, (event) => {{ if (event.key === "Shift" && !event.repeat) say(kind + " Shift"); }});
say("{name}");
</script>"""
SIZE = {"width": 1280, "height": 800}
# What is asked goes through a page, a pod and a gateway.
SOON = 20_000


@pytest.fixture
def site():
    said = []

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = PAGE.format(name=self.path.strip("/") or "page").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            said.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.said = said
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()


def driven(world, agent, operator, url, reason):
    """The operator has the hands in the agent's page; and the agent's call."""
    session = agent.session(url)
    call = agent.ask(session, reason)
    operator.open(world.open_request(session)["metadata"]["name"])
    operator.take_over()
    return operator, call


def test_pickers_files_pastes_and_buttons(world, agents, people, site):
    agent, operator = agents(), people()
    session = agent.session(f"{site.url}/one")
    agent.call("navigate", session_id=session, url=f"{site.url}/two")
    call = agent.ask(session, "Please fill in the form.")
    operator.open(world.open_request(session)["metadata"]["name"])
    operator.take_over()
    page = operator.page
    told = lambda what: eventually(lambda: what in site.said, f"{what!r} at the page, not {site.said}", 15)

    def at(x, y):
        operator.click({"x": x, "y": y}, SIZE)

    at(208, 40)
    asked = page.get_by_role("dialog", name="Asked by the browser")
    day = asked.get_by_label("Day: date")
    expect(day).to_be_focused(timeout=SOON)
    assert operator.axe() == []
    day.fill("2026-12-31")
    asked.get_by_role("button", name="Set").click()
    told("day 2026-12-31")
    expect(asked).to_have_count(0, timeout=SOON)

    at(100, 100)
    asked.get_by_label("Size: choice").select_option("Large")
    page.keyboard.press("Enter")
    told("size Large")
    expect(asked).to_have_count(0, timeout=SOON)

    at(60, 160)
    asked.get_by_label("File for the page").set_input_files({"name": "scan 1.txt", "mimeType": "text/plain", "buffer": b"signed " * 4000})
    asked.get_by_role("button", name="Send").click()
    told("scan 1.txt " + "signed " * 4000)
    expect(asked).to_have_count(0, timeout=SOON)

    at(60, 160)
    asked.get_by_role("button", name="Cancel").click()
    expect(asked).to_have_count(0, timeout=SOON)

    at(40, 220)
    page.evaluate(
        """(text) => { const data = new DataTransfer(); data.setData("text/plain", text);
        document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })); }""",
        "123456",
    )
    told("code 123456")

    page.get_by_role("button", name="Back").click()
    eventually(lambda: site.said.count("one") == 2, "the page before", 15)
    page.get_by_role("button", name="Reload the page").click()
    eventually(lambda: site.said.count("one") == 3, "the same page again", 15)
    assert operator.problems == []
    operator.answer("Resolve", "Filled in.")
    assert call.result(15)["message"] == "Filled in."


def test_the_wheel_turns_and_no_key_stays_down(world, agents, people, site):
    operator, call = driven(world, agents(), people(), f"{site.url}/hands", "Please have a look.")
    page = operator.page
    told = lambda what: eventually(lambda: what in site.said, f"{what!r} at the page, not {site.said}", 15)

    page.mouse.move(*operator.point({"x": 640, "y": 400}, SIZE))
    page.mouse.wheel(0, 240)
    told("wheel 0 1")
    page.mouse.wheel(0, -240)
    told("wheel 0 -1")
    # A key that is down when the person goes elsewhere would stay down for good.
    operator.click({"x": 180, "y": 220}, SIZE)
    page.keyboard.down("Shift")
    told("keydown Shift")
    assert "keyup Shift" not in site.said
    page.evaluate("dispatchEvent(new Event('blur'))")
    told("keyup Shift")
    assert operator.problems == []
    operator.answer("Resolve", "Seen.")
    assert call.result(15)["message"] == "Seen."


def test_what_is_typed_into_a_dialog_of_the_page_stays(world, agents, people, site):
    operator, call = driven(world, agents(), people(), f"{site.url}/dialog", "Please give the page its code.")
    page = operator.page
    controls = []
    page.expose_function("heardControl", lambda: controls.append(time.monotonic()))
    page.evaluate(
        """() => window.__live.sockets.at(-1).addEventListener("message", ({ data }) => {
        if (typeof data === "string" && JSON.parse(data).type === "control") window.heardControl(); })"""
    )

    operator.click({"x": 100, "y": 280}, SIZE)
    asked = page.get_by_role("dialog", name="Dialog of the page")
    field = asked.get_by_label("Answer to the page")
    expect(field).to_be_focused(timeout=SOON)
    expect(field).to_have_value("default")
    field.evaluate("(node) => node.dataset.first = 'yes'")
    field.fill("")
    # Each thing that a hand does is told to all who watch, at most once a second.
    before, spots = len(controls), iter(range(1_000_000))
    for typed in ("7", "72", "729"):
        page.keyboard.type(typed[-1])
        had = len(controls)

        def moved():
            page.mouse.move(*operator.point({"x": 900 + next(spots) % 50, "y": 700}, SIZE))
            return len(controls) > had

        eventually(moved, "what the driver says of who drives", 15)
        expect(field).to_have_value(typed)
    assert len(controls) - before >= 3
    assert field.get_attribute("data-first") == "yes", "the same field all the time"
    asked.get_by_role("button", name="OK").click()
    eventually(lambda: "answer 729" in site.said, f"the answer at the page, not {site.said}", 15)
    expect(asked).to_have_count(0, timeout=SOON)
    assert operator.problems == []
    operator.answer("Resolve", "Given.")
    assert call.result(15)["message"] == "Given."


def test_a_finger_that_was_down_before_is_not_the_pages(world, agents, people, site):
    agent, operator = agents(), people(has_touch=True)
    session = agent.session(f"{site.url}/fingers")
    agent.ask(session, "Please have a look.")
    operator.open(world.open_request(session)["metadata"]["name"])
    operator.see()
    page = operator.page
    glass = operator.context.new_cdp_session(page)

    def touch(kind, *places):
        fingers = [dict(zip("xy", operator.point({"x": x, "y": y}, SIZE)), id=n) for n, x, y in places]
        glass.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})

    # One that was down before these hands took over.
    touch("touchStart", (0, 700, 500))
    page.get_by_role("button", name="Open live & take over").evaluate("(button) => button.click()")
    eventually(lambda: operator.live.get_attribute("data-hands") == "me", "the hands on the page", 15)
    sent = page.evaluate_handle(
        """() => { const sent = [], { send } = WebSocket.prototype;
        WebSocket.prototype.send = function (data) { sent.push(...(JSON.parse(data).events ?? []).filter(({ kind }) => kind === "touch")); send.call(this, data); };
        return sent; }"""
    )
    for x in range(710, 740, 10):
        touch("touchMove", (0, x, 500))
    # Another one beside it is the page's.
    touch("touchStart", (0, 740, 500), (1, 800, 500))
    touch("touchMove", (0, 750, 500), (1, 810, 500))
    touch("touchEnd")
    eventually(lambda: "touchend 0" in site.said, f"a finger at the page, not {site.said}", 15)
    # One that the page was told to have gone, since the person went elsewhere.
    touch("touchStart", (0, 700, 500))
    page.evaluate("dispatchEvent(new Event('blur'))")
    for x in range(710, 740, 10):
        touch("touchMove", (0, x, 500))
    touch("touchEnd")
    touch("touchStart", (0, 700, 550))
    touch("touchEnd")
    eventually(lambda: site.said.count("touchend 0") == 2, f"a tap at the page, not {site.said}", 15)
    told = [(event["phase"], [point["id"] for point in event["points"]]) for event in sent.json_value()]
    assert [phase for phase, _ in told if phase != "move"] == ["start", "end", "start", "start", "end"]
    assert all(points for phase, points in told if phase != "end"), told
    assert page.evaluate("window.__live.refused") == []
    assert operator.problems == []


# How Ctrl+V arrives from keyboards without Latin letters.
LAYOUTS = {"latin": "v", "Russian": "м", "Greek": "ω", "Hebrew": "ה", "Arabic": "ر"}


def test_pastes_from_any_keyboard(world, agents, people, site):
    operator, _ = driven(world, agents(), people(), f"{site.url}/paste", "Please paste.")
    page = operator.page
    operator.context.grant_permissions(["clipboard-read", "clipboard-write"])
    board = operator.context.new_cdp_session(page)

    def press(key, code, number, modifiers):
        for kind in ("rawKeyDown", "keyUp"):
            board.send("Input.dispatchKeyEvent", {"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers})

    operator.click({"x": 40, "y": 220}, SIZE)
    for name, key in LAYOUTS.items():
        page.evaluate("(text) => navigator.clipboard.writeText(text)", f"1 {name}")
        press(key, "KeyV", 86, 2)
        eventually(lambda: f"code 1 {name}" in site.said, f"the text from a {name} keyboard, not {site.said}", 15)
    page.evaluate("(text) => navigator.clipboard.writeText(text)", "1 Insert")
    press("Insert", "Insert", 45, 8)
    eventually(lambda: "code 1 Insert" in site.said, f"the text by Shift+Insert, not {site.said}", 15)
    assert operator.problems == []


def test_who_only_watches_sees_what_is_asked_and_answers_nothing(world, agents, people, site):
    agent, watcher, driver = agents(), people("operator-2"), people()
    session = agent.session(f"{site.url}/one")
    agent.ask(session, "Please fill in the form.")
    name = world.open_request(session)["metadata"]["name"]
    watcher.open(name)
    watcher.see()
    driver.open(name)
    driver.take_over()
    driver.click({"x": 208, "y": 40}, SIZE)
    asked = watcher.page.get_by_role("dialog", name="Asked by the browser")
    expect(asked.get_by_text("Take over to answer it.")).to_be_visible(timeout=SOON)
    for button in asked.get_by_role("button").all():
        expect(button).to_be_disabled()
    expect(watcher.page.get_by_role("group", name=re.compile("Buttons of the agent's browser"))).to_be_hidden()
    driver.page.get_by_role("dialog", name="Asked by the browser").get_by_role("button", name="Cancel").click()
    expect(asked).to_have_count(0, timeout=SOON)
    driver.answer("Resolve", "Done.")
