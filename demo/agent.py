#!/usr/bin/env python3
"""Plays an agent that meets a puzzle it must not solve, asks for a person, waits, and goes on in the same page.

    python3 -m venv target/demo
    target/demo/bin/pip install -r demo/requirements.txt
    target/demo/bin/python demo/agent.py

The gateway, the token and the shop are read from target/up/up.json, which `cargo xtask up` writes (--dir names the directory of
another `up`); --url, --token and --shop name others. Any model would do what this script does: the tools' own texts say when to ask.
"""

import argparse
import asyncio
import json
import os
import pathlib
import re
import sys

try:
    import httpx2 as httpx
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
except ModuleNotFoundError as missing:
    sys.exit(
        f"This Python has no {missing.name}. Make one that has what the demo needs, and run that:\n"
        "    python3 -m venv target/demo && target/demo/bin/pip install -q -r demo/requirements.txt\n"
        "    target/demo/bin/python demo/agent.py"
    )

UP = pathlib.Path(__file__).resolve().parent.parent / "target" / "up"


def arguments():
    parser = argparse.ArgumentParser(description="An agent that needs a person.")
    parser.add_argument("--url", help="the MCP address of the gateway")
    parser.add_argument("--token", help="the agent's token; better in BECKON_TOKEN")
    parser.add_argument("--shop", help="the address of the demo shop")
    parser.add_argument("--dir", type=pathlib.Path, default=UP, help="the --dir of `cargo xtask up`")
    given = parser.parse_args()
    file = given.dir / "up.json"
    up = json.loads(file.read_text()) if file.exists() else {}
    given.url = given.url or os.environ.get("BECKON_URL") or up.get("mcpURL")
    given.token = given.token or os.environ.get("BECKON_TOKEN") or up.get("agentToken")
    given.shop = given.shop or up.get("demoURL")
    for name in ("url", "token", "shop"):
        if not getattr(given, name):
            parser.error(f"--{name} is needed when no `cargo xtask up` is running in {given.dir}")
    return given


def say(text):
    print(text, flush=True)


class Stop(Exception):
    """The agent can't go on; the text is for the person who watches."""


class Agent:
    """A thin hand over the tools: each answers its structured result, or says why not."""

    def __init__(self, client):
        self.client = client

    async def call(self, tool, **wanted):
        result = await self.client.call_tool(tool, wanted, progress_callback=self.progress)
        answer = result.structured_content or {}
        if result.is_error:
            raise Stop(f"{tool} failed: {answer.get('code')}: {answer.get('message')}")
        return answer

    async def progress(self, done, total, message):
        say(f"   … still waiting{': ' + message if message else ''}")

    async def click(self, session, name):
        """Looks at the page, as a model would, and clicks the button of that name."""
        page = await self.call("snapshot", session_id=session)
        found = re.search(rf'"{re.escape(name)}"[^\n]*?\[ref=(e\d+)\]', page_text(page))
        if not found:
            raise Stop(f"the page has no button {name!r}, so what I asked for was not done")
        await self.call("click", session_id=session, ref=found.group(1))


def page_text(page):
    return page.get("snapshot") or json.dumps(page, ensure_ascii=False)


async def story(agent, shop):
    session = (await agent.call("create_session"))["session_id"]
    say(f"1. I have a browser: {session}")
    try:
        await shopping(agent, session, shop)
    finally:
        # Nobody needs it any more; it may be closed already.
        await agent.client.call_tool("close_session", {"session_id": session})


async def shopping(agent, session, shop):
    await agent.call("navigate", session_id=session, url=shop)
    await agent.click(session, "Add Lighthouse to cart")
    await agent.click(session, "Go to checkout")
    say("2. My cart is full, but the shop asks whether I am a person. I am not, so I ask for one.")
    say("   Answer on the dashboard, or with: kubectl attention list, then kubectl attention open NAME")
    answer = await agent.call(
        "request_attention",
        session_id=session,
        reason="The shop shows a puzzle and then asks for a code from your phone. Please do both, stop at the Pay button and resolve.",
        mode="takeover",
        options={"phone": shop.rsplit("/", 1)[0] + "/phone.html"},
        max_wait_seconds=1800,
    )
    while answer["status"] == "pending":
        answer = await agent.call("get_attention_result", request_id=answer["request_id"])
    by = f" by {answer['resolved_by']}" if "resolved_by" in answer else ""
    message = f", who says: {answer['message']}" if "message" in answer else ""
    say(f"3. My request {answer['request_id']} was {answer['status']}{by}{message}")
    if answer["status"] != "resolved":
        raise Stop(f"my request was {answer['status']}")
    await agent.click(session, "Pay")
    page = page_text(await agent.call("snapshot", session_id=session))
    order = re.search(r"HT-[A-Z0-9]+-\d+", page)
    if not order:
        raise Stop("I clicked Pay, but the page shows no order number")
    say(f"4. I paid in the same page that I left. The order number is {order.group(0)}")


async def main():
    given = arguments()
    # A person takes their time: nothing here may give up before the gateway does.
    patient = httpx.Timeout(30, read=None)
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {given.token}"}, timeout=patient) as http:
        async with Client(streamable_http_client(given.url, http_client=http)) as client:
            # Caught in here: what leaves these two arrives in a group, with a traceback of every task between.
            try:
                await story(Agent(client), given.shop)
            except Stop as why:
                return f"I stop here: {why}."
    return None


def leaves(error):
    """The errors in a group of groups."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]


if __name__ == "__main__":
    try:
        # A text is said on standard error, with exit code 1.
        sys.exit(asyncio.run(main()))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as failed:
        sys.exit(f"The gateway can't be used: {'; '.join(str(leaf) or type(leaf).__name__ for leaf in leaves(failed))}.")
