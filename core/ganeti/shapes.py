"""The form of what Ganeti returns: where a value has another one, reading it is a StewardError."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.jobs import one_line
from ganeti_steward.core.json_reader import describe

_Row = dict[str, Any]
_Kind = Callable[[Any], bool]

#: What Python raises where a value is of another form than the code that reads it expects.
_OTHER_FORM: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
#: Characters of such an error that a message has.
_SHOWN: Final = 200


@contextmanager
def returned_by(where: str) -> Iterator[None]:
    """Around the code that reads an answer; ``where``: the daemon, for the StewardError."""
    try:
        yield
    except _OTHER_FORM as err:
        fault = one_line(f"{type(err).__name__}: {err}")[:_SHOWN]
        raise StewardError(f"{where}: this is not what Ganeti 3 returns ({fault})") from err


def _of(*types: type) -> _Kind:
    return lambda value: type(value) in types


def _list(kind: _Kind) -> _Kind:
    return lambda value: type(value) is list and all(map(kind, value))


_TEXT, _WHOLE, _NUMBER, _FLAG = _of(str), _of(int), _of(int, float), _of(bool)
_OBJECT, _LIST, _TEXTS = _of(dict), _of(list), _list(_TEXT)
_OPTIONAL_TEXTS: Final = _list(_of(str, type(None)))

#: Kind of object -> field -> what it may be; any value may be missing, except for `_REQUIRED`.
#: The fields of filter rules, and the operations of jobs, are checked one by one by their readers:
#: users write them, and one that is faulty must not hide the others.
_KINDS: Final[Mapping[str, Mapping[str, _Kind]]] = {
    "cluster": {
        **dict.fromkeys(("tags", "enabled_disk_templates", "enabled_hypervisors"), _TEXTS),
        **dict.fromkeys(("candidate_pool_size", "max_running_jobs"), _WHOLE),
        **dict.fromkeys(("volume_group_name", "file_storage_dir", "default_iallocator"), _TEXT),
        "beparams": lambda value: type(value) is dict and type(value.get("default")) is dict,
    },
    "group": {
        **dict.fromkeys(("uuid", "name", "alloc_policy"), _TEXT),
        "ipolicy": _OBJECT,
        "tags": _TEXTS,
    },
    "network": {"uuid": _TEXT, "name": _TEXT, "group_list": _list(_LIST)},
    "node": {
        **dict.fromkeys(("uuid", "name", "group.uuid", "pip", "sip"), _TEXT),
        **dict.fromkeys(
            ("master", "master_candidate", "master_capable", "offline", "drained", "vm_capable"),
            _FLAG,
        ),
        **dict.fromkeys(
            ("mtotal", "mnode", "mfree", "dtotal", "dfree", "sptotal", "spfree", "ctotal", "cnos"),
            _NUMBER,
        ),
        "tags": _TEXTS,
        "ndparams": _OBJECT,
    },
    "instance": {
        **dict.fromkeys(
            ("uuid", "name", "pnode", "admin_state", "disk_template", "os", "hypervisor", "status"),
            _TEXT,
        ),
        **dict.fromkeys(("snodes", "tags"), _TEXTS),
        **dict.fromkeys((f"nic.{key}s" for key in ("mac", "ip", "mode", "link")), _OPTIONAL_TEXTS),
        "nic.networks": _OPTIONAL_TEXTS,
        "disk.sizes": _list(_NUMBER),
        "disk.spindles": _LIST,
        "beparams": _OBJECT,
        "oper_ram": _NUMBER,
        "forthcoming": _FLAG,
    },
    "job": {"id": _WHOLE, "status": _TEXT},
    "filter": {"uuid": _TEXT},
}
#: What is known of every cluster.
_ALWAYS: Final = frozenset(
    ("cluster", field)
    for field in (
        *("tags", "enabled_disk_templates", "enabled_hypervisors", "beparams"),
        "candidate_pool_size",
    )
)
#: A forthcoming instance may have no name yet.
_REQUIRED: Final = {"group": "name", "network": "name", "node": "name", "job": "id"}
_NONE: Final[Mapping[str, _Kind]] = MappingProxyType({})


def checked(what: str, row: _Row) -> _Row:
    """The row of an object of a kind; raises ValueError where a field is of another type."""
    kinds = _KINDS.get(what, _NONE)
    for field, value in row.items():
        if value is None:
            if field in ("uuid", _REQUIRED.get(what)) or (what, field) in _ALWAYS:
                raise ValueError(f"a {what} without {field}")
        elif field in kinds and not kinds[field](value):
            raise ValueError(f"{describe(value)} as {field} of a {what}")
    return row


class ClusterInfo(dict[str, Any]):
    """What is known of a cluster as a whole; what should be there and is not is a StewardError."""

    def __init__(self, where: str, info: _Row) -> None:
        """``where``: the daemon.  Raises ValueError where a field is of another type."""
        self._where = where
        super().__init__(checked("cluster", info))

    def __missing__(self, field: str) -> Any:
        raise StewardError(f"{self._where}: this is not what Ganeti 3 returns (no {field})")


def job_number(value: object) -> int:
    """The number of a job; raises ValueError for anything else."""
    if type(value) is not int or value < 1:
        raise ValueError(f"{describe(value)} as the number of a job")
    return value
