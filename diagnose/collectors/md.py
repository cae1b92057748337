"""Software raid: arrays that lost members or have bad blocks, did not start or are broken.

Read from ``/sys/block/md*/md``: ``/proc/mdstat`` is for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, CheckResult, NotApplicable, Unknown
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.program_output import (
    MissingData,
    listed,
    noting_unknowns,
)
from ganeti_steward.diagnose.collectors.shared.raid_configuration import (
    NotAssembled,
    not_assembled,
)
from ganeti_steward.diagnose.collectors.shared.results import (
    Fault,
    check_results,
    located_reason,
    number_of,
    text_of,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Repair, Status

NAME: Final = "md"

#: Levels that live on when a member is lost; only they have ``degraded`` and ``sync_action``.
_REDUNDANT: Final = frozenset(("raid1", "raid4", "raid5", "raid6", "raid10"))
_PLAIN: Final = frozenset(("linear", "raid0", "multipath", "faulty"))

#: States in which an array serves.  ``read-auto`` is an array that was not written to yet.
_SERVING: Final = frozenset(
    ("readonly", "read-auto", "clean", "active", "write-pending", "active-idle")
)


class Settings(NamedTuple):
    """[collector.md]: the checks of md arrays."""

    degraded_status: Annotated[
        Status, "The status when an array runs with fewer members than it should."
    ] = LIVE_REPAIR
    recovering_status: Annotated[
        Status,
        "The status when an array runs with fewer members and a replacement is being filled.",
    ] = LIVE_REPAIR
    failed_member_status: Annotated[
        Status, "The status when an array is whole again, but a failed member has not been removed."
    ] = LIVE_REPAIR
    inactive_status: Annotated[
        Status, "The status when an array did not start, or was never assembled."
    ] = LIVE_REPAIR
    broken_status: Annotated[
        Status, "The status when an array without redundancy lost a member."
    ] = LIVE_REPAIR
    bad_blocks_status: Annotated[
        Status, "The status when blocks of an array's members are recorded as bad."
    ] = LIVE_REPAIR
    repair: Repair = ""


class Collector(Configured[Settings]):
    """Looks at each md array."""

    CONFIG = Settings

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the md arrays."""
        try:
            names = [name for name in listed(machine, "/sys/block") if name.startswith("md")]
            found = [result for name in names for result in self._check(machine, name)]
        except MissingData as err:
            yield Unknown(NAME, str(err))
            return
        try:
            arrays = [name for name in names if _is_there(machine, name)]
            found += self._not_assembled(not_assembled(machine, arrays))
        except MissingData as err:
            found.append(Unknown(NAME, str(err)))
        if found:
            yield from found
        else:
            yield NotApplicable(NAME, "there is no md array")

    def _not_assembled(self, arrays: Iterable[NotAssembled]) -> Iterator[CheckResult]:
        """The results of arrays the kernel does not have; raises MissingData."""
        for one in arrays:
            source = f"{NAME}:{printable(one.name)}"
            if one.configured and one.has_members:
                faults = [Fault(self._settings.inactive_status, "not assembled")]
                yield from check_results(source, faults, (), self._settings.repair)
            elif one.configured:
                yield Unknown(source, "it is configured, but neither it nor a member is there")
            else:
                yield Unknown(
                    source, "its members are there, but it is neither there nor configured"
                )

    def _check(self, machine: Machine, name: str) -> Iterator[CheckResult]:
        """The results of one array; none where there is no array (any more)."""
        source, directory = f"{NAME}:{printable(name)}", f"/sys/block/{name}/md"
        faults: list[Fault] = []
        unknowns: list[str] = []
        with noting_unknowns(unknowns):
            if "md" not in listed(machine, f"/sys/block/{name}"):
                return
            state = _text(machine, f"{directory}/array_state")
            # "clear" is a name without an array; a container only holds other arrays.
            if state == "clear" or _is_container(machine, directory):
                return
            faults += self._faults(machine, directory, state)
        yield from check_results(source, faults, unknowns, self._settings.repair)

    def _faults(self, machine: Machine, directory: str, state: str) -> Iterator[Fault]:
        """What is wrong with an array; raises MissingData."""
        if state == "inactive":
            yield Fault(self._settings.inactive_status, "inactive")
            return
        if state == "broken":
            yield Fault(self._settings.broken_status, "broken")
            return
        if state not in _SERVING:
            raise MissingData(f"the state {state!r} is not known")
        level = _text(machine, f"{directory}/level")
        if level not in _REDUNDANT | _PLAIN:
            raise MissingData(f"the level {level!r} is not known")
        missing = _number(machine, f"{directory}/degraded") if level in _REDUNDANT else 0
        if missing:
            yield self._degraded(machine, directory, missing)
        if _has_bad_blocks(machine, directory):
            yield Fault(self._settings.bad_blocks_status, "bad blocks")
        if not missing and _has_failed_member(machine, directory):
            if level in _REDUNDANT:
                yield Fault(self._settings.failed_member_status, "failed member")
            else:
                yield Fault(self._settings.broken_status, "broken")

    def _degraded(self, machine: Machine, directory: str, missing: int) -> Fault:
        """The fault of an array with members missing; raises MissingData.

        Its text does not depend on whether it recovers: the array is the same until it is whole.
        A failed member is one of the missing and stays so when it is taken out.
        """
        # While an array grows, this holds the old number in brackets as well.
        members = _text(machine, f"{directory}/raid_disks").partition(" ")[0]
        if not (members.isascii() and members.isdecimal()) or not 0 < missing <= int(members):
            raise MissingData(f"{missing} missing of {members!r} members is not plausible")
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
        return text_of(machine, f"/sys/block/{name}/md/array_state") != "clear"
    except FileNotFoundError:
        return False
    except OSError:
        # It is unknown by itself.
        return True


def _has_bad_blocks(machine: Machine, directory: str) -> bool:
    """Whether a member has blocks the kernel could not read, write or restore.

    Not every kind of metadata has a list of them.
    """
    names = [name for name in listed(machine, directory) if name.startswith("dev-")]
    for name in names:
        try:
            if text_of(machine, f"{directory}/{name}/bad_blocks"):
                return True
        except FileNotFoundError:
            continue
        except OSError as err:
            raise MissingData(located_reason(err)) from err
    return False


def _has_failed_member(machine: Machine, directory: str) -> bool:
    members = [name for name in listed(machine, directory) if name.startswith("dev-")]
    if not members:
        raise MissingData("no member of the array is listed")
    states = [_text(machine, f"{directory}/{name}/state").split(",") for name in members]
    return any("faulty" in state for state in states)


def _text(machine: Machine, path: str) -> str:
    try:
        text = text_of(machine, path)
    except OSError as err:
        raise MissingData(located_reason(err)) from err
    if not text:
        raise MissingData(f"{path} is empty")
    return text


def _number(machine: Machine, path: str) -> int:
    try:
        return number_of(machine, path)
    except (OSError, ValueError) as err:
        raise MissingData(located_reason(err)) from err
