"""Caps: 8 open requests of a session and 256 in all, with 32 running browsers."""

import concurrent.futures

import pytest

from waiting import eventually

PER_SESSION = 8
SESSIONS = 32


@pytest.fixture
def crowd(world, agents, shop):
    """32 running, navigated browsers of one agent."""
    agent = agents()
    names = []
    try:
        # A few at a time: the start of a browser is dear, the running is not.
        for start in range(0, SESSIONS, 4):
            calls = [agent.start("create_session", browser="HeadlessShell") for _ in range(4)]
            for call in calls:
                names.append(call.result(180)["session_id"])
            for call in [agent.start("navigate", session_id=name, url=shop.visit().url) for name in names[start:]]:
                call.result(120)
        yield agent, names
    finally:
        for call in [agent.start("close_session", session_id=name) for name in names]:
            call.lost(120)


def test_256_wait_and_each_gets_its_own_answer(world, crowd):
    agent, sessions = crowd
    path = f"/apis/beckon.dev/v1alpha1/namespaces/{world.namespace}/attentionrequests"
    with world.api("operator") as api:
        calls = {}

        def pending():
            items = api.get(path).raise_for_status().json()["items"]
            return [item for item in items if item["spec"]["reason"] in calls and item.get("status", {}).get("phase") == "Pending"]

        # Four sessions at a time, each as soon as those before it wait.
        for start in range(0, SESSIONS, 4):
            for session in sessions[start : start + 4]:
                for number in range(PER_SESSION):
                    reason = f"{session} asks {number}"
                    calls[reason] = agent.ask(session, reason, mode="notify")
            eventually(lambda: len(pending()) == len(calls), f"{len(calls)} open requests", 120)
            if start == 0:
                # There is room for 224 more, but not in a session that has its eight.
                refused = agent.ask(sessions[0], "a ninth", mode="notify").error(60)
                assert (refused.code, f"at most {PER_SESSION} " in refused.message) == ("RATE_LIMITED", True), refused.message
                assert "in one session" in refused.message, refused.message
        assert len(calls) == 256 and not any(call.done for call in calls.values())

        # A 257th, of a session that has none.
        extra = agent.call("create_session", seconds=180, browser="HeadlessShell")["session_id"]
        try:
            refused = agent.ask(extra, "the 257th", mode="notify").error(60)
            assert (refused.code, "at most 256 " in refused.message) == ("RATE_LIMITED", True), refused.message
            assert "in total" in refused.message, refused.message
        finally:
            agent.call("close_session", session_id=extra)

        names = {item["spec"]["reason"]: item["metadata"]["name"] for item in pending()}

        def answer(reason):
            body = {"spec": {"resolution": {"outcome": "Resolved", "message": f"to {reason}"}}}
            headers = {"Content-Type": "application/merge-patch+json"}
            reply = api.patch(f"{path}/{names[reason]}", json=body, headers=headers)
            assert reply.status_code == 200, reply.text

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(answer, calls))
    for reason, call in calls.items():
        got = call.result(120)
        assert (got["status"], got["message"], got["request_id"]) == ("resolved", f"to {reason}", names[reason])
