"""Many stand-ins for node agents in one thread, each at a loopback address of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from repair_requests import KEY

from ganeti_steward.core.ganeti.signing import sign

#: What an agent sends for a request with this salt; None: nothing, ever.
Behaviour = Callable[[str], bytes | None]


def reports(content: object, key: bytes = KEY, salt: str = "") -> Behaviour:
    """Signs something, with the requested salt unless another is given."""
    return lambda requested: sign(key, json.dumps(content), salt or requested)


def sends(raw: bytes | None) -> Behaviour:
    """Sends the same bytes for each request."""
    return lambda _: raw


class FakeAgents:
    """The agents by their addresses; behaviours may be changed at any time."""

    def __init__(self, behaviours: Mapping[str, Behaviour]) -> None:
        self.behaviours = dict(behaviours)
        self.port = 0

    async def listen(self) -> list[asyncio.Server]:
        """One server for each address, all at the same port."""
        servers = []
        for address in self.behaviours:
            server = await asyncio.start_server(self._answer, address, self.port, backlog=10)
            self.port = server.sockets[0].getsockname()[1]
            servers.append(server)
        return servers

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")[0]
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            salt = head.split(b" ")[1].partition(b"salt=")[2].decode()
            body = self.behaviours[address](salt)
            if body is None:
                await reader.read()
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@contextmanager
def fake_agents(behaviours: Mapping[str, Behaviour]) -> Iterator[FakeAgents]:
    """Agents at these addresses, ended with the test."""
    agents, ready, over = FakeAgents(behaviours), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        servers = await agents.listen()
        ready.set()
        await over.wait()
        for server in servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(300)
        yield agents
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


def diagnose_report(node: str, timestamp: int, **data: Any) -> dict[str, Any]:
    """What an agent reports about its node; ``timestamp``: ns since the epoch."""
    content = {"status": "Ok"} | data
    return {
        "purpose": "report",
        "node": node,
        "timestamp": timestamp,
        "data": content,
        "unknown": [],
    }
