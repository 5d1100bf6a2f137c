"""Every way in which a request ends, with its status and message."""

import contextlib
import signal

import pytest

import messages
from waiting import eventually


def waiting(world, agent, shop, **more):
    """A session whose agent waits: session, call, name of the request."""
    session = agent.session(shop.visit().url)
    call = agent.ask(session, "Please look.", **more)
    return session, call, world.open_request(session)["metadata"]["name"]


def said(answer):
    """An outcome that no person made: the rest is the time and the name."""
    assert set(answer) == {"status", "message", "resolved_at", "request_id"}, answer
    return answer["status"], answer["message"]


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_timeout(world, agents, shop, era):
    agent = agents(mode=era)
    session = agent.session(shop.visit().url)
    call = agent.ask(session, "Please look.", max_wait_seconds=3)
    name = world.open_request(session)["metadata"]["name"]
    answer = call.result(15)
    assert said(answer) == ("timeout", messages.TIMEOUT) and answer["request_id"] == name
    item = world.get("attn", name)
    assert (item["status"]["phase"], item["status"].get("resolvedBy")) == ("Timeout", None)
    # Too late is told as such.
    late = world.run("operator", "attention", "resolve", name, "-n", world.namespace)
    assert late.returncode == 5 and "Timeout" in late.stderr


def test_cancel_attention(world, agents, shop):
    agent = agents()
    _, call, name = waiting(world, agent, shop)
    # A request on which another call waits is not cancelled by a second hand; this one has but its own.
    agent.start("cancel_attention", request_id=name)
    answer = call.result(10)
    assert said(answer) == ("cancelled", messages.CANCELLED)
    assert said(agent.call("get_attention_result", request_id=name)) == ("cancelled", messages.CANCELLED)


def test_the_client_cancels_its_call(world, agents, shop):
    agent = agents(mode="legacy")
    _, call, name = waiting(world, agent, shop)
    call.cancel()
    assert world.settled(name, 10)["status"]["phase"] == "Cancelled"
    assert said(agent.call("get_attention_result", request_id=name)) == ("cancelled", messages.CANCELLED)


def test_the_client_goes_and_does_not_come_back(world, agents, shop):
    agent = agents()
    _, _, name = waiting(world, agent, shop)
    agent.close()
    assert world.settled(name, 40)["status"]["phase"] == "Cancelled"
    assert said(agents().call("get_attention_result", request_id=name)) == ("cancelled", messages.GONE)


def test_the_client_goes_and_comes_back(world, agents, shop):
    agent, other = agents(), agents()
    _, _, name = waiting(world, agent, shop)
    agent.close()
    call = other.start("get_attention_result", request_id=name)
    eventually(lambda: call.progress, "waiting again", 10)
    world.patch("operator", "attn", name, {"spec": {"resolution": {"outcome": "Resolved", "message": "still here"}}})
    assert call.result(10)["message"] == "still here"


def test_a_retry_is_the_same_request(world, agents, shop):
    agent = agents()
    session, call, name = waiting(world, agent, shop)
    again = agent.ask(session, "Please look.")
    eventually(lambda: again.progress, "waiting too", 10)
    assert len(world.requests(session)) == 1
    world.patch("operator", "attn", name, {"spec": {"resolution": {"outcome": "Resolved", "message": "once"}}})
    assert call.result(10) == again.result(10)


def test_the_agent_closes_its_session(world, agents, shop):
    agent = agents()
    session, call, _ = waiting(world, agent, shop)
    agent.call("close_session", session_id=session)
    assert said(call.result(20)) == ("rejected", messages.CLOSED)


def test_an_operator_closes_the_session(world, agents, shop):
    agent = agents()
    session, call, _ = waiting(world, agent, shop)
    world.patch("operator", "bsess", session, {"spec": {"close": {"reason": "maintenance"}}})
    assert said(call.result(20)) == ("rejected", messages.CLOSED_BY_OPERATOR)


def test_chromium_is_killed(world, agents, shop):
    agent = agents()
    session, call, _ = waiting(world, agent, shop)
    chromium = world.children(world.browser_pid(session))
    assert chromium, "no Chromium below the browser process"
    for pid in chromium:
        with contextlib.suppress(ProcessLookupError):
            world.signal(pid, signal.SIGKILL)
    status, message = said(call.result(20))
    assert status == "rejected" and message.startswith(messages.CRASHED), message
    assert agent.error("snapshot", session_id=session).code in ("SESSION_NOT_FOUND", "SESSION_CLOSED", "SESSION_CRASHED", "BROWSER_GONE")


def test_the_object_is_deleted(world, agents, shop):
    agent = agents()
    _, call, name = waiting(world, agent, shop)
    world.kubectl("admin", "delete", "attn", name, "-n", world.namespace, "--wait=false")
    answer = call.result(20)
    assert (answer["status"], answer["message"]) == ("rejected", "The attention request was deleted.")


def test_an_unknown_id_and_another_agents(world, agents, shop):
    agent, stranger = agents(), agents("agent-2")
    session, call, name = waiting(world, agent, shop)
    for who, request in ((stranger, name), (agent, "a-" + "z" * 26), (agent, "no such id!")):
        answer = who.call("get_attention_result", request_id=request)
        assert answer == {"status": "rejected", "message": messages.UNKNOWN, "request_id": request}
    assert stranger.error("snapshot", session_id=session).code == "SESSION_NOT_FOUND"
    assert not call.done
    # Nor can it be withdrawn by a stranger.
    answer = stranger.call("cancel_attention", request_id=name)
    assert answer == {"status": "rejected", "message": messages.UNKNOWN, "request_id": name}
    assert world.get("attn", name)["status"]["phase"] == "Pending"


def test_bad_input_names_the_field_and_changes_nothing(world, agents, shop):
    agent = agents()
    session = agent.session(shop.visit().url)
    for wrong, field in (
        ({"reason": ""}, "reason"),
        ({"reason": "x" * 2001}, "reason"),
        ({"mode": "drive"}, "mode"),
        ({"max_wait_seconds": -1}, "max_wait_seconds"),
        ({"options": {"text": "x" * 33_000}}, "options"),
        ({"session_id": "no-such-session"}, "session_id"),
    ):
        wanted = {"session_id": session, "reason": "Please look.", **wrong}
        try:
            answer = agent.call("request_attention", **wanted)
        except Exception as refused:
            assert field in str(refused), (wrong.keys(), str(refused))
        else:
            raise AssertionError(f"{wrong.keys()} was taken: {answer}")
    assert world.requests(session) == []


def test_a_caller_without_progress_is_told_to_ask_again(agents, world, shop):
    """The bounded answer comes before the 60 s at which many clients give up."""
    agent = agents()
    session = agent.session(shop.visit().url)
    call = agent.start("request_attention", token=False, session_id=session, reason="Please look.", max_wait_seconds=600)
    name = world.open_request(session)["metadata"]["name"]
    answer = call.result(58)
    assert (answer["status"], answer["request_id"]) == ("pending", name) and "get_attention_result" in answer["message"]
    assert call.progress == []
    # Nobody waits now, and the request outlives the grace: the client has said that it polls.
    again = agent.start("get_attention_result", request_id=name)
    eventually(lambda: again.progress, "waiting again", 10)
    world.patch("operator", "attn", name, {"spec": {"resolution": {"outcome": "Resolved"}}})
    assert again.result(10)["status"] == "resolved"
