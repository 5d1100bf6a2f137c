"""Agents: the official Python MCP client, in a loop of its own, so that a test can act as a person meanwhile."""

import asyncio
import concurrent.futures
import json
import re
import threading
import time

import httpx2 as httpx
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


class Loop:
    """One asyncio loop in a thread, for all agents of a run."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True, name="agents").start()

    def submit(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop)


LOOP = Loop()


class ToolFailed(Exception):
    """A tool answered an error: `code` and `message` of its structured content."""

    def __init__(self, tool, answer):
        self.code = answer.get("code")
        self.message = answer.get("message")
        super().__init__(f"{tool}: {self.code}: {self.message}")


class Call:
    """A call in progress."""

    def __init__(self, tool):
        self.tool = tool
        self.began = time.time()
        self.progress = []
        self.future = None

    async def on_progress(self, done, total, message):
        self.progress.append((time.time(), done, message))

    def result(self, seconds=30):
        """The structured content. An error of the tool is raised."""
        answer = self.future.result(seconds)
        content = answer.structured_content
        if answer.is_error:
            raise ToolFailed(self.tool, content or {"message": str(answer.content)})
        return content

    def error(self, seconds=30):
        """The error of the tool; fails when it succeeded."""
        try:
            answer = self.result(seconds)
        except ToolFailed as failed:
            return failed
        raise AssertionError(f"{self.tool} succeeded: {answer}")

    def lost(self, seconds=60):
        """Waits until the call ended, whatever came of it: its connection was cut."""
        try:
            return self.future.result(seconds).structured_content
        except concurrent.futures.TimeoutError:
            raise
        except BaseException as error:
            return error

    @property
    def done(self):
        return self.future.done()

    def cancel(self):
        self.future.cancel()


class Agent:
    """One MCP client. `mode` is "auto" (the newest protocol) or "legacy" (with a session)."""

    def __init__(self, url, token, mode="auto"):
        self.stop = asyncio.Event()
        self.ready = concurrent.futures.Future()
        self.running = LOOP.submit(self.serve(url, token, mode))
        self.client = self.ready.result(30)

    async def serve(self, url, token, mode):
        try:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
            patient = httpx.Timeout(30, read=None)
            async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=patient, limits=limits) as http:
                async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                    self.ready.set_result(client)
                    await self.stop.wait()
        except BaseException as error:
            if not self.ready.done():
                self.ready.set_exception(error)
            raise

    def close(self):
        LOOP.loop.call_soon_threadsafe(self.stop.set)
        try:
            self.running.result(15)
        except Exception:
            # Its gateway may be gone on purpose.
            pass

    def start(self, tool, *, token=True, **arguments):
        """Calls and returns at once. Without `token` no progress is asked for."""
        call = Call(tool)
        progress = {"progress_callback": call.on_progress} if token else {}
        call.future = LOOP.submit(self.client.call_tool(tool, arguments, **progress))
        return call

    def call(self, tool, seconds=60, **arguments):
        return self.start(tool, **arguments).result(seconds)

    def error(self, tool, seconds=60, **arguments):
        return self.start(tool, **arguments).error(seconds)

    # What most agents do.

    def session(self, url=None, **wanted):
        name = self.call("create_session", **wanted)["session_id"]
        if url:
            self.call("navigate", session_id=name, url=url)
        return name

    def look(self, session):
        """The page as text, as a model reads it."""
        return page_text(self.call("snapshot", session_id=session))

    def reference(self, session, name):
        page = self.look(session)
        found = re.search(rf'"{re.escape(name)}"[^\n]*?\[ref=(e\d+)\]', page)
        assert found, f"no {name!r} on the page:\n{page}"
        return found.group(1)

    def click(self, session, name):
        """Looks and clicks."""
        return self.call("click", session_id=session, ref=self.reference(session, name))

    def ask(self, session, reason, **more):
        wanted = {"mode": "takeover", "max_wait_seconds": 1800, **more}
        return self.start("request_attention", session_id=session, reason=reason, **wanted)


def page_text(page):
    """The text of a snapshot, wherever the structured result keeps it."""
    for key in ("snapshot", "text", "tree"):
        if isinstance(page.get(key), str):
            return page[key]
    return json.dumps(page, ensure_ascii=False)


class RawCall:
    """A `tools/call` whose arguments are sent byte for byte: what no JSON library in between may touch."""

    def __init__(self, url, token, tool, arguments):
        meta = (
            '{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
            '"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},'
            '"io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}'
        )
        body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{meta}}}}}'
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        self.future = LOOP.submit(self.post(url, headers, body.encode()))

    async def post(self, url, headers, body):
        async with httpx.AsyncClient(timeout=httpx.Timeout(30, read=None)) as http:
            async with http.stream("POST", url, headers=headers, content=body) as reply:
                assert reply.status_code == 200, (reply.status_code, await reply.aread())
                if "event-stream" not in reply.headers["content-type"]:
                    return json.loads(await reply.aread())
                async for line in reply.aiter_lines():
                    if line.startswith("data:") and line[5:].strip():
                        message = json.loads(line[5:])
                        if message.get("id") == 1:
                            return message
        raise AssertionError("the stream ended without an answer")

    def result(self, seconds=30):
        message = self.future.result(seconds)
        assert "result" in message, message
        return message["result"]
