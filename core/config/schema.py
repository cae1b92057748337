"""What each key of the configuration file may be: one description of every key.

It gives the checks, ``check-config --sample`` and the test that the manual names every key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.core.config.node import COLLECTORS, EVERY, RESERVED
from ganeti_steward.core.config.values import COMBINE, ON_EVACUATION
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.core.model.finding import STATUSES

LOG_LEVELS: Final = ("debug", "info", "warning", "error")

Check = Callable[[Any], str]


def number(low: float, high: float) -> Check:
    """A number within limits."""

    def check(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"a number is expected, found {describe(value)}"
        return "" if low <= value <= high else f"{value} is not between {low:g} and {high:g}"

    return check


def _whole(low: int, high: int) -> Check:
    def check(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int):
            return f"a whole number is expected, found {describe(value)}"
        return "" if low <= value <= high else f"{value} is not between {low} and {high}"

    return check


def _path(value: Any) -> str:
    if not isinstance(value, str):
        return f"a path is expected, found {describe(value)}"
    if not value.isprintable():
        return f"{quoted(value)} has characters that do not belong in a path"
    return "" if value == "" or value.startswith("/") else f"{quoted(value)} is no absolute path"


def _word(known: tuple[str, ...]) -> Check:
    def check(value: Any) -> str:
        if value in known:
            return ""
        return f"one of {', '.join(known)} is expected, found {describe(value)}"

    return check


def _subset(known: tuple[str, ...]) -> Check:
    def check(value: Any) -> str:
        fault = _names(value)
        strange = [] if fault else [name for name in value if name not in known]
        if strange:
            return f"{shown(strange[0])} is not one of {', '.join(known)}"
        return fault

    return check


def _names(value: Any) -> str:
    if not isinstance(value, list):
        return f"a list of names is expected, found {describe(value)}"
    for name in value:
        if not (isinstance(name, str) and name):
            return f"a list of names is expected, it holds {describe(name)}"
    return f"{shown(_twice(value))} is named twice" if _twice(value) else ""


def _some_names(value: Any) -> str:
    return _names(value) or ("" if value else "at least one name is expected")


def _twice(names: list[str]) -> str:
    return next((name for name in names if names.count(name) > 1), "")


def shown(name: str) -> str:
    """A name as it is, unless that would spoil the sentence."""
    return name if name.isprintable() and 0 < len(name) <= 80 else quoted(name)


def _lists(value: Any) -> str:
    return _table(value, _names)


def _tables_of_lists(value: Any) -> str:
    return _table(value, _lists)


def source_name(name: str) -> str:
    """What is wrong with the name of a source of the diagnosis.

    A colon would make it part of another one.
    """
    if re.fullmatch(r"[a-zA-Z0-9_.-]+", name):
        return ""
    return f"{quoted(name)} is no name of a source (letters, digits, ., _ and - only)"


def _plugin_names(value: Any) -> str:
    """Plugins with a diagnose hook, whose names are those of their sources."""
    fault = _names(value)
    for name in () if fault else value:
        if name in COLLECTORS or name in RESERVED:
            return f"{shown(name)} is the name of another source"
        fault = fault or source_name(name)
    return fault


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return f"a text is expected, found {describe(value)}"
    return "" if value.isprintable() else f"{quoted(value)} has characters that cannot be printed"


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else f"true or false is expected, found {describe(value)}"


def _command_name(value: Any) -> str:
    """Ganeti's own rule for the names of restricted commands (diagnose 4); empty for none."""
    fault = _text(value)
    if fault or value == "" or re.fullmatch(r"[a-zA-Z0-9_-]+", value):
        return fault
    return f"{quoted(value)} is no name of a command (letters, digits, _ and - only)"


def _command_names(value: Any) -> str:
    fault = _names(value)
    faults = (_command_name(name) for name in value if name != EVERY) if not fault else ()
    return fault or next((fault for fault in faults if fault), "")


def _command_line(value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        return f"a list of words is expected, found {describe(value)}"
    if not value or not value[0].startswith("/"):
        return "the first word must be a program's absolute path"
    return "" if all(map(str.isprintable, value)) else "a word cannot be printed"


def _table(value: Any, check: Check) -> str:
    """What is wrong with a section of the file that is one key of another."""
    if not isinstance(value, dict):
        return f"a section is expected, found {describe(value)}"
    faults = ((name, check(item)) for name, item in value.items())
    return next((f"{shown(name)}: {fault}" for name, fault in faults if fault), "")


class Key(NamedTuple):
    """One key of the file."""

    check: Check
    """says what is wrong with a value, nothing when it is fine"""
    text: str
    """what the key is for, one sentence"""


_CHAIN: Final = Key(
    _some_names,
    "Allocators tried in this order until one succeeds: names, or command:/path/of/a/program.",
)
_SHADOW: Final = Key(_names, "Allocators asked besides; what they say is only compared and logged.")

#: Section -> key -> its description, in the order of the sample.
SCHEMA: Final[Mapping[str, Mapping[str, Key]]] = {
    "allocators": {
        "allocate": _CHAIN,
        "multi-allocate": _CHAIN,
        "relocate": _CHAIN,
        "allocate-secondary": _CHAIN,
        "node-evacuate": _CHAIN,
        "change-group": _CHAIN,
        "balance": _CHAIN,
        "capacity": _CHAIN,
        "time-limit": Key(
            number(1, 890),
            "Seconds an allocator may take, its constraints included. All of a chain have 890 "
            "together, of which each may take an equal share of what is left.",
        ),
    },
    "shadow": {
        "allocate": _SHADOW,
        "multi-allocate": _SHADOW,
        "relocate": _SHADOW,
        "allocate-secondary": _SHADOW,
        "node-evacuate": _SHADOW,
        "change-group": _SHADOW,
        "balance": _SHADOW,
        "capacity": _SHADOW,
        "time-limit": Key(number(0.1, 3600), "Seconds each of them may take."),
    },
    "plugins": {
        "load": Key(
            _names,
            "Plugins besides the built-in ones: a module path (mysite.rules) or the name of an "
            "entry point of the group ganeti_steward.",
        ),
        "time-limit": Key(
            number(0.1, 600),
            "Seconds loading a plugin, or one call of a constrain or weigh hook, may take.",
        ),
    },
    "aggregates": {
        "default-forbidden-prefixes": Key(
            _names,
            "Aggregates whose names begin so are closed to instances that do not ask for one.",
        ),
        "required-prefixes": Key(
            _names, "A tag of an instance that begins so asks for the aggregate of that name."
        ),
        "unclaimable": Key(_names, "Aggregates no instance may ask for."),
        "combine": Key(
            _word(COMBINE),
            "With union a node has its group's aggregates too; with placement one of both must "
            "be in all that is asked for.",
        ),
        "on-evacuation": Key(
            _word(ON_EVACUATION),
            "Where no node complies: with strict an evacuation fails, with prefer it takes the "
            "best other one.",
        ),
        "groups": Key(_lists, 'Node groups: a list of aggregates for each, "rack1" = ["room1"].'),
        "nodes": Key(_lists, "The same for nodes."),
        "units": Key(_tables_of_lists, "The same for units, one table for each node."),
        "pools": Key(_lists, "The same for storage pools."),
        "instances": Key(
            _lists, 'What instances ask: "web1" = ["!in:a,b", "member_of_primary=c"].'
        ),
    },
    "diagnose": {
        "collectors": Key(
            _subset(COLLECTORS), "The built-in collectors that are asked, in this order."
        ),
        "load": Key(
            _plugin_names,
            "Plugins with a diagnose hook besides: module paths or entry points of the group "
            "ganeti_steward.",
        ),
        "commands": Key(
            _command_names,
            "Executables of /etc/ganeti/node-diagnose-commands that are asked, in this order; "
            "* stands for all others, by name.",
        ),
        "pool-user": Key(
            _command_names, "Those of them that run under a user id of Ganeti's uid pool."
        ),
        "time-limit": Key(number(0.1, 3600), "Seconds each source may take."),
        "output-limit": Key(_whole(1, 2**30), "Bytes a command may print."),
        "appear-after": Key(
            _whole(1, 1000), "Runs in a row in which a finding must be seen before it counts."
        ),
        "clear-after": Key(
            _whole(1, 1000), "Runs in a row in which it must be gone before it counts as gone."
        ),
        "several-command": Key(
            _command_name,
            "The repair command where findings ask for different ones; it reads all of them.",
        ),
        "several-status": Key(
            _word(STATUSES[1:]), "The status where findings ask for different repair commands."
        ),
        "directory": Key(_path, "Where the state between runs and the last report are."),
    },
    "agent": {
        "address": Key(_text, "Where it listens; empty for the node's primary address."),
        "port": Key(_whole(1, 65535), "The TCP port it listens on."),
        "interval": Key(
            number(0, 86400), "Seconds from one diagnosis to the next; 0 leaves it to cron."
        ),
        "max-age": Key(number(1, 604800), "Seconds after which a report is not told any more."),
        "key-file": Key(_path, "The cluster's HMAC key."),
        "repair": Key(_flag, "Whether repair commands are run at all."),
        "repair-time-limit": Key(number(1, 86400), "Seconds a repair command may take."),
        "nonce-life": Key(number(1, 300), "Seconds in which a nonce must be used."),
        "lock-memory": Key(_flag, "Whether the agent keeps itself in memory."),
    },
    "history": {
        "keep": Key(_whole(0, 10000), "How many are kept; 0 keeps none."),
        "directory": Key(_path, "Where; made readable for root only."),
    },
    "log": {
        "file": Key(
            _path,
            "The log file; empty for none. It is skipped where its directory is missing.",
        ),
        "level": Key(_word(LOG_LEVELS), "Least level written: debug, info, warning, error."),
    },
}

_NAGIOS_STATUS: Final = _word((*STATUSES, "unknown"))

#: Section whose keys are names -> the keys of each of those sections.
NAMED: Final[Mapping[str, Mapping[str, Key]]] = {
    "nagios": {
        "command": Key(_command_line, "The check: its absolute path, then its arguments."),
        "ok": Key(_NAGIOS_STATUS, "Status at exit 0."),
        "warning": Key(_NAGIOS_STATUS, "Status at exit 1."),
        "critical": Key(_NAGIOS_STATUS, "Status at exit 2."),
        "unknown": Key(_NAGIOS_STATUS, "Status at exit 3."),
        "repair": Key(_command_name, "The repair command to ask for with live-repair."),
        "text": Key(_flag, "Whether the first line belongs to the finding."),
        "time-limit": Key(number(0.1, 3600), "Seconds it may take."),
    },
}
