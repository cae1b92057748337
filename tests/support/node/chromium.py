"""A headless Chromium, controlled through its debugging pipe, and axe-core to check its pages."""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from paths import ROOT

CHROMIUM: Final = Path("/usr/bin/chromium")
#: What ``contrib/setup thorough`` installs.
AXE: Final = ROOT / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"

#: It reads commands from descriptor 3 and writes answers to descriptor 4; root has no sandbox.
_COMMAND: Final = (
    'exec "$0" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage '
    '--hide-scrollbars --user-data-dir="$1" --remote-debugging-pipe 3<&"$2" 4>&"$3" about:blank'
)


class Browser:
    """One page in a browser of its own."""

    def __init__(self, commands: int, answers: int) -> None:
        """Descriptors to write commands to, and to read answers and events from."""
        self._commands, self._answers = commands, answers
        self._numbers, self._rest, self._session = itertools.count(1), b"", ""
        self._events = list[dict[str, Any]]()
        found = self.call("Target.createTarget", url="about:blank")
        attached = self.call("Target.attachToTarget", targetId=found["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol; its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._answers, 2**20)
            assert part, "the browser has ended"
            self._rest += part
        raw, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        return message

    def size(self, width: int, height: int) -> None:
        """The window in pixels; a narrow one is a telephone."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def open(self, address: str) -> None:
        """Load a page, to its end; works without JavaScript."""
        self._events.clear()
        self.call("Page.navigate", url=address)
        while not self._loaded(address):
            self._events.append(self._next())

    def _loaded(self, address: str) -> bool:
        """Whether this page has come, and its end after it."""
        methods = [
            "here" if one.get("params", {}).get("frame", {}).get("url") == address else method
            for one in self._events
            for method in [one.get("method", "")]
        ]
        return "here" in methods and "Page.loadEventFired" in methods[methods.index("here") :]

    def run(self, script: str) -> Any:
        """The value of an expression, or of its promise."""
        done = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true."""
        look = f"({script}) ? done() : setTimeout(look, 20)"
        self.run(f"new Promise(done => {{ (function look() {{ {look} }})() }})")

    def press(self, key: str, code: int) -> None:
        """Press and release a key; ``code``: its Windows virtual key code."""
        text = {"text": "\r"} if key == "Enter" else {"text": " "} if key == " " else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                **(text if kind == "keyDown" else {}),
            )

    def faults(self) -> list[str]:
        """What axe finds, of any impact; the page's own policy does not count for axe."""
        self.run(f"{AXE.read_text()};0")
        found = self.run("axe.run().then(found => found.violations)")
        return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html']}" for one in found]

    def picture(self) -> bytes:
        """A PNG of the whole page."""
        done = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(done["data"])


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile in this folder."""
    their_commands, commands = os.pipe()
    answers, their_answers = os.pipe()
    arguments = (str(CHROMIUM), str(profile), str(their_commands), str(their_answers))
    process = subprocess.Popen(
        ["/bin/bash", "-c", _COMMAND, *arguments],
        pass_fds=(their_commands, their_answers),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(their_commands)
    os.close(their_answers)
    try:
        yield Browser(commands, answers)
    finally:
        os.close(commands)
        process.terminate()
        process.wait(60)
        os.close(answers)
