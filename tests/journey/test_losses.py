"""Losing processes: two gateways and two controllers, and what becomes of a call that waits."""

import os
import signal

import pytest

import messages
from test_outcomes import said
from waiting import eventually, holds


@pytest.fixture(autouse=True)
def whole(world):
    """Each test begins and ends with everything running."""
    world.wait_ready()
    yield
    for role in ("gateway", "controller"):
        for pid in world.up["processes"][role]:
            if world.state(pid) == "T":
                os.kill(pid, signal.SIGCONT)
    world.wait_ready()


def held_by_first(world, agents, shop):
    """An agent that waits at gateway 0, in its client's first call, so that the list of tools is not known there yet: call, name,
    pid of the gateway."""
    up = world.up
    session = agents(url=up["mcpURLs"][0]).session(shop.visit().url)
    call = agents(url=up["mcpURLs"][0]).ask(session, "Please look.")
    name = world.open_request(session)["metadata"]["name"]
    eventually(lambda: world.get("attn", name)["status"].get("attachments"), "the attachment", 10)
    return call, name, up["processes"]["gateway"][0]


def told_to_ask_again(call, name):
    """The last words of a gateway that was told to stop."""
    answer = call.result(30)
    assert (answer["status"], answer["request_id"]) == ("pending", name), answer
    assert answer["message"].startswith("This server instance is stopping; the attention request is still open."), answer


def resolve(world, name, message):
    world.patch("operator", "attn", name, {"spec": {"resolution": {"outcome": "Resolved", "message": message}}})


def test_a_killed_gateways_answer_comes_through_the_other(world, agents, shop):
    call, name, pid = held_by_first(world, agents, shop)
    # Who comes back is ready to: the grace is for the call alone.
    other = agents(url=world.up["mcpURLs"][1])
    world.signal(pid, signal.SIGKILL)
    call.lost()
    again = other.start("get_attention_result", request_id=name)
    eventually(lambda: again.progress, "waiting at the other gateway", 10)
    # Longer than the lost one's Lease and the grace: the request is held by the other now.
    holds(lambda: not again.done, "settled although it was held", 22)
    resolve(world, name, "through the other")
    answer = again.result(10)
    assert (answer["status"], answer["message"], answer["resolved_by"]) == ("resolved", "through the other", "operator")


def test_an_answer_while_nobody_waits_is_not_lost(world, agents, shop):
    call, name, pid = held_by_first(world, agents, shop)
    world.signal(pid, signal.SIGKILL)
    resolve(world, name, "meanwhile")
    call.lost()
    answer = agents(url=world.up["mcpURLs"][1]).call("get_attention_result", request_id=name)
    assert (answer["status"], answer["message"]) == ("resolved", "meanwhile")


def test_a_killed_gateway_and_nobody_comes_back(world, agents, shop):
    call, name, pid = held_by_first(world, agents, shop)
    world.signal(pid, signal.SIGKILL)
    call.lost()
    assert world.settled(name, 60)["status"]["phase"] == "Rejected"
    assert said(agents(url=world.up["mcpURLs"][1]).call("get_attention_result", request_id=name)) == ("rejected", messages.RESTARTED)


def test_a_stopped_gateway_hands_its_calls_on(world, agents, shop):
    call, name, pid = held_by_first(world, agents, shop)
    other = agents(url=world.up["mcpURLs"][1])
    world.signal(pid, signal.SIGTERM)
    told_to_ask_again(call, name)
    again = other.start("get_attention_result", request_id=name)
    eventually(lambda: again.progress, "waiting at the other gateway", 10)
    resolve(world, name, "after the stop")
    assert again.result(10)["message"] == "after the stop"


def test_a_stopped_gateway_and_nobody_comes_back(world, agents, shop):
    call, name, pid = held_by_first(world, agents, shop)
    world.signal(pid, signal.SIGTERM)
    told_to_ask_again(call, name)
    assert world.settled(name, 60)["status"]["phase"] == "Rejected"
    assert said(agents(url=world.up["mcpURLs"][1]).call("get_attention_result", request_id=name)) == ("rejected", messages.SHUT_DOWN)


def test_a_frozen_gateway_loses_nothing(world, agents, shop):
    """SIGSTOP: no answer, no end of the connection, no Lease."""
    call, name, pid = held_by_first(world, agents, shop)
    other = agents(url=world.up["mcpURLs"][1])
    os.kill(pid, signal.SIGSTOP)
    again = other.start("get_attention_result", request_id=name)
    eventually(lambda: again.progress, "waiting at the other gateway", 10)
    holds(lambda: not again.done, "settled although it was held", 22)
    resolve(world, name, "from the living")
    answer = again.result(10)
    assert answer["message"] == "from the living"
    os.kill(pid, signal.SIGCONT)
    # Awake again, it tells the same or has given its calls up.
    late = call.lost(60)
    assert late == answer or not (isinstance(late, dict) and "status" in late), late


def test_a_frozen_gateway_and_nobody_comes_back(world, agents, shop):
    _, name, pid = held_by_first(world, agents, shop)
    os.kill(pid, signal.SIGSTOP)
    assert world.settled(name, 60)["status"]["phase"] == "Rejected"
    assert said(agents(url=world.up["mcpURLs"][1]).call("get_attention_result", request_id=name)) == ("rejected", messages.RESTARTED)


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_a_lost_controller_leaves_the_deadline_to_the_other(world, agents, shop, how):
    agent = agents()
    session = agent.session(shop.visit().url)
    call = agent.ask(session, "Please look.", max_wait_seconds=20)
    name = world.open_request(session)["metadata"]["name"]
    leader = leading(world)
    os.kill(leader, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
    assert said(call.result(60)) == ("timeout", messages.TIMEOUT)
    assert world.get("attn", name)["status"]["waitedSeconds"] >= 20


def test_an_answer_needs_no_controller(world, agents, shop):
    agent = agents()
    session = agent.session(shop.visit().url)
    call = agent.ask(session, "Please look.")
    name = world.open_request(session)["metadata"]["name"]
    for pid in world.up["processes"]["controller"]:
        os.kill(pid, signal.SIGSTOP)
    resolve(world, name, "nobody else is there")
    answer = call.result(10)
    assert (answer["status"], answer["message"]) == ("resolved", "nobody else is there")
    for pid in world.up["processes"]["controller"]:
        os.kill(pid, signal.SIGCONT)
    assert world.settled(name, 60)["status"]["phase"] == "Resolved"
    assert agent.call("get_attention_result", request_id=name) == answer


def leading(world):
    """The pid of the leading controller: its Lease's holder names it, else its metrics do."""
    import re
    import urllib.request

    up = world.up
    for pid in up["processes"]["controller"]:
        for url in up["metricsURLs"]:
            try:
                text = urllib.request.urlopen(url, timeout=5).read().decode()
            except OSError:
                continue
            if re.search(r"^beckon_(controller_)?leader\S* 1", text, re.M) and listens(pid, int(url.split(":")[2].split("/")[0])):
                return pid
    raise AssertionError("no controller says that it leads")


def listens(pid, port):
    """Whether the process listens on the port, by /proc."""
    inodes = set()
    for line in open(f"/proc/{pid}/net/tcp").readlines()[1:]:
        words = line.split()
        if words[3] == "0A" and int(words[1].split(":")[1], 16) == port:
            inodes.add(f"socket:[{words[9]}]")
    return any(os.readlink(f"/proc/{pid}/fd/{fd}") in inodes for fd in os.listdir(f"/proc/{pid}/fd"))
