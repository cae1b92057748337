"""Stands in for DRBD 8.4 on lab nodes: drbdsetup and drbdmeta (distinguished by the name it is
called under), and the text of /proc/drbd.

Imitated: minors with disk, network and role; the connection states StandAlone, WFConnection,
Connected, SyncSource/SyncTarget and their paused forms; which side has the good data; the
refusals Ganeti can meet (two primaries, no good data, disk or network configured twice).
Not imitated: data. Nothing is written or copied, and a resync is a matter of time only.
"""

from __future__ import annotations

import os
import sys
import time

from lab_storage import Refused, World, here, make_file, new_generation, remove_file, volume

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from lab_storage import Object

FRESH = "fresh"
"""generation of a disk that never held data"""

NO_DATA = "State change failed: (-2) Need access to UpToDate data"

# --- what both sides make of each other ------------------------------------------------


def metadata(node: Object, minor: Object) -> Object | None:
    """What DRBD keeps on the metadata volume: {"disk": its state, "generation": of the data}."""
    lv = volume(node, minor["disk"]["meta"]) if minor["disk"] else None
    return None if lv is None else lv["drbd"]


def peer(state: Object, minor: Object) -> tuple[Object, Object] | None:
    """The other side's node and minor, if the two are connected."""
    net = minor["net"]
    if net is None or minor["cut"]:
        return None
    for node in state["nodes"].values():
        for other in node["minors"].values():
            if other["net"] and not other["cut"] and matching(net, other["net"]):
                return node, other
    return None


def matching(net: Object, other: Object) -> bool:
    same = all(net[key] == other[key] for key in ("secret", "two_primaries"))
    return same and (net["local"], net["remote"]) == (other["remote"], other["local"])


def pairs(state: Object) -> Iterator[tuple[Object, Object, Object, Object]]:
    """Every minor that has a disk and a connected peer with a disk: both minors, both metadata."""
    for node in state["nodes"].values():
        for minor in node["minors"].values():
            other = peer(state, minor)
            if other is not None:
                mine, theirs = metadata(node, minor), metadata(*other)
                if mine and theirs:
                    yield minor, other[1], mine, theirs


def settle(state: Object, now: float) -> None:
    """Bring the state up to this moment: end finished resyncs, begin those that are due."""
    connected = []
    for minor, other, mine, theirs in pairs(state):
        connected.append(id(minor))
        if minor["sync"] is None and behind(minor, mine, other, theirs):
            mine["disk"] = "Inconsistent"
            minor["sync"] = {"start": now, "seconds": state["sync_seconds"], "paused": None}
        sync = minor["sync"]
        if sync and sync["paused"] is None and now >= sync["start"] + sync["seconds"]:
            mine.update(disk="UpToDate", generation=theirs["generation"])
            minor["sync"] = None
    for node in state["nodes"].values():
        for minor in node["minors"].values():
            if id(minor) not in connected:
                minor["sync"] = None  # starts again when they are connected again


def behind(minor: Object, mine: Object, other: Object, theirs: Object) -> bool:
    """Does this side need the other's data?"""
    if theirs["disk"] != "UpToDate":
        return False
    if mine["disk"] != "UpToDate":
        return True
    if minor["role"] != other["role"] and mine["generation"] != theirs["generation"]:
        return bool(other["role"] == "Primary")
    return bool(mine["generation"] < theirs["generation"])


# --- /proc/drbd ------------------------------------------------------------------------


def proc_drbd() -> str:
    now = time.time()
    lines = ["version: 8.4.11 (api:1/proto:86-101)", "stand-in of a Ganeti lab, not the kernel's"]
    with World() as state:
        settle(state, now)
        node = here(state)
        for number in sorted(node["minors"], key=int):
            lines += describe(state, node, number, now)
    return "\n".join(lines) + "\n"


def describe(state: Object, node: Object, number: str, now: float) -> list[str]:
    minor = node["minors"][number]
    if minor["disk"] is None and minor["net"] is None and minor["role"] == "Secondary":
        return [f"{number:>2}: cs:Unconfigured"]
    other = peer(state, minor)
    disk = disk_state(node, minor)
    if other is None:
        connection = "StandAlone" if minor["net"] is None else "WFConnection"
        return [
            f"{number:>2}: cs:{connection} ro:{minor['role']}/Unknown ds:{disk}/DUnknown   r-----"
        ]
    sync, kind = minor["sync"], "SyncT" if minor["sync"] else "SyncS"
    sync = sync or other[1]["sync"]
    if sync is None:
        connection = "Connected"
    elif sync["paused"] is None:
        connection = {"SyncT": "SyncTarget", "SyncS": "SyncSource"}[kind]
    else:
        connection = f"Paused{kind}"
    line = (
        f"{number:>2}: cs:{connection} ro:{minor['role']}/{other[1]['role']}"
        f" ds:{disk}/{disk_state(*other)} C r-----"
    )
    counters = "    ns:0 nr:0 dw:0 dr:0 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0"
    return [line, counters] + (progress(sync, now) if sync else [])


def disk_state(node: Object, minor: Object) -> str:
    found = metadata(node, minor)
    return "Diskless" if found is None else str(found["disk"])


def progress(sync: Object, now: float) -> list[str]:
    done = sync["paused"] if sync["paused"] is not None else now - sync["start"]
    left = max(0.0, sync["seconds"] - done)
    percent = min(99.9, 100 * done / max(sync["seconds"], 0.001))
    bar = f"\t[=========>..........] sync'ed: {percent:4.1f}% (1024/2048)M"
    if sync["paused"] is not None:
        return [bar]
    hours, minutes, seconds = int(left) // 3600, int(left) // 60 % 60, int(left) % 60
    return [bar, f"\tfinish: {hours}:{minutes:02}:{seconds:02} speed: 61,440 (61,440) K/sec"]


# --- drbdsetup ---------------------------------------------------------------------------


def find(state: Object, number: str) -> Object:
    number = number.removeprefix("resource").removeprefix("/dev/drbd")
    try:
        minor: Object = here(state)["minors"][number]
    except KeyError:
        raise Refused(f"{number}: Failure: (127) Device minor not allocated", 10) from None
    return minor


def new_resource(state: Object, name: str) -> None:
    """A resource is only known through its one minor."""


def new_minor(state: Object, resource: str, number: str, _volume: str) -> None:
    fresh: dict[str, Any] = {"disk": None, "net": None, "role": "Secondary", "cut": False}
    here(state)["minors"].setdefault(number, fresh | {"sync": None, "last_disk": None})
    make_file(f"drbd{number}", 0)


def attach(state: Object, number: str, data: str, meta: str, _index: str, *options: str) -> None:
    minor, node = find(state, number), here(state)
    if minor["disk"]:
        raise Refused(
            f"{number}: Failure: (124) Device is attached to a disk (use detach first)", 10
        )
    lower, store = volume(node, data), volume(node, meta)
    if lower is None:
        raise Refused(f"{number}: Failure: (104) Can not open backing device.", 10)
    if store is None:
        raise Refused(f"{number}: Failure: (105) Can not open meta device.", 10)
    if store["drbd"] is None:
        raise Refused(f"{number}: Failure: (119) No valid meta-data signature found.", 10)
    minor["disk"] = {"data": data, "meta": meta}
    minor["last_disk"] = dict(minor["disk"])
    make_file(f"drbd{number}", lower["size"])


def detach(state: Object, number: str, *options: str) -> None:
    minor = find(state, number)
    if minor["role"] == "Primary" and not good_data(state, minor, local=False):
        raise Refused(f"{number}: {NO_DATA}", 17)
    minor["disk"] = None


def connect(state: Object, name: str, local: str, remote: str, *options: str) -> None:
    minor = find(state, name)
    if minor["net"]:
        raise Refused(f"{name}: Failure: (125) Device has a net-config (use disconnect first)", 10)
    secret = options[options.index("--shared-secret") + 1] if "--shared-secret" in options else ""
    two = "--allow-two-primaries" in options
    minor["net"] = {"local": local, "remote": remote, "secret": secret, "two_primaries": two}


def disconnect(state: Object, local: str, remote: str, *options: str) -> None:
    for minor in here(state)["minors"].values():
        if minor["net"] and (minor["net"]["local"], minor["net"]["remote"]) == (local, remote):
            minor["net"] = None
            return
    raise Refused(f"{local} {remote}: Failure: (126) UnknownConnection", 10)


def primary(state: Object, number: str, *options: str) -> None:
    minor, node = find(state, number), here(state)
    other = peer(state, minor)
    if other and other[1]["role"] == "Primary" and not minor["net"]["two_primaries"]:
        text = "State change failed: (-1) Multiple primaries not allowed by config"
        raise Refused(f"{number}: {text}", 11)
    mine = metadata(node, minor)
    if not good_data(state, minor):
        if mine is None or "--force" not in options:
            raise Refused(f"{number}: {NO_DATA}", 17)
        mine["disk"] = "UpToDate"
        if mine["generation"] == FRESH:
            mine["generation"] = new_generation()
    minor["role"] = "Primary"


def good_data(state: Object, minor: Object, *, local: bool = True) -> bool:
    """Is there UpToDate data in reach, on this side (if it counts) or the other?"""
    sides = [(here(state), minor)] if local else []
    other = peer(state, minor)
    return any(disk_state(*side) == "UpToDate" for side in sides + ([other] if other else []))


def secondary(state: Object, number: str) -> None:
    find(state, number)["role"] = "Secondary"


def down(state: Object, name: str) -> None:
    number = name.removeprefix("resource")
    find(state, number)
    del here(state)["minors"][number]
    remove_file(f"drbd{number}")


def resize(state: Object, number: str, _size: str, mebibytes: str) -> None:
    minor = find(state, number)
    make_file(f"drbd{number}", int(mebibytes.removesuffix("m")))
    other = peer(state, minor)
    if other and disk_state(*other) == "UpToDate":  # the new part is copied
        metadata(*other)["disk"] = "Inconsistent"  # type: ignore[index]


def disk_options(state: Object, number: str, *options: str) -> None:
    find(state, number)


def pause_sync(state: Object, number: str) -> None:
    for sync in both(state, number):
        if sync["paused"] is None:
            sync["paused"] = time.time() - sync["start"]


def resume_sync(state: Object, number: str) -> None:
    for sync in both(state, number):
        if sync["paused"] is not None:
            sync.update(start=time.time() - sync["paused"], paused=None)


def both(state: Object, number: str) -> list[Object]:
    minor = find(state, number)
    other = peer(state, minor)
    return [m["sync"] for m in (minor, other[1] if other else None) if m and m["sync"]]


def show(state: Object, number: str) -> None:
    minor = find(state, number)
    net, disk = minor["net"], minor["disk"]
    print(f"resource resource{number} {{\n    options {{\n    }}")
    if net:
        print(f'    net {{\n        shared-secret "{net["secret"]}";\n    }}')
        print(f"    _remote_host {{\n        address {net['remote'].replace(':', ' ', 1)};\n    }}")
    print("    _this_host {")
    if net:
        print(f"        address {net['local'].replace(':', ' ', 1)};")
    print(f"        volume 0 {{\n            device minor {number};")
    if disk:
        print(f'            disk "{disk["data"]}";\n            meta-disk "{disk["meta"]}";')
    print("        }\n    }\n}")


COMMANDS = {
    f.__name__.replace("_", "-"): f
    for f in (
        *(new_resource, new_minor, attach, detach, connect, disconnect, primary, secondary),
        *(down, resize, disk_options, pause_sync, resume_sync, show),
    )
}

# --- drbdmeta ------------------------------------------------------------------------------


def drbdmeta(state: Object, args: list[str]) -> None:
    """drbdmeta [--force] DEVICE v08 META-DEVICE flex-external create-md|apply-al"""
    _, _, meta, _, action = [arg for arg in args if not arg.startswith("--")]
    lv = volume(here(state), meta)
    if lv is None:
        raise Refused(f"open({meta}) failed: Input/output error", 20)
    if action == "create-md":
        lv["drbd"] = {"disk": "Inconsistent", "generation": FRESH}
    elif action != "apply-al":
        raise Refused(f"the stand-in does not know drbdmeta {action}", 20)
    elif lv["drbd"] is None:
        raise Refused("No valid meta data found", 255)


def main() -> int:
    tool, args = os.path.basename(sys.argv[0]), sys.argv[1:]
    try:
        with World() as state:
            settle(state, time.time())
            if tool == "drbdmeta":
                drbdmeta(state, args)
            elif not args or args[0] not in COMMANDS:
                raise Refused(f"the stand-in does not know drbdsetup {' '.join(args)}", 20)
            else:
                COMMANDS[args[0]](state, *args[1:])
            settle(state, time.time())
    except Refused as error:
        print(error, file=sys.stderr)
        return error.status
    return 0
