"""Bytes of a plugin's choice on the connection of its process: never more than a clear failure.

The plugin writes them in the place of its process, or that process is one of the test's.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import worlds
from hypothesis import given
from hypothesis import strategies as st
from rogue import plugin
from thorough import often

from ganeti_steward.allocators.advice.proposals import PlaceObstacle, Proposals
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.child import BadMessageError, Received
from ganeti_steward.core.hooks.isolation import Isolated
from ganeti_steward.core.iallocator.members import _Served
from ganeti_steward.core.model.command import Command
from ganeti_steward.core.model.explanation import Explained
from ganeti_steward.core.process.supervisor import Limits, Supervisor
from ganeti_steward.plugins.filters.actions import calling
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.maintenance.repairs import planner
from ganeti_steward.plugins.model.filter_action import Facts, Hold

if TYPE_CHECKING:
    from sites import Capture, Site

#: Changes a class, where the reader builds what the bytes name.
CHANGES: Final = (
    b"\x80\x04cganeti_steward.plugins.model.filter_action\nHold\n"
    b"N}X\x07\x00\x00\x00changed\x88s\x86b."
)


class _Makes:
    """Pickled, it makes a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def message(kind: str, **members: Any) -> bytes:
    return json.dumps({"kind": kind, **members}).encode()


def done(value: Any) -> bytes:
    return message("done", value=value)


def failed(**members: Any) -> bytes:
    whole = {"plugin": "rogue", "fault": "x", "faults": [], "traceback": "", "last": False}
    return message("failed", **{**whole, **members})


BROKEN: Final = {
    "empty": framed(b""),
    "no text": framed(b"\xff\xfe\x00"),
    "UTF-16": framed('{"kind":"end"}'.encode("utf-16")),
    "cut off": framed(b'{"kind":"end"'),
    "two values": framed(b'{"kind":"end"}{"kind":"end"}'),
    "no number": framed(b'{"kind":"done","value":NaN}'),
    "lone surrogate": framed(b'{"kind":"done","value":"\\ud800"}'),
    "deep": framed(b"[" * 200_000),
    "deep and closed": framed(b'{"kind":"done","value":' + b"[" * 600 + b"]" * 600 + b"}"),
    "deep objects": framed(b'{"a":' * 100_000),
    "pickled class": framed(pickle.dumps(Hold("x"))),
    "pickled message": framed(pickle.dumps(("Done", 5))),
    "pickled calls": framed(pickle.dumps(("Begin", "x", 1e300)), pickle.dumps(("Done", None))),
    "opcodes that change a class": framed(CHANGES),
    "opcodes without end": framed(b"\x80\x04" + b"(" * 100_000),
    "a list": framed(b'["done", null]'),
    "no kind": framed(b"{}"),
    "name of a class": framed(message("Hold", reason="x")),
    "name of a module": framed(message("os.system", value="true")),
    "kind is a list": framed(b'{"kind":["done"],"value":null}'),
    "more members": framed(message("end", more=1)),
    "less members": framed(message("done")),
    "names of attributes": framed(message("done", value=None, __class__="x")),
    "limit without end": framed(message("begin", plugin="x", limit="inf")),
    "limit that is none": framed(message("begin", plugin="x", limit="nan")),
    "limit too long": framed(message("begin", plugin="x", limit=1e9)),
    "limit of many digits": framed(message("begin", plugin="x", limit=10**400)),
    "limit below zero": framed(message("begin", plugin="x", limit=-1)),
    "limit is true": framed(message("begin", plugin="x", limit=True)),
    "plugin is null": framed(message("begin", plugin=None, limit=1)),
    "calls without end": framed(message("begin", plugin="rogue", limit=1)) * 200,
    "fault is a list": framed(failed(fault=["x"])),
    "faults are a text": framed(failed(faults="abc")),
    "last is a text": framed(failed(last="no")),
    "length": b"\xff\xff\xff\xff",
    "length beyond the limit": (2**28 + 1).to_bytes(4, "big"),
}

EVERY_BROKEN: Final = pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN)

#: Writes to every pipe of its process, and exits.
WRITES: Final = """
    import fcntl
    raw = open({path!r}, "rb").read()
    for name in os.listdir("/proc/self/fd"):
        try:
            if fcntl.fcntl(int(name), fcntl.F_GETFL) & os.O_WRONLY and int(name) > 2:
                os.write(int(name), raw)
        except OSError:
            pass
    os._exit(0)
    """


def written(site: Site, capture: Capture, raw: bytes) -> str:
    """The answer's info behind the name of the plugin that has written this."""
    path = site.path / "raw"
    path.write_bytes(raw)
    plugin(site, "steward_constrain", WRITES.format(path=str(path)))
    site.configure("rogue", limit=20)
    answer = site.run(capture("allocate-drbd"))
    assert (answer["success"], answer["result"]) == (False, [])
    info: str = answer["info"]
    return info.removeprefix("Request failed: plugin ")


#: Usually some of them: all are tried without the program.
SOME: Final = dict(list(BROKEN.items())[:: often(5, 1)]) | {
    name: BROKEN[name] for name in ("pickled message", "deep", "limit too long")
}


@pytest.mark.parametrize("raw", SOME.values(), ids=SOME)
def test_the_answer_of_the_program(site: Site, capture: Capture, raw: bytes) -> None:
    assert written(site, capture, raw).startswith("rogue: broke its connection: ")


@pytest.mark.parametrize(
    ("value", "info"),
    [
        (5, "rogue: broke its connection: an object is expected, found the number 5"),
        ({"info": "x"}, "rogue: broke its connection: key 'refused' is missing"),
        ({"refused": 0, "info": "x"}, "rogue: broke its connection: key 'refused': true or false"),
        (
            {"refused": False, "info": "x", "result": ["node9.lab", "node1.lab"]},
            "balanced: gave ['node9.lab', 'node1.lab'], which is not an answer to this request",
        ),
        ({"refused": False, "info": "x"}, "balanced: gave None, which is not an answer to this"),
    ],
)
def test_outcomes_in_the_name_of_the_child(
    site: Site, capture: Capture, value: Any, info: str
) -> None:
    assert written(site, capture, framed(done(value))).startswith(info)


# -- each question there is, and a process that answers it with any bytes


def _of(kind: Any) -> Callable[[Isolated], object]:
    """What a command requests of plugins, with a result of this type."""

    def ask(child: Isolated) -> object:
        return child.ask(_Served.explanations, kind=kind)

    return ask


WORLD: Final = worlds.world([worlds.node("n1")], [])


def _facts() -> tuple[Any, ...]:
    return "ROGUE", "", Job(1), Facts(0)


QUESTIONS: Final[dict[str, Callable[[Isolated], object]]] = {
    "load": lambda child: child.ask(_Served.load),
    "outcome": lambda child: child.ask(_Served.outcome, "balanced", 5.0),
    "annotating": lambda child: child.ask(_Served.annotating),
    "explanations": _of(tuple[Explained, ...]),
    "action": lambda child: child.ask(calling._Called.verdict, *_facts()),
    "plans": lambda child: child.ask(planner._Called.plans, worlds.incident("n1"), WORLD),
    "routine": lambda child: child.ask(planner._Called.routine, "rogue", WORLD),
    "commands": _of(list[Command]),
    "flag": _of(bool),
    "text": _of(str),
    "nothing": _of(None),
    "proposals": _of(Proposals | None),
    "obstacles": _of(list[PlaceObstacle] | None),
}

WRONG: Final = {
    "number": done(5),
    "null in a list": done([None]),
    "object in a list": done([{}]),
    "kind in a list": done([{"kind": "os.system"}]),
    "list in a list": done([["rogue"], {"kind": "hold"}]),
    "unknown members": done({"kind": "hold", "more": 1, "found": [], "tried": 0}),
    "pair of a number": done([5, {"kind": "hold", "reason": "x"}]),
}


class Answering:
    """A process with these bytes for its parent."""

    def __init__(self, path: Path, raw: bytes) -> None:
        self._path = path / "raw"
        self._path.write_bytes(raw)

    def __call__(self, serve: object, questions: int, answers: int) -> Supervisor:
        """As `ganeti_steward.core.hooks.child.Start`."""
        return Supervisor(lambda _: None, Limits(), (questions, answers), self._start)

    def _start(self, _: object, limits: object, writing: int, descriptors: Sequence[int]) -> int:
        process = subprocess.Popen(
            ["sh", "-c", f"cat {self._path} > /proc/self/fd/{descriptors[1]}; exec sleep 3600"],
            pass_fds=(writing, *descriptors),
            start_new_session=True,
            cwd="/",
        )
        process.returncode = 0
        return process.pid


def fault(tmp_path: Path, raw: bytes, ask: Callable[[Isolated], object]) -> str:
    answering = Answering(tmp_path, raw)
    with Isolated(object, ("rogue",), answering) as child, pytest.raises(PluginError) as caught:
        ask(child)
    return str(caught.value)


@EVERY_BROKEN
def test_every_message(tmp_path: Path, raw: bytes) -> None:
    assert fault(tmp_path, raw, QUESTIONS["action"]).startswith(
        "plugin rogue: broke its connection: "
    )


@pytest.mark.parametrize("raw", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_every_question(tmp_path: Path, ask: Callable[[Isolated], object], raw: bytes) -> None:
    text = fault(tmp_path, framed(raw), ask)
    assert text.startswith("plugin rogue: broke its connection: ")


@pytest.mark.parametrize("raw", [CHANGES, pickle.dumps(("Done", Hold("x")))])
def test_no_class_is_changed_or_made(raw: bytes) -> None:
    received = Received()
    received.add(framed(raw))
    with pytest.raises(BadMessageError):
        received.next()
    assert not hasattr(Hold, "changed")


def test_nothing_is_called(tmp_path: Path) -> None:
    made = tmp_path / "made"
    fault(tmp_path, framed(pickle.dumps(_Makes(made))), QUESTIONS["flag"])
    assert not made.exists()


MESSAGES: Final = [raw[4:] for raw in BROKEN.values()] + [*WRONG.values(), failed()]


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """A message with some bytes replaced, taken out or put in."""
    raw = bytearray(draw(st.sampled_from(MESSAGES))[:2000])
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(raw)))
        raw[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(raw)


@given(st.binary(max_size=50) | changed().map(framed))
def test_any_bytes(raw: bytes) -> None:
    received = Received()
    received.add(raw)
    with suppress(BadMessageError):
        while received.next() is not None:
            pass
