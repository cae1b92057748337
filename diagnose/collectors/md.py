"""Software raid: arrays that lost members or have bad blocks, did not start or are broken.

Read from ``/sys/block/md*/md``: ``/proc/mdstat`` is for people.  Which arrays should be there is
known from ``mdadm.conf``, and from members that are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, CheckResult, NotApplicable, Unknown
from ganeti_steward.diagnose.collectors.shared import reading
from ganeti_steward.diagnose.collectors.shared.block_members import RAID_MEMBER, read_members
from ganeti_steward.diagnose.collectors.shared.results import (
    Fault,
    check_results,
    unknown_if_unreadable,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Repair, Status
from ganeti_steward.diagnose.model.machine import Machine

NAME: Final = "md"

#: Levels that live on when a member is lost; only they have ``degraded`` and ``sync_action``.
_REDUNDANT: Final = frozenset(("raid1", "raid4", "raid5", "raid6", "raid10"))
_PLAIN: Final = frozenset(("linear", "raid0", "multipath", "faulty"))

#: States in which an array serves.  ``read-auto`` is an array that was not written to yet.
_SERVING: Final = frozenset(
    ("readonly", "read-auto", "clean", "active", "write-pending", "active-idle")
)

_CONFIGURATIONS: Final = ("/etc/mdadm/mdadm.conf", "/etc/mdadm.conf")
_ARRAY: Final = re.compile(r"ARRAY\s+(?P<device>/dev/\S+|<ignore>)(?P<rest>.*)", re.IGNORECASE)
_UUID: Final = re.compile(r"\buuid=(\S+)", re.IGNORECASE)


class Settings(NamedTuple):
    """[collector.md]: the checks of md arrays."""

    degraded_status: Annotated[Status, "An array has too few members."] = LIVE_REPAIR
    recovering_status: Annotated[
        Status,
        "An array has too few members while a replacement is being filled.",
    ] = LIVE_REPAIR
    failed_member_status: Annotated[
        Status, "An array is complete again, but a failed member has not been removed."
    ] = LIVE_REPAIR
    inactive_status: Annotated[Status, "An array did not start, or was never assembled."] = (
        LIVE_REPAIR
    )
    broken_status: Annotated[Status, "An array without redundancy lost a member."] = LIVE_REPAIR
    bad_blocks_status: Annotated[Status, "Blocks of an array's members are recorded as bad."] = (
        LIVE_REPAIR
    )
    repair: Repair = ""


class Collector(Configured[Settings]):
    """Looks at each md array."""

    CONFIG = Settings

    @hookimpl
    @unknown_if_unreadable(NAME)
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the md arrays."""
        names = [name for name in reading.listed(machine, "/sys/block") if name.startswith("md")]
        results = [result for name in names for result in self._check(machine, name)]
        unknowns: list[str] = []
        with reading.noting_unknowns(unknowns):
            arrays = [name for name in names if _is_there(machine, name)]
            results += self._not_assembled(machine, arrays)
        results += [Unknown(NAME, reason) for reason in unknowns]
        yield from results or [NotApplicable(NAME, "there is no md array")]

    def _not_assembled(self, machine: Machine, arrays: Sequence[str]) -> Iterator[CheckResult]:
        """What should be there apart from the kernel's own ``arrays``.

        Raises OSError, MissingData.
        """
        members = [member for member in read_members(machine, RAID_MEMBER) if member.uuid]
        used = {member.uuid for member in members if member.used}
        unused = {member.uuid for member in members if member.own} - used
        configured = dict(_configured(machine))
        for uuid, device in configured.items():
            if not device or uuid in used or _kernel_name(machine, device) in arrays:
                continue
            source = f"{NAME}:{printable(device.rsplit('/', 1)[-1])}"
            if uuid in unused:
                faults = [Fault(self._settings.inactive_status, "not assembled")]
                yield from check_results(source, faults, (), self._settings.repair)
            else:
                yield Unknown(source, "it is configured, but neither it nor a member is there")
        for uuid in sorted(unused - configured.keys()):
            reason = "its members are there, but it is neither there nor configured"
            yield Unknown(f"{NAME}:{uuid}", reason)

    def _check(self, machine: Machine, name: str) -> Iterator[CheckResult]:
        """The results of one array; none where there is no array (any more)."""
        source, directory = f"{NAME}:{printable(name)}", f"/sys/block/{name}/md"
        faults: list[Fault] = []
        unknowns: list[str] = []
        with reading.noting_unknowns(unknowns):
            if "md" not in reading.listed(machine, f"/sys/block/{name}"):
                return
            state = _text(machine, f"{directory}/array_state")
            # "clear" is a name without an array; a container only holds other arrays.
            if state == "clear" or _is_container(machine, directory):
                return
            faults += self._faults(machine, directory, state)
        yield from check_results(source, faults, unknowns, self._settings.repair)

    def _faults(self, machine: Machine, directory: str, state: str) -> Iterator[Fault]:
        """What is wrong with an array; raises OSError, ValueError."""
        if state == "inactive":
            yield Fault(self._settings.inactive_status, "inactive")
            return
        if state == "broken":
            yield Fault(self._settings.broken_status, "broken")
            return
        if state not in _SERVING:
            raise reading.MissingData(f"the state {state!r} is not known")
        level = _text(machine, f"{directory}/level")
        if level not in _REDUNDANT | _PLAIN:
            raise reading.MissingData(f"the level {level!r} is not known")
        missing = reading.number_of(machine, f"{directory}/degraded") if level in _REDUNDANT else 0
        if missing:
            yield self._degraded(machine, directory, missing)
        names = reading.listed(machine, directory)
        members = [f"{directory}/{name}" for name in names if name.startswith("dev-")]
        # Blocks the kernel could not read, write or restore; not all metadata has a list of them.
        if any(reading.text_if_there(machine, f"{member}/bad_blocks") for member in members):
            yield Fault(self._settings.bad_blocks_status, "bad blocks")
        if not missing and _has_failed(machine, members):
            if level in _REDUNDANT:
                yield Fault(self._settings.failed_member_status, "failed member")
            else:
                yield Fault(self._settings.broken_status, "broken")

    def _degraded(self, machine: Machine, directory: str, missing: int) -> Fault:
        """The fault of an array with members missing; raises OSError, MissingData.

        Its text does not depend on whether it recovers: the array is the same until it is whole.
        A failed member is one of the missing and stays so when it is taken out.
        """
        # While an array grows, this holds the old number in brackets as well.
        members = _text(machine, f"{directory}/raid_disks").partition(" ")[0]
        if not (members.isascii() and members.isdecimal()) or not 0 < missing <= int(members):
            raise reading.MissingData(f"{missing} missing of {members!r} members is not plausible")
        action = _text(machine, f"{directory}/sync_action")
        settings = self._settings
        status = settings.recovering_status if action == "recover" else settings.degraded_status
        return Fault(status, f"{missing} of {int(members)} members missing")


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _is_container(machine: Machine, directory: str) -> bool:
    """Whether it holds the members of arrays whose metadata the kernel does not know.

    It is never active.  The arrays in it have ``external:/md127/0`` (``-`` when read-only).
    """
    kind, _, rest = _text(machine, f"{directory}/metadata_version").partition(":")
    return kind == "external" and not rest.startswith(("/", "-"))


def _is_there(machine: Machine, name: str) -> bool:
    """Whether there is an array of this name, not a name alone."""
    try:
        return reading.text_of(machine, f"/sys/block/{name}/md/array_state") != "clear"
    except FileNotFoundError:
        return False
    except OSError:
        # It is unknown by itself.
        return True


def _has_failed(machine: Machine, members: Sequence[str]) -> bool:
    """Whether one of the members has failed; raises OSError, MissingData."""
    if not members:
        raise reading.MissingData("no member of the array is listed")
    states = [_text(machine, f"{member}/state").split(",") for member in members]
    return any("faulty" in state for state in states)


def _text(machine: Machine, path: str) -> str:
    """A file's text, which is not empty; raises OSError, MissingData."""
    text = reading.text_of(machine, path)
    if not text:
        raise reading.MissingData(f"{path} is empty")
    return text


def _configured(machine: Machine) -> Iterator[tuple[str, str]]:
    """UUID and device of each array; no device of those to be ignored; raises OSError."""
    for path in _CONFIGURATIONS:
        # A line that begins with a blank continues the one before.
        lines = re.sub(r"\n[ \t]+", " ", reading.text_if_there(machine, path)).splitlines()
        for line in lines:
            array = _ARRAY.fullmatch(line.partition("#")[0].strip())
            uuid = _UUID.search(array["rest"]) if array else None
            if array and uuid and "container=" not in array["rest"].lower():
                device = "" if array["device"].startswith("<") else array["device"]
                yield re.sub("[^0-9a-zA-Z]", "", uuid[1]).lower(), device


def _kernel_name(machine: Machine, device: str) -> str:
    """The kernel's name of an array that is there: ``/dev/md/root`` is a link to it."""
    with suppress(OSError):
        return machine.target(device).rsplit("/", 1)[-1]
    name = device.rsplit("/", 1)[-1]
    return f"md{name}" if name.isdecimal() else name
