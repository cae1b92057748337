"""Reports of the monitoring daemons collected in a file.

    [{"node": "node1.example.com", "reports": [REPORT, ...]}, ...]

A report is what ``http://NODE:1815/1/report/default/cpu-avg-load`` gives; the list of them
is what ``/1/report/all`` gives.  It is the file of hbal's ``--mond-data``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from ganeti_steward.allocators.state.load_reports import NoLoads
from ganeti_steward.core.errors import BadInput, reason_of
from ganeti_steward.core.json_reader import Faults, Section, describe, quoted
from ganeti_steward.core.safe_files import UnsafeFile, read_in_time

#: Bytes of the file.
_LONGEST: Final = 2**28

#: Seconds until all has been written into a FIFO.
_WAIT: Final = 10.0


def read_reports(path: str, nodes: Sequence[str], collector: str) -> dict[str, object]:
    """The report of one collector for each of these nodes; raises NoLoads.

    The file may know more nodes and more reports.
    """
    known = _entries(path)
    found: dict[str, object] = {}
    for node in nodes:
        if node not in known:
            raise NoLoads.of(node, f"not in file {quoted(path)}")
        for report in known[node]:
            if isinstance(report, dict) and report.get("name") == collector:
                found[node] = report
                break
        else:
            raise NoLoads.of(node, f"no {collector} report in file {quoted(path)}")
    return found


def _entries(path: str) -> dict[str, list[object]]:
    try:
        data = orjson.loads(read_in_time(path, _LONGEST, _WAIT))
    except orjson.JSONDecodeError as err:
        raise NoLoads(f"file {quoted(path)}: not valid JSON: {err}") from None
    except UnsafeFile as err:
        raise NoLoads(f"file {quoted(path)}: {err.reason}") from None
    except (OSError, ValueError) as err:
        raise NoLoads(f"file {quoted(path)}: {reason_of(err)}") from None
    if not isinstance(data, list):
        raise NoLoads(f"file {quoted(path)}: a list is expected, found {describe(data)}")
    known: dict[str, list[object]] = {}
    faults = Faults()
    for number, entry in enumerate(data):
        section = Section(entry, f"entry {number}", "", faults)
        name, reports = section.text("node"), section.items("reports")
        if name and name in known:
            section.fault(f"node {quoted(name)} is there already", "node")
        known[name] = reports
        if faults.many:
            break
    try:
        faults.check()
    except BadInput as err:
        raise NoLoads(f"file {quoted(path)}: {err}") from None
    return known
