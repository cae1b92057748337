"""Whether this node has to be rebooted, and since when it runs."""

from __future__ import annotations

from typing import Any, Final

from ganeti_steward.diagnose.model.machine import Machine

#: What Debian's packages and programs of the site make when a reboot is required, and the packages
#: that requested it, a line each.
_REQUIRED: Final = "/run/reboot-required"
_PACKAGES: Final = "/run/reboot-required.pkgs"

#: The newest kernel that is installed, as Debian links it, and the one that runs.
_INSTALLED: Final = "/vmlinuz"
_RUNNING: Final = "/proc/sys/kernel/osrelease"
_IMAGE: Final = "vmlinuz-"

#: Packages that are named, and characters of each reason.
_NAMED: Final = 5
_LONGEST: Final = 200


def reboot(machine: Machine) -> dict[str, Any]:
    """The section ``reboot`` of a report.

    ``required``: why a reboot is required, a text each, none: it is not; null: that is not known.
    ``booted``: when the node was started, s since the epoch; null: not known.
    """
    return {"required": _required(machine), "booted": _booted(machine)}


def _required(machine: Machine) -> list[str] | None:
    try:
        reasons = [_requested(machine), _newer_kernel(machine)]
    except (OSError, ValueError):
        return None
    return [one[:_LONGEST] for one in reasons if one]


def _requested(machine: Machine) -> str:
    """What the files in ``/run`` say; raises OSError, ValueError."""
    if _text(machine, _REQUIRED) is None:
        return ""
    names = [*dict.fromkeys((_text(machine, _PACKAGES) or "").split())]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"packages: {', '.join(names[:_NAMED])}{more}" if names else f"{_REQUIRED} exists"


def _text(machine: Machine, path: str) -> str | None:
    """None: there is no such file."""
    try:
        return machine.read(path).decode("ascii", "replace")
    except FileNotFoundError:
        return None


def _newer_kernel(machine: Machine) -> str:
    """Which kernel would run after a reboot, where it is another one; raises OSError, ValueError.

    A node without the link, with another distribution for example, has nothing to compare.
    """
    try:
        image = machine.target(_INSTALLED).rpartition("/")[2]
    except OSError:
        return ""
    running, installed = machine.read(_RUNNING).decode("ascii").strip(), image.removeprefix(_IMAGE)
    if not image.startswith(_IMAGE) or installed == running:
        return ""
    return f"kernel {installed} is installed, {running} runs"


def _booted(machine: Machine) -> int | None:
    try:
        lines = machine.read("/proc/stat").decode("ascii").splitlines()
        (found,) = (line.split()[1] for line in lines if line.startswith("btime "))
        return int(found)
    except (OSError, ValueError, LookupError):
        return None
