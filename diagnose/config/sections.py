"""The sections [diagnose], [agent] and [nagios.NAME], and what a source may be called."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Any, Final, NamedTuple

from ganeti_steward.core.builtins import COLLECTORS
from ganeti_steward.core.config.kinds import (
    FLAG,
    NAMES,
    PATH,
    TEXT,
    ValueKind,
    list_of,
    number,
    one_of,
    shown,
    whole,
)
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.finding import LIVE_REPAIR, OK, STATUSES, SUSPECT
from ganeti_steward.core.node_agent.protocol import PORT
from ganeti_steward.diagnose.config.finding_kinds import COMMAND, COMMAND_LINE


def subset(words: Collection[str]) -> ValueKind:
    """A list of some of these words; the sentence of the key, or its default, names them."""

    def fault(value: Any) -> str:
        strange = (
            [] if (bad := NAMES.fault(value)) else [name for name in value if name not in words]
        )
        names, verb = ", ".join(map(shown, strange)), "is" if len(strange) == 1 else "are"
        return f"{names} {verb} not one of {', '.join(words)}" if strange else bad

    return ValueKind(fault, "list of names")


#: Stands for every other command of the whitelist directory, by name.
EVERY: Final = "*"

_NAGIOS_STATUS: Final = one_of(*STATUSES, "unknown")._replace(text="status, or `unknown`")

_NAMED: Final = list_of(COMMAND, EVERY)

#: As in Ganeti's design, the empty name stands for no command.
_COMMANDS: Final = ValueKind(
    lambda value: "" if value == [""] else _NAMED.fault(value), _NAMED.text
)

#: Other sources: the whitelisted commands, the checks of Nagios, and the diagnosis itself.
RESERVED: Final = ("command", "nagios", "diagnose")


def source_fault(name: str) -> str:
    """What is wrong with the name of a source.  A colon would make it part of another one."""
    if re.fullmatch(r"[a-zA-Z0-9_.-]+", name):
        return ""
    return f"{quoted(name)} is not a source name (letters, digits, ., _ and - only)"


def _plugins_fault(value: Any) -> str:
    fault = NAMES.fault(value)
    for name in () if fault else value:
        if name in COLLECTORS or name in RESERVED:
            return f"{shown(name)} is the name of another source"
        fault = fault or source_fault(name)
    return fault


#: Plugins with a diagnose hook, whose names are those of their sources.
_PLUGINS: Final = ValueKind(_plugins_fault, "list of plugins")


class Diagnose(NamedTuple):
    """[diagnose]: the sources of the diagnosis, and how their results are merged."""

    collectors: Annotated[
        tuple[str, ...],
        subset(COLLECTORS),
        "The built-in collectors to call, in this order. The default has all.",
    ] = COLLECTORS
    load: Annotated[
        tuple[str, ...],
        _PLUGINS,
        "More plugins with a diagnose hook.",
    ] = ()
    commands: Annotated[
        tuple[str, ...],
        _COMMANDS,
        "Executables of /etc/ganeti/node-diagnose-commands to call, in this order; * stands for "
        'all others. An empty list or [""] calls none.',
    ] = (EVERY,)
    pool_user: Annotated[
        tuple[str, ...],
        list_of(COMMAND),
        "Commands of that list that run under a user id of Ganeti's uid pool.",
    ] = ()
    time_limit: Annotated[float, number(0.1, 3600), "Seconds each source may take."] = 60
    parallel: Annotated[int, whole(1, 64), "Sources that run at the same time."] = 4
    run_time_limit: Annotated[
        float,
        number(1, 86400),
        "Seconds a whole run may take; sources that have not finished then are unknown.",
    ] = 600
    output_limit: Annotated[int, whole(1, 2**30), "Bytes a command may print."] = 1048576
    appear_after: Annotated[
        int, whole(1, 1000), "Runs in a row that must see a finding before it is reported."
    ] = 2
    clear_after: Annotated[
        int, whole(1, 1000), "Runs in a row that must miss a finding before it is cleared."
    ] = 2
    several_command: Annotated[
        str,
        COMMAND,
        "The repair command when findings request different ones; it reads all of them.",
    ] = ""
    several_status: Annotated[
        str,
        one_of(*(status for status in STATUSES if status not in (OK, SUSPECT))),
        "The status when findings request different repair commands.",
    ] = LIVE_REPAIR
    directory: Annotated[str, PATH, "Directory of the state between runs and the last report."] = (
        "/var/lib/ganeti-steward/diagnose"
    )


class Agent(NamedTuple):
    """[agent]: the node's server of reports, and its repair commands."""

    address: Annotated[str, TEXT, "Address to listen on; empty for the node's primary address."] = (
        ""
    )
    port: Annotated[int, whole(1, 65535), "TCP port to listen on."] = PORT
    interval: Annotated[
        float, number(0, 86400), "Seconds between diagnoses; 0 leaves them to cron."
    ] = 300
    max_age: Annotated[
        float, number(1, 604800), "Seconds after which a report is too old to send."
    ] = 900
    key_file: Annotated[str, PATH, "The cluster's HMAC key."] = "/var/lib/ganeti/hmac.key"
    repair: Annotated[bool, FLAG, "Whether the agent runs repair commands at all."] = False
    master_failover: Annotated[
        bool,
        FLAG,
        "Whether the maintenance daemon may make this node the master (`gnt-cluster "
        "master-failover`) when the old master's maintenance begins.",
    ] = False
    repair_time_limit: Annotated[float, number(1, 86400), "Seconds a repair command may take."] = (
        3600
    )
    repair_again_after: Annotated[
        float,
        number(0, 2592000),
        "Seconds before a repair command may run again for the same diagnose object; 0: no limit.",
    ] = 3600
    nonce_life: Annotated[float, number(1, 300), "Seconds in which a nonce must be used."] = 30
    lock_memory: Annotated[
        bool, FLAG, "Whether the agent locks its memory so that it is never swapped out."
    ] = True


class Nagios(NamedTuple):
    """[nagios.NAME]: a check that speaks the plugin protocol of Nagios, as a source."""

    command: Annotated[
        tuple[str, ...], COMMAND_LINE, "The check: its absolute path, then its arguments."
    ]
    ok: Annotated[str, _NAGIOS_STATUS, "Exit status 0."] = "Ok"
    warning: Annotated[str, _NAGIOS_STATUS, "Exit status 1."] = "Ok"
    critical: Annotated[str, _NAGIOS_STATUS, "Exit status 2."] = "live-repair"
    unknown: Annotated[str, _NAGIOS_STATUS, "Exit status 3."] = "unknown"
    repair: Annotated[str, COMMAND, "Repair command for live-repair."] = ""
    text: Annotated[
        bool,
        FLAG,
        "Whether the first line of output is part of the finding; it must not change from run to "
        "run.",
    ] = False
    time_limit: Annotated[float, number(0.1, 3600), "Seconds it may take."] = 60

    @staticmethod
    def name_fault(name: str) -> str:
        """What is wrong with the name of such a section."""
        return source_fault(name)
