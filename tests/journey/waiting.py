"""Waiting for what must happen, with a deadline; nothing here sleeps for a fixed time."""

import time

EVERY = 0.05


def eventually(ask, what, seconds=30, every=EVERY):
    """The first true answer of `ask`, asked every so many seconds; fails, naming `what` and the last answer, when there is none in
    time."""
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s; last: {answer!r}")
        time.sleep(every)


def holds(ask, what, seconds):
    """`ask` stays true for this long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert ask(), what
        time.sleep(EVERY)
