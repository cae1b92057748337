"""The audit log: an sqlite file, and one line of the log for each entry.

It is never read to decide: where it cannot be written the daemon goes on without it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple, get_type_hints
from urllib.parse import quote

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import writable
from ganeti_steward.core.safe_files import make_directory, open_own
from ganeti_steward.core.service.disk_timeout import CallDisk, DiskTimeout
from ganeti_steward.plugins.maintenance.edges.history import CHANGE, AuditEntry
from ganeti_steward.plugins.maintenance.edges.outlet import Outlet
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN
from ganeti_steward.plugins.model.task import Held

#: Days after which entries are removed, at the start of the daemon.
KEEP_DAYS: Final = 400

#: Seconds a disk may take; the daemon waits so long once, not for each entry.
_TIMEOUT: Final = 5.0

#: Seconds another process may have the file locked.
_LOCKED: Final = 2.0

#: Entries that are kept for the next attempt when the file cannot be written.
_WAITING: Final = 1000

_DAY: Final = 86400 * 10**9

_FIELDS: Final = ", ".join(AuditEntry._fields)
_KINDS: Final = tuple(get_type_hints(AuditEntry).values())

#: Incidents that have no record any more, and whole objects of which records have a part.
INCIDENTS: Final = "incidents"
OBJECTS: Final = "objects"

#: An entry that is written twice, because an attempt ended without an answer, is there once.
_HISTORY: Final = """
CREATE TABLE IF NOT EXISTS history (
    at INTEGER NOT NULL, kind TEXT NOT NULL, incident TEXT NOT NULL, node TEXT NOT NULL,
    node_name TEXT NOT NULL, event TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (at, kind, incident, event, before, after, reason)
) WITHOUT ROWID
"""
_TABLES: Final = (
    _HISTORY,
    "CREATE INDEX IF NOT EXISTS by_incident ON history (incident, at)",
    *(
        f"CREATE TABLE IF NOT EXISTS {table} (name TEXT PRIMARY KEY, at INTEGER NOT NULL, "
        "content TEXT NOT NULL)"
        for table in (INCIDENTS, OBJECTS)
    ),
)
_INSERT: Final = f"INSERT OR IGNORE INTO history ({_FIELDS}) VALUES ({', '.join('?' * 9)})"

_log = logging.getLogger(__name__)

#: Rows of these tables, the latest ones: nodes decide how many objects they report.
_MOST_KEPT: Final = 1000


class KeptRow(NamedTuple):
    """A row of one of the two tables of what has no place in Ganeti's configuration."""

    table: str
    """`INCIDENTS` or `OBJECTS`"""
    name: str
    """the incident's uuid, or the object's hash"""
    at: int
    """ns since the epoch"""
    content: str
    """the record, or the object, as JSON"""


class Audit:
    """Writes the audit log; used by one thread."""

    def __init__(self, path: str, call_disk: CallDisk | None = None) -> None:
        """``path``: the file; empty for none.  ``call_disk``: how the disk is written."""
        self._path, self._call_disk = path, call_disk or DiskTimeout(_TIMEOUT)
        self._waiting = deque[AuditEntry](maxlen=_WAITING)
        self._kept = deque[KeptRow](maxlen=_MOST_KEPT)
        self._outlet = Outlet(f"the audit log {path} cannot be written")

    @property
    def problems(self) -> tuple[Held, ...]:
        """Why the file is not written at present; nothing where it is."""
        return self._outlet.problems

    @property
    def is_kept(self) -> bool:
        """Whether there is a file."""
        return bool(self._path)

    def start(self, now: int) -> None:
        """Create the file and remove old entries; ``now``: ns since the epoch."""
        self._try(lambda: _prepare(self._path, now - KEEP_DAYS * _DAY))

    def write(self, entries: Iterable[AuditEntry], kept: Iterable[KeptRow] = ()) -> None:
        """Log entries and write them, together with what could not be written before.

        ``kept``: what is written as well, without a line of the log.
        """
        for entry in entries:
            _log.log(logging.WARNING if entry.alarming else logging.INFO, "%s", entry.line)
            self._waiting.append(entry)
        self._kept.extend(kept)
        waiting, rows = tuple(self._waiting), tuple(self._kept)
        if (waiting or rows) and self._try(lambda: _insert(self._path, waiting, rows)):
            self._waiting.clear()
            self._kept.clear()

    def latest(self, number: int) -> tuple[AuditEntry, ...]:
        """As many entries at most, the latest last; none where the file cannot be read."""
        found: list[AuditEntry] = []
        if self._try(lambda: found.extend(_latest(self._path, number))):
            return tuple(reversed(found))
        return ()

    def states(self) -> dict[str, str] | None:
        """Uuid -> state after the last change of each incident that was not forgotten.

        None where the file cannot be read.
        """
        found: dict[str, str] = {}
        return found if self._try(lambda: found.update(_states(self._path))) else None

    def _try(self, work: Callable[[], None]) -> bool:
        """Whether it was done; without a path there is nothing to be done."""

        def done() -> bool:
            try:
                self._call_disk(work)
            except (sqlite3.Error, ValueError) as err:
                raise StewardError(str(err)) from None
            return True

        return not self._path or self._outlet(done, otherwise=False)


def _connect(path: str) -> sqlite3.Connection:
    """The file, created with its directory where there is none."""
    make_directory(os.path.dirname(path) or ".")
    os.close(open_own(path, os.O_RDWR | os.O_CREAT))
    return sqlite3.connect(path, timeout=_LOCKED)


def _make_tables(database: sqlite3.Connection) -> None:
    for statement in _TABLES:
        database.execute(statement)


def _prepare(path: str, oldest: int) -> None:
    with closing(_connect(path)) as database:
        with database:
            _make_tables(database)
            removed = sum(
                database.execute(f"DELETE FROM {table} WHERE at < ?", (oldest,)).rowcount
                for table in ("history", INCIDENTS, OBJECTS)
            )
        if removed:
            database.execute("VACUUM")


def _insert(path: str, entries: Iterable[AuditEntry], kept: Sequence[KeptRow]) -> None:
    # Opened for each round: the file may have been removed or replaced since.
    with closing(_connect(path)) as database, database:
        _make_tables(database)
        database.executemany(_INSERT, map(_written, entries))
        for row in kept:
            values = _written(row[1:])
            database.execute(f"INSERT OR REPLACE INTO {row.table} VALUES (?, ?, ?)", values)
        for table in {row.table for row in kept}:
            database.execute(
                f"DELETE FROM {table} WHERE rowid NOT IN "
                f"(SELECT rowid FROM {table} ORDER BY at DESC LIMIT {_MOST_KEPT})"
            )


def _written(row: tuple[object, ...]) -> list[object]:
    """What is inserted: a text that UTF-8 cannot carry must not keep all later entries out."""
    return [writable(one) if isinstance(one, str) else one for one in row]


def _checked(row: tuple[Any, ...], kinds: Sequence[type]) -> tuple[Any, ...]:
    """A row that was read; raises ValueError where another program wrote something else."""
    if [type(one) for one in row] != [*kinds]:
        raise ValueError("a row is not an entry of an audit log")
    return row


def _latest(path: str, number: int) -> list[AuditEntry]:
    """The latest first."""
    with closing(_connect(path)) as database:
        query = f"SELECT {_FIELDS} FROM history ORDER BY at DESC LIMIT ?"
        return [AuditEntry(*_checked(row, _KINDS)) for row in database.execute(query, (number,))]


def _states(path: str) -> list[tuple[str, str]]:
    """Uuid and state."""
    with closing(_connect(path)) as database, database:
        _make_tables(database)
        query = "SELECT incident, after, MAX(at) FROM history WHERE kind = ? GROUP BY incident"
        rows = [_checked(row, (str, str, int)) for row in database.execute(query, (CHANGE,))]
        return [(uuid, after) for uuid, after, _ in rows if after != FORGOTTEN]


def read_audit(
    path: str, *, incident: str = "", node: str = "", since: int = 0
) -> list[AuditEntry]:
    """The entries, the oldest first; raises StewardError.

    ``incident``: only those of this uuid; ``node``: only those of the node with this uuid or
    name; ``since``: ns since the epoch.
    """
    query = (
        f"SELECT {_FIELDS} FROM history WHERE at >= :since"
        " AND (:incident = '' OR incident = :incident)"
        " AND (:node = '' OR node = :node OR node_name = :node) ORDER BY at"
    )
    values = {"since": since, "incident": incident, "node": node}
    return [AuditEntry(*row) for row in _rows(path, query, values, _KINDS)]


def read_kept(path: str, table: str, name: str = "") -> dict[str, str]:
    """Name -> content of what was kept, the oldest first; raises StewardError.

    ``table``: `INCIDENTS` or `OBJECTS`; ``name``: only what has this name.
    """
    query = f"SELECT name, content FROM {table} WHERE :name IN ('', name) ORDER BY at"
    return dict(_rows(path, query, {"name": name}, (str, str)))


def _rows(
    path: str, query: str, values: Mapping[str, object], kinds: Sequence[type]
) -> list[tuple[Any, ...]]:
    """The rows of a query, whose columns are of these kinds; raises StewardError."""
    if not os.path.exists(path):
        raise StewardError(f"there is no audit log {path or 'configured'}")
    try:
        location = f"file:{quote(os.path.abspath(path))}?mode=ro"
        with closing(sqlite3.connect(location, timeout=_LOCKED, uri=True)) as database:
            return [_checked(row, kinds) for row in database.execute(query, values)]
    except (sqlite3.Error, ValueError) as err:
        raise StewardError(f"the audit log {path} cannot be read: {err}") from None
