"""Reads and writes scenario files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Final, NamedTuple

from fault_world.faults import Fault
from fault_world.plugins import PLUGIN_FAULTS
from fault_world.scenarios.events import EVENTS, HELD, NODE, EventKind
from ganeti_steward.core.config.parse import read_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import BadConfig
from ganeti_steward.core.model.finding import STATUSES

#: The line before the narrative.
EXPECT: Final = "expect:"
#: Words in files -> disk templates.
TEMPLATES: Final[Mapping[str, str]] = {
    "drbd": "drbd",
    "plain": "plain",
    "shared": "sharedfile",
    "diskless": "diskless",
}
#: Seconds that an event lasts without ``for``: longer than any scenario.
_ALWAYS: Final = 10.0**7
_UNTIL: Final = 3600.0
_LONGEST: Final = 10.0**6
#: Event -> the words that its detail may be.
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "falls-ill": (*STATUSES, "changing"),
    "reports": tuple(STATUSES),
    "wrong-reports": ("lost", "old", "forged"),
    "commands-end": ("succeed", "fail", "hang", "refuse"),
    "jobs-held": HELD,
    "plugin-fails": PLUGIN_FAULTS,
    "master-left-behind": ("cut-off", "agents-only", "reached"),
}
_NUMBERS: Final = ("clock-jumps", "slow-calls", "lost-answers", "late-storing")


class GivenNode(NamedTuple):
    """One node at the beginning."""

    name: str
    flags: tuple[str, ...] = ()
    """of ``drained`` and ``offline``"""
    tags: tuple[str, ...] = ()


class GivenInstance(NamedTuple):
    """One instance at the beginning."""

    name: str
    template: str
    nodes: tuple[str, ...]
    """its primary, and of a drbd instance its secondary"""
    memory: int = 1024
    """MiB"""
    disk: int = 10240
    """MiB"""
    up: bool = True
    tags: tuple[str, ...] = ()


class GivenVolume(NamedTuple):
    """One physical volume of a node's volume group."""

    node: str
    name: str
    size: int
    """MiB"""


class Scenario(NamedTuple):
    """One file."""

    nodes: tuple[GivenNode, ...]
    volumes: tuple[GivenVolume, ...]
    instances: tuple[GivenInstance, ...]
    candidates: int | None
    """master candidates that there should be; None: as usual, and the end does not name them"""
    config: Config
    events: tuple[Fault, ...]
    until: float
    """seconds"""
    seed: str
    expected: tuple[str, ...]
    """the narrative"""


class BadScenario(Exception):
    """A file is no scenario."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults
        """one sentence each, with file and line"""


def read_scenario(path: str, text: str) -> Scenario:
    """The scenario in a file's text; raises BadScenario with all its faults."""
    return _Reader(path).read(text)


def with_narrative(text: str, narrative: tuple[str, ...]) -> str:
    """The text of a file with another narrative."""
    lines = text.splitlines()
    if EXPECT in lines:
        lines = lines[: lines.index(EXPECT)]
    return "\n".join([*lines, EXPECT, *narrative]) + "\n"


class _Fault(Exception):
    """Something is wrong with a line."""


class _Reader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._faults: list[str] = []
        self._nodes: dict[str, GivenNode] = {}
        self._volumes: list[GivenVolume] = []
        self._instances: dict[str, GivenInstance] = {}
        self._settings: dict[str, str] = {}
        """section and key -> value, as TOML"""
        self._events: list[Fault] = []
        self._until, self._seed = _UNTIL, "1"
        self._candidates: int | None = None
        self._kinds: dict[str, Callable[[list[str]], None]] = {
            "node": self._node,
            "volume": self._volume,
            "instance": self._instance,
            "set": self._set,
            "at": self._at,
            "until": self._until_line,
            "seed": self._seed_line,
            "candidates": self._candidates_line,
        }

    def read(self, text: str) -> Scenario:
        lines = text.splitlines()
        end = lines.index(EXPECT) if EXPECT in lines else len(lines)
        for number, line in enumerate(lines[:end], 1):
            if line.strip() and not line.startswith("#"):
                self._line(number, line.split())
        if not self._nodes and not self._faults:
            self._faults.append(f"{self._path}: no node is given; a line like: node node1")
        if self._faults:
            raise BadScenario(self._faults)
        nodes, instances = tuple(self._nodes.values()), tuple(self._instances.values())
        volumes = tuple(self._volumes)
        events, expected = tuple(self._events), tuple(lines[end + 1 :])
        return Scenario(
            nodes,
            volumes,
            instances,
            self._candidates,
            self._config(),
            events,
            self._until,
            self._seed,
            expected,
        )

    def _line(self, number: int, words: list[str]) -> None:
        read = self._kinds.get(words[0])
        try:
            if read is None:
                known = ", ".join([*self._kinds, EXPECT])
                raise _Fault(f"{words[0]} begins no line; known are {known}")
            read(words[1:])
        except _Fault as err:
            self._faults.append(f"{self._path}:{number}: {err}")

    # The cluster

    def _node(self, words: list[str]) -> None:
        name = self._new(words, self._nodes)
        flags, tags = list[str](), list[str]()
        rest = iter(words[1:])
        for word in rest:
            if word == "tag":
                tags.append(_next(rest, "tag", "a tag"))
            elif word in ("drained", "offline"):
                flags.append(word)
            else:
                raise _Fault(f"{word} says nothing of a node; known are drained, offline, tag TAG")
        if flags and not self._nodes:
            raise _Fault(f"{name} is the first node, the master, and cannot be {flags[0]}")
        self._nodes[name] = GivenNode(name, tuple(flags), tuple(tags))

    def _volume(self, words: list[str]) -> None:
        if len(words) != 3:
            raise _Fault("a volume is written like: volume node1 /dev/sda 102400")
        node, name, size = words
        self._known(node, NODE)
        if any((one.node, one.name) == (node, name) for one in self._volumes):
            raise _Fault(f"{name} of {node} is there already")
        self._volumes.append(GivenVolume(node, name, _mebibytes(size)))

    def _instance(self, words: list[str]) -> None:
        name = self._new(words, self._instances)
        template = words[1] if len(words) > 1 else ""
        if template not in TEMPLATES:
            raise _Fault(f"after {name} comes its template: {', '.join(TEMPLATES)}")
        count = 2 if template == "drbd" else 1
        nodes = tuple(words[2 : 2 + count])
        for node in nodes:
            self._known(node, NODE)
        if len(set(nodes)) != count:
            named = "two different nodes" if count == 2 else "one node"
            raise _Fault(f"{template} instance {name} needs {named}")
        one = GivenInstance(name, TEMPLATES[template], nodes)
        self._instances[name] = _described(one, iter(words[2 + count :]))

    def _new(self, words: list[str], known: Mapping[str, object]) -> str:
        if not words:
            raise _Fault("a name is missing")
        if words[0] in known:
            raise _Fault(f"{words[0]} is there already")
        return words[0]

    def _known(self, name: str, about: str) -> None:
        if name not in (self._nodes if about == NODE else self._instances):
            raise _Fault(f"there is no {about} {name or '(a name is missing)'} before this line")

    # Settings

    def _set(self, words: list[str]) -> None:
        if len(words) < 3 or words[1] != "=":
            raise _Fault("a setting is written like: set hold-time = 60")
        name = words[0] if "." in words[0] else f"maintd.{words[0]}"
        section, key = name.split(".", 1)
        value = " ".join(words[2:])
        if name in self._settings:
            raise _Fault(f"{words[0]} is set already")
        try:
            _, faults = read_config("", f"[{section}]\n{key} = {value}\n".encode())
        except BadConfig:
            text = f'{value} is no value; text is written like "act", a list like ["harep"]'
            raise _Fault(text) from None
        for found in [one for kept in faults.values() for one in kept]:
            raise _Fault(found)
        self._settings[name] = value

    def _config(self) -> Config:
        given = {"maintd.mode": '"act"', **self._settings}
        sections: dict[str, list[str]] = {}
        for name, value in given.items():
            section, key = name.split(".", 1)
            sections.setdefault(section, []).append(f"{key} = {value}")
        text = "\n".join("\n".join([f"[{section}]", *lines]) for section, lines in sections.items())
        return read_config(self._path, text.encode())[0]

    # Events

    def _at(self, words: list[str]) -> None:
        if len(words) < 2:
            raise _Fault("an event is written like: at 120 falls-ill node2 evacuate for 600")
        at, name, rest = _seconds(words[0]), words[1], words[2:]
        kind = EVENTS.get(name)
        if kind is None:
            raise _Fault(f"{name} is no event; see --help")
        rest, lasts = _duration(name, kind, rest)
        subject = rest.pop(0) if kind.about and rest else ""
        if kind.about:
            # Nodes that are added while it is played have names of their own.
            self._known(subject, kind.about)
        detail = _detail(name, kind, rest)
        self._events.append(Fault(at, name, subject, lasts, detail))

    def _until_line(self, words: list[str]) -> None:
        self._until = _seconds(" ".join(words))

    def _seed_line(self, words: list[str]) -> None:
        if len(words) != 1:
            raise _Fault("a seed is one word")
        self._seed = words[0]

    def _candidates_line(self, words: list[str]) -> None:
        text = " ".join(words)
        if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) < 100):
            raise _Fault(f"{text or 'nothing'} is no number of candidates from 1 to 99")
        self._candidates = int(text)


def _described(one: GivenInstance, words: Iterator[str]) -> GivenInstance:
    for word in words:
        if word == "memory":
            one = one._replace(memory=_mebibytes(_next(words, word, "MiB")))
        elif word == "disk":
            one = one._replace(disk=_mebibytes(_next(words, word, "MiB")))
        elif word == "down":
            one = one._replace(up=False)
        elif word == "tag":
            one = one._replace(tags=(*one.tags, _next(words, word, "a tag")))
        else:
            known = "memory MIB, disk MIB, down, tag TAG"
            raise _Fault(f"{word} says nothing of an instance; known are {known}")
    return one


def _next(words: Iterator[str], before: str, what: str) -> str:
    found = next(words, None)
    if found is None:
        raise _Fault(f"after {before} comes {what}")
    return found


def _mebibytes(word: str) -> int:
    if not (word.isascii() and word.isdigit() and 0 < int(word[:9]) < 10**8 and len(word) < 9):
        raise _Fault(f"{word} is no whole number of MiB")
    return int(word)


def _seconds(word: str) -> float:
    found = _number(word)
    if found is None or not 0 <= found <= _LONGEST:
        raise _Fault(f"{word or 'nothing'} is no number of seconds from 0 to {_LONGEST:.0f}")
    return found


def _number(word: str) -> float | None:
    try:
        found = float(word)
    except ValueError:
        return None
    return found if isfinite(found) else None


def _duration(name: str, kind: EventKind, words: list[str]) -> tuple[list[str], float]:
    """The words without ``for SECONDS``, and the seconds."""
    if "for" not in words:
        return words, _ALWAYS if kind.lasts else 0.0
    at = words.index("for")
    if not kind.lasts:
        raise _Fault(f"{name} happens at one moment: it has no for")
    if at != len(words) - 2:
        raise _Fault("for and a number of seconds are the end of the line")
    return words[:at], _seconds(words[-1])


def _detail(name: str, kind: EventKind, words: list[str]) -> str:
    if not kind.detail:
        if words:
            raise _Fault(f"{' '.join(words)} says nothing of {name}")
        return ""
    if len(words) != 1:
        raise _Fault(f"{name} needs one more word: {kind.detail}")
    choices = _CHOICES.get(name)
    wrong = words[0] not in choices if choices else name in _NUMBERS and _number(words[0]) is None
    if wrong:
        raise _Fault(f"{words[0]} is not what {name} needs: {kind.detail}")
    return words[0]
