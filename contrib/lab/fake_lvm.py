"""Stands in for LVM on lab nodes: lvs, vgs, pvs, lvcreate, lvremove, lvrename, lvchange, lvextend,
pvchange and vgreduce, distinguished by the name it is called under; ``lvm fullreport`` as JSON; and
for dd and blockdev, which cannot work on simulated volumes (for any other file they are the real
programs).

Imitated: volume groups on the node's physical volumes, space, the allocatable flag, tags, open
volumes, lost physical volumes and what LVM refuses because of them.
Not imitated: data, snapshots, stripes, thin volumes.
"""

from __future__ import annotations

import os
import sys

from lab_storage import (
    DEVICES,
    Refused,
    World,
    here,
    lost,
    make_file,
    remove_file,
    volume,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lab_storage import Object

    Row = dict[str, Any]

EXTENT = 4
"""size of a physical extent in MiB"""

VALUED = {*"LniWa", "separator", "options", "units", "alloc", "addtag", "deltag", "allocatable"}
"""options that are followed by a value"""

LINKS = "/run/ganeti/instance-disks"
"""where Ganeti links the disks of running instances"""


def parse(args: list[str]) -> tuple[dict[str, str], list[str]]:
    """Split a command line into options (without dashes, "o" called "options") and the rest."""
    options, rest, queue = {}, [], list(args)
    while queue:
        arg = queue.pop(0)
        if arg.startswith("--"):
            name, equals, value = arg[2:].partition("=")
        elif arg.startswith("-"):
            name, value = {"o": "options"}.get(arg[1], arg[1]), arg[2:]
            equals = value
        else:
            rest.append(arg)
            continue
        if name in VALUED and not equals:
            value = queue.pop(0)
        options[name] = value
    return options, rest


def mebibytes(text: str) -> int:
    """A size as given to lvcreate or lvextend, rounded up to whole extents."""
    number, unit = float(text[:-1]), text[-1].lower()
    mib = number * {"k": 1 / 1024, "m": 1, "g": 1024, "b": 1 / 1048576}[unit]
    return -int(-mib // EXTENT) * EXTENT


# --- what there is -------------------------------------------------------------------------


def used(node: Object, name: str) -> int:
    segments = [segment for lv in node["lvs"].values() for segment in lv["segments"]]
    return sum(size for pv, size in segments if pv == name)


def free(node: Object, name: str) -> int:
    return int(node["pvs"][name]["size"]) - used(node, name)


def pv_rows(node: Object) -> list[Row]:
    rows = []
    for name, pv in node["pvs"].items():
        if not group_exists(node, pv["group"]):
            continue
        attr = ("a" if pv["allocatable"] else "u") + "-" + ("m" if pv["missing"] else "-")
        row = {"vg_name": pv["group"], "pv_attr": attr, "pv_size": pv["size"]}
        row["pv_name"] = "[unknown]" if pv["missing"] else name
        rows.append(row | {"pv_free": free(node, name), "pv_used": used(node, name)})
    return rows


def of_group(node: Object, group: str) -> Object:
    return {name: pv for name, pv in node["pvs"].items() if pv["group"] == group}


def is_partial(node: Object, group: str) -> bool:
    return any(pv["missing"] for pv in of_group(node, group).values())


def group_exists(node: Object, group: str) -> bool:
    """A volume group is seen as long as one of its physical volumes is."""
    return any(not pv["missing"] for pv in of_group(node, group).values())


def groups(node: Object) -> list[str]:
    found = dict.fromkeys(pv["group"] for pv in node["pvs"].values())
    return [group for group in found if group_exists(node, group)]


def vg_rows(node: Object) -> list[Row]:
    rows = []
    for group in groups(node):
        pvs = of_group(node, group)
        attr = "wz-pn-" if is_partial(node, group) else "wz--n-"
        row = {"vg_name": group, "vg_attr": attr, "vg_extent_size": EXTENT, "snap_count": 0}
        row |= {"pv_count": len(pvs), "vg_size": sum(pv["size"] for pv in pvs.values())}
        row["lv_count"] = sum(key.startswith(f"{group}/") for key in node["lvs"])
        rows.append(row | {"vg_free": sum(free(node, name) for name in pvs)})
    return rows


def lv_rows(node: Object, *, segments: bool) -> list[Row]:
    rows = []
    for number, (key, lv) in enumerate(node["lvs"].items()):
        group, name = key.split("/")
        if not group_exists(node, group):
            continue
        attr = "-wi-a" + ("o" if in_use(node, key) else "-") + "--" + "-p"[lost(node, lv)] + "-"
        row = {"vg_name": group, "lv_name": name, "lv_attr": attr, "lv_size": lv["size"]}
        row |= {"lv_kernel_major": 253, "lv_kernel_minor": number, "vg_extent_size": EXTENT}
        row |= {"stripes": 1, "segtype": "linear", "lv_tags": ",".join(lv["tags"])}
        row |= {"lv_uuid": lv["uuid"], "vg_uuid": "lab", "lv_major": -1, "lv_minor": -1}
        row |= {"seg_count": len(lv["segments"])}
        for index, (pv, size) in enumerate(lv["segments"]):
            if index == 0 or segments:
                place = {"devices": f"{pv}(0)", "seg_pe_ranges": f"{pv}:0-{size // EXTENT - 1}"}
                rows.append(row | place | {"seg_size": size, "seg_start": 0, "seg_start_pe": 0})
    return rows


def in_use(node: Object, key: str) -> bool:
    """Open by DRBD, or (as far as Ganeti's links show) by a running instance."""
    path = f"/dev/{key}"
    if any(m["disk"] and path in m["disk"].values() for m in node["minors"].values()):
        return True
    if not os.path.isdir(LINKS):
        return False
    return any(os.readlink(os.path.join(LINKS, link)) == path for link in os.listdir(LINKS))


# --- reports ---------------------------------------------------------------------------------

DEFAULT_FIELDS = {
    "lvs": "lv_name,vg_name,lv_attr,lv_size",
    "vgs": "vg_name,pv_count,lv_count,snap_count,vg_attr,vg_size,vg_free",
    "pvs": "pv_name,vg_name,pv_attr,pv_size,pv_free",
}

SIZES = {"lv_size", "vg_size", "vg_free", "pv_size", "pv_free", "pv_used", "vg_extent_size"} | {
    "seg_size",
    "seg_start",
}


def report(node: Object, tool: str, options: dict[str, str], names: list[str]) -> None:
    fields = options.get("options", DEFAULT_FIELDS[tool]).split(",")
    short = {"name", "size", "free", "attr", "tags", "uuid"}
    fields = [f"{tool[:2]}_{field}" if field in short else field for field in fields]
    rows = {
        "pvs": lambda: pv_rows(node),
        "vgs": lambda: vg_rows(node),
        "lvs": lambda: lv_rows(node, segments=bool({"devices", "seg_size"} & set(fields))),
    }[tool]()
    if names:
        rows = [row for row in rows if any(named(row, name, tool) for name in names)]
        if not rows and not (tool == "lvs" and set(names) <= {*groups(node)}):
            what = {"pvs": "physical volume", "vgs": "volume group", "lvs": "logical volume"}[tool]
            raise Refused(f'  Failed to find {what} "{names[0]}".')
    warn(node)
    separator, unit = options.get("separator", " "), options.get("units", "m")
    suffix = "" if "nosuffix" in options else unit
    if "noheadings" not in options:
        print("  " + separator.join(fields))
    for row in rows:
        shown = [
            size(row[f], unit.lower()) + suffix if f in SIZES else str(row.get(f, ""))
            for f in fields
        ]
        print("  " + separator.join(shown))


def fullreport(node: Object, args: list[str]) -> None:
    """All groups as ``lvm fullreport`` of 2.03.16 prints them with ``--reportformat json``.

    Other units than MiB without a suffix, and other columns than those below, are not imitated.
    """
    import json

    if not {"json", "m", "--nosuffix"} <= {*args}:
        raise Refused("  the stand-in prints JSON in MiB without a suffix only")
    parts = [i for i, arg in enumerate(args) if arg == "--configreport"]
    fields = {args[i + 1]: args[i + 3].split(",") for i in parts}
    reports = []
    for vg in vg_rows(node):
        group = vg["vg_name"]
        pvs = of_group(node, group).items()
        lvs = [lv for key, lv in node["lvs"].items() if key.startswith(f"{group}/")]
        rows: dict[str, list[Row]] = {
            "vg": [vg | {"vg_missing_pv_count": sum(pv["missing"] for _, pv in pvs)}],
            "pv": [
                {"pv_uuid": f"lab-{name[5:]}", "pv_missing": int(pv["missing"])} for name, pv in pvs
            ],
            "lv": [{"lv_health_status": "partial" if lost(node, lv) else ""} for lv in lvs],
            "pvseg": [{"pv_name": "[unknown]" if pv["missing"] else name} for name, pv in pvs],
            "seg": [{"segtype": "linear"} for lv in lvs for _ in lv["segments"]],
        }
        reports.append(
            {kind: [shown_as_json(row, fields[kind]) for row in rows[kind]] for kind in fields}
        )
    warn(node)
    print(json.dumps({"report": reports or [{"vg": []}]}))


def shown_as_json(row: Row, fields: list[str]) -> dict[str, str]:
    """The columns of a row; LVM prints a size of nothing without decimals."""
    return {
        field: size(row[field], "m") if field in SIZES and row[field] else str(row[field])
        for field in fields
    }


def named(row: Row, name: str, tool: str) -> bool:
    if tool == "pvs":
        return bool(row["pv_name"] == name)
    return name.removeprefix("/dev/") in (row["vg_name"], f"{row['vg_name']}/{row.get('lv_name')}")


def size(mib: int, unit: str) -> str:
    if unit == "b":
        return str(mib * 1048576)
    return f"{mib * {'k': 1024, 'm': 1, 'g': 1 / 1024}[unit]:.2f}"


def warn(node: Object) -> None:
    for name, pv in node["pvs"].items():
        if pv["missing"] and group_exists(node, pv["group"]):
            print(f"  WARNING: Couldn't find device with uuid lab-{name[5:]}.", file=sys.stderr)


# --- changes ---------------------------------------------------------------------------------


def check_group(node: Object, name: str, *, repairing: bool = False) -> None:
    if not group_exists(node, name):
        raise Refused(f'  Volume group "{name}" not found')
    if not repairing and is_partial(node, name):
        raise Refused(
            f"  Cannot change VG {name} while PVs are missing.\n"
            "  See vgreduce --removemissing and vgextend --restoremissing."
        )


def existing(node: Object, name: str) -> str:
    key = name.removeprefix("/dev/")
    check_group(node, key.split("/")[0], repairing=True)
    if key not in node["lvs"]:
        raise Refused(f'  Failed to find logical volume "{key}"')
    return key


def room(node: Object, group: str, mib: int, wanted: list[str]) -> list[list[Any]]:
    """Space for so many MiB on a group's allocatable physical volumes, in the fewest pieces."""
    pvs = of_group(node, group).items()
    names = [n for n, pv in pvs if pv["allocatable"] and n in (wanted or [n])]
    names.sort(key=lambda name: free(node, name), reverse=True)
    pieces: list[list[Any]] = []
    for name in names:
        piece = min(free(node, name), mib - sum(size for _, size in pieces))
        if piece > 0:
            pieces.append([name, piece])
    if sum(size for _, size in pieces) < mib:
        total = sum(free(node, name) for name in names)
        raise Refused(
            f'  Volume group "{group}" has insufficient free space'
            f" ({total // EXTENT} extents): {mib // EXTENT} required."
        )
    return pieces


def lvcreate(node: Object, options: dict[str, str], rest: list[str]) -> None:
    if "s" in options:
        raise Refused("  the stand-in makes no snapshots")
    group, *wanted = rest
    check_group(node, group)
    key, mib = f"{group}/{options['n']}", mebibytes(options["L"])
    if key in node["lvs"]:
        raise Refused(f'  Logical Volume "{options["n"]}" already exists in volume group "{group}"')
    new = {"size": mib, "segments": room(node, group, mib, wanted), "tags": [], "drbd": None}
    node["lvs"][key] = new | {"uuid": f"lab-{os.getpid()}-{len(node['lvs'])}"}
    make_file(key, mib)
    print(f'  Logical volume "{options["n"]}" created.')


def lvremove(node: Object, _options: dict[str, str], rest: list[str]) -> None:
    for name in rest:
        key = existing(node, name)
        if in_use(node, key):
            raise Refused(f"  Logical volume {key} in use.")
        del node["lvs"][key]
        remove_file(key)


def lvrename(node: Object, _options: dict[str, str], rest: list[str]) -> None:
    group, old, new = rest
    check_group(node, group)
    key = existing(node, f"{group}/{old}")
    if f"{group}/{new}" in node["lvs"]:
        raise Refused(f'  Logical Volume "{new}" already exists in volume group "{group}"')
    node["lvs"][f"{group}/{new}"] = node["lvs"].pop(key)
    os.rename(os.path.join(DEVICES, key), os.path.join(DEVICES, group, new))
    for minor in node["minors"].values():  # the kernel knows devices, not names
        for kind, path in (minor["disk"] or {}).items():
            if path == f"/dev/{key}":
                minor["disk"][kind] = f"/dev/{group}/{new}"


def lvchange(node: Object, options: dict[str, str], rest: list[str]) -> None:
    for name in rest:
        key = existing(node, name)
        tags = node["lvs"][key]["tags"]
        if "addtag" in options and options["addtag"] not in tags:
            tags.append(options["addtag"])
        if options.get("deltag") in tags:
            tags.remove(options["deltag"])
        if "a" in options and lost(node, node["lvs"][key]):
            raise Refused(f"  Refusing activation of partial LV {key}.")


def lvextend(node: Object, options: dict[str, str], rest: list[str]) -> None:
    name, *wanted = rest
    key = existing(node, name)
    group = key.split("/")[0]
    check_group(node, group)
    mib = mebibytes(options["L"].removeprefix("+"))
    pieces = room(node, group, mib, wanted)
    if "test" not in options:
        lv = node["lvs"][key]
        lv["segments"] += pieces
        lv["size"] += mib
        make_file(key, lv["size"])


def pvchange(node: Object, options: dict[str, str], rest: list[str]) -> None:
    for name in rest:
        if name not in node["pvs"] or node["pvs"][name]["missing"]:
            raise Refused(f'  Failed to find physical volume "{name}".')
        check_group(node, node["pvs"][name]["group"])
        node["pvs"][name]["allocatable"] = options["allocatable"] == "y"
        print(f'  Physical volume "{name}" changed')


def vgreduce(node: Object, options: dict[str, str], rest: list[str]) -> None:
    (group,) = rest
    check_group(node, group, repairing=True)
    missing = [name for name, pv in of_group(node, group).items() if pv["missing"]]
    if not missing:
        print(f'  Volume group "{group}" is already consistent.')
        return
    volumes = ((key, lv) for key, lv in node["lvs"].items() if key.startswith(f"{group}/"))
    gone = [key for key, lv in volumes if lost(node, lv)]
    if gone and "force" not in options:
        for key in gone:
            print(f"  WARNING: Partial LV {key.split('/')[1]} needs to be repaired or removed.")
        raise Refused(
            f"  There are still partial LVs in VG {group}.\n  To remove them unconditionally use:"
            " vgreduce --removemissing --force."
        )
    for key in gone:
        del node["lvs"][key]
    for name in missing:
        del node["pvs"][name]
    print(f"  Wrote out consistent volume group {group}.")


CHANGES = {
    f.__name__: f for f in (lvcreate, lvremove, lvrename, lvchange, lvextend, pvchange, vgreduce)
}

# --- dd and blockdev ---------------------------------------------------------------------------


def real(tool: str) -> str:
    """The program that this one hides."""
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    places = [p for p in os.environ.get("PATH", "").split(":") if p and p != folder]
    for place in [*places, "/usr/sbin", "/usr/bin"]:
        if os.access(f"{place}/{tool}", os.X_OK):
            return f"{place}/{tool}"
    raise Refused(f"{tool}: not found", 127)


def ours(node: Object, path: str) -> int | None:
    """The size in MiB of a simulated device."""
    if path.startswith("/dev/drbd"):
        minor = node["minors"].get(path.removeprefix("/dev/drbd"))
        path = minor["disk"]["data"] if minor and minor["disk"] else path
    lv = volume(node, path)
    return None if lv is None else int(lv["size"])


def dd(node: Object, args: list[str]) -> bool:
    """Reading or writing a simulated device does nothing; all else is for the real dd."""
    return any(ours(node, arg[3:]) for arg in args if arg[:3] in ("if=", "of="))


def blockdev(node: Object, args: list[str]) -> bool:
    mib = ours(node, args[-1]) if args else None
    unit = {"--getsize64": 1048576, "--getsize": 2048, "--getsz": 2048}.get(args[0] if args else "")
    if mib is None or unit is None:
        return False
    print(mib * unit)
    return True


def main() -> int:
    tool, args = os.path.basename(sys.argv[0]), sys.argv[1:]
    try:
        with World() as state:
            node = here(state)
            if tool in DEFAULT_FIELDS:
                report(node, tool, *parse(args))
                return 0
            # A script that is run by its descriptor has another name.
            if args[:1] == ["fullreport"]:
                fullreport(node, args)
                return 0
            if tool in CHANGES:
                CHANGES[tool](node, *parse(args))
                return 0
            if {"dd": dd, "blockdev": blockdev}[tool](node, args):
                return 0
        os.execv(real(tool), [tool, *args])
    except Refused as error:
        print(error, file=sys.stderr)
        return error.status
