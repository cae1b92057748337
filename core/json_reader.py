"""Reading JSON objects key by key while collecting every fault.

A fault names the object, the key and what is wrong.  Reading goes on with a harmless
value after a fault, so that one run reports all of them; the caller raises at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from ganeti_steward.core.errors import MAX_FAULTS, BadInput
from ganeti_steward.core.records import NamedTuple

#: Larger figures (1 EiB in MiB) are faults: sums over a cluster must stay exact.
LIMIT: Final = 2**40

#: Figures nearer to 0 than this are faults: what is divided by them must stay finite.
LEAST: Final = 2**-40

_REQUIRED: Final = object()


class Range(NamedTuple):
    """What a whole number may be: stands in the type of a field, ``Annotated[int, Range(..)]``."""

    least: int
    most: int

    def check(self, value: int) -> int:
        """The number; raises ValueError where it is out of range."""
        if not self.least <= value <= self.most:
            limits = f"{self.least} to {self.most}"
            raise ValueError(f"{limits} is expected, found {describe(value)}")
        return value


class Faults:
    """The faults of one input, in the order they were met."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, what: str, fault: str) -> None:
        """Note one fault of the object ``what``."""
        self.found.append(f"{what}: {fault}")

    @property
    def many(self) -> bool:
        """Whether so many were found that further ones would not help."""
        return len(self.found) > 10 * MAX_FAULTS

    def check(self) -> None:
        """Raise BadInput when there was any fault."""
        if self.found:
            raise BadInput(self.found)


def printable(text: str) -> str:
    """A text on one line and without what changes a terminal, whatever is in it."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def writable(text: str) -> str:
    """The text with escapes for halves of surrogate pairs, which UTF-8 cannot carry."""
    return text.encode(errors="backslashreplace").decode()


def quoted(text: str) -> str:
    """A name or text for a sentence: on one line and not too long."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


def describe(value: object) -> str:
    """A JSON or TOML value in a few words, for a sentence."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {_shortened(value)}"
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def _shortened(value: float) -> str:
    text = str(value)
    return text if len(text) <= 30 else f"{text[:27]}..."


class Section:
    """One JSON object of the input; ``kind``, ``name`` and ``path`` say which, in faults.

    ``path`` leads from the thing named to an object inside it (``ipolicy.std``).
    """

    __slots__ = ("data", "faults", "kind", "name", "path")

    def __init__(self, data: Any, kind: str, name: str, faults: Faults, path: str = "") -> None:
        self.kind, self.name, self.faults, self.path = kind, name, faults, path
        if not isinstance(data, dict):
            self.fault(f"an object is expected, found {describe(data)}")
            # That says it all: its keys are read as missing, into a list that is not used.
            data, self.faults = {}, Faults()
        self.data: dict[str, Any] = data

    @property
    def what(self) -> str:
        """The object's name in a sentence."""
        return f"{self.kind} {quoted(self.name)}" if self.name else self.kind

    def fault(self, text: str, key: str = "") -> None:
        """Note a fault of this object, or of one of its keys."""
        where = self._inside(key)
        self.faults.add(self.what, f"key {where!r}: {text}" if where else text)

    def _refuse(self, key: str, value: Any, expected: str) -> None:
        """Note that a value is missing, or no value of the expected kind."""
        if value is _REQUIRED:
            self.faults.add(self.what, f"key {self._inside(key)!r} is missing")
        else:
            self.fault(f"{expected} is expected, found {describe(value)}", key)

    def _inside(self, key: str) -> str:
        return ".".join(filter(None, (self.path, key)))

    def integer(self, key: str, default: Any = _REQUIRED) -> int:
        """A whole number; one with a fraction is rounded, halves to the even one."""
        value = self.data.get(key, default)
        if type(value) is int and -LIMIT <= value <= LIMIT:
            return value
        return int(self._number(key, value, default, whole=True))

    def number(self, key: str, default: Any = _REQUIRED) -> float:
        """Any number."""
        value = self.data.get(key, default)
        if type(value) is float and (LEAST <= value <= LIMIT or not value):
            return value
        return float(self._number(key, value, default, whole=False))

    def _number(self, key: str, value: Any, default: Any, *, whole: bool) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._refuse(key, value, "a whole number" if whole else "a number")
        elif not -LIMIT <= value <= LIMIT or 0 < abs(value) < LEAST:
            self.fault(f"{describe(value)} is out of range", key)
        else:
            return round(value) if whole else value
        return 0 if default is _REQUIRED else int(default)

    def boolean(self, key: str, default: Any = _REQUIRED) -> bool:
        """True or false, nothing else."""
        value = self.data.get(key, default)
        if value is True or value is False:
            return bool(value)
        self._refuse(key, value, "true or false")
        return False

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        """A string."""
        value = self.data.get(key, default)
        if isinstance(value, str):
            return value
        self._refuse(key, value, "a text")
        return ""

    def optional_text(self, key: str) -> str | None:
        """A string, or None when the key is missing or null."""
        return None if self.data.get(key) is None else self.text(key)

    def choice(self, key: str, allowed: Collection[str]) -> str:
        """A string out of ``allowed``."""
        before = len(self.faults.found)
        value = self.text(key)
        if value not in allowed and len(self.faults.found) == before:
            words = ", ".join(sorted(allowed))
            self.fault(f"unknown value {quoted(value)} (known: {words})", key)
        return value

    def items(self, key: str, default: Any = _REQUIRED) -> list[Any]:
        """A list of anything."""
        value = self.data.get(key, default)
        if isinstance(value, list):
            return value
        self._refuse(key, value, "a list")
        return []

    def texts(self, key: str, default: Any = _REQUIRED) -> tuple[str, ...]:
        """A list of strings."""
        values = self.items(key, default)
        for value in values:
            if not isinstance(value, str):
                self.fault(f"a list of texts is expected, it holds {describe(value)}", key)
                return ()
        return tuple(values)

    def optional_texts(self, key: str) -> tuple[str, ...] | None:
        """A list of strings, or None when the key is missing or null."""
        return None if self.data.get(key) is None else self.texts(key)

    def section(self, key: str) -> Section:
        """An object one level down."""
        if key not in self.data:
            self._refuse(key, _REQUIRED, "")
            return Section({}, self.kind, self.name, Faults())
        return Section(self.data[key], self.kind, self.name, self.faults, self._inside(key))

    def entry(self, key: str, number: int, data: Any) -> Section:
        """An object that is one entry of a list."""
        path = self._inside(f"{key}[{number}]")
        return Section(data, self.kind, self.name, self.faults, path)

    def sections(self, key: str, kind: str) -> Iterator[Section]:
        """The objects of an object of objects, each under its own name."""
        value = self.data.get(key, _REQUIRED)
        if not isinstance(value, dict):
            self._refuse(key, value, "an object")
            return
        for name, data in value.items():
            if self.faults.many:
                return
            yield Section(data, kind, name, self.faults)


def counted(number: int, what: str) -> str:
    """``1 job``, ``2 jobs``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
