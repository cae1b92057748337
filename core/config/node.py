"""The configuration's sections for the node side: self-diagnose and the node agent."""

from __future__ import annotations

from typing import Final, NamedTuple

#: The collectors that come with the program, in the order in which they are asked.
COLLECTORS: Final = (
    "smart",
    "md",
    "lvm",
    "drbd",
    "filesystems",
    "edac",
    "network",
    "sensors",
    "ipmi",
    "kernel",
)

#: Other sources of the diagnosis: the whitelisted commands, the checks of Nagios, and itself.
RESERVED: Final = ("command", "nagios", "diagnose")

#: Stands for every other command of the whitelist directory, by name.
EVERY: Final = "*"


class Diagnose(NamedTuple):
    """[diagnose]: who is asked about this node, and what becomes of it."""

    collectors: tuple[str, ...] = COLLECTORS
    load: tuple[str, ...] = ()
    """plugins with a diagnose hook besides: module paths or entry points"""
    commands: tuple[str, ...] = (EVERY,)
    """executables of COMMAND_DIRECTORY, in this order"""
    pool_user: tuple[str, ...] = ()
    """those of them that run under a uid of Ganeti's pool"""
    time_limit: float = 60
    """seconds for each source"""
    output_limit: int = 1048576
    """bytes a command may print"""
    appear_after: int = 1
    """runs in a row in which a finding must be seen before it counts"""
    clear_after: int = 1
    """runs in a row in which it must be gone before it counts as gone"""
    several_command: str = ""
    """the repair command when findings ask for different ones; it reads them on stdin"""
    several_status: str = "live-repair"
    """the status then; anything but live-repair escalates"""
    directory: str = "/var/lib/ganeti-steward/diagnose"
    """state and last report"""


class Agent(NamedTuple):
    """[agent]: the node's server of reports, and its repair commands."""

    address: str = ""
    """where it listens; empty for the node's primary address"""
    port: int = 1817
    interval: float = 300
    """seconds from one diagnosis to the next; 0 leaves it to cron"""
    max_age: float = 900
    """seconds after which a report is too old to be told"""
    key_file: str = "/var/lib/ganeti/hmac.key"
    repair: bool = False
    """whether repair commands are run at all"""
    repair_time_limit: float = 3600
    """seconds one of them may take"""
    nonce_life: float = 30
    """seconds in which a nonce must be used"""
    lock_memory: bool = True


class Nagios(NamedTuple):
    """[nagios.NAME]: a check that speaks the plugin protocol of Nagios, as a source."""

    command: tuple[str, ...]
    """absolute path and arguments"""
    ok: str = "Ok"
    warning: str = "Ok"
    critical: str = "live-repair"
    unknown: str = "unknown"
    repair: str = ""
    """the repair command to ask for with live-repair"""
    text: bool = False
    """whether the check's first line belongs to the finding; it must not change by itself"""
    time_limit: float = 60
    """seconds"""
