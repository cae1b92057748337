"""What is kept of a diagnose object: its hash, and of a large one the part that people need."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Final

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.maintenance.storage import PHYSICAL_VOLUMES, failing_volumes
from ganeti_steward.core.model.finding import is_name

#: Bytes of an object, as text in Ganeti's configuration, that is kept as it is; what is kept of a
#: larger one has at most as many.
LONGEST_KEPT: Final = 3072
#: Bytes in the configuration of the beginning of larger details.
_BEGINNING: Final = 1024
#: Bytes of the name of a command of a larger object, and of the names of its physical volumes.
_COMMAND: Final = 255
_VOLUMES: Final = 1024

#: The member of what is kept of a larger object; it has the object's size and its beginning.
CUT: Final = "cut"

_OBJECT_ID: Final = re.compile(r"[0-9a-f]{64}")


def object_id(original: bytes) -> str:
    """What stands for a diagnose object in canonical form: equal for equal objects only."""
    return sha256(original).hexdigest()


def is_object_id(text: object) -> bool:
    """Whether this may be an object's `object_id`."""
    return isinstance(text, str) and _OBJECT_ID.fullmatch(text) is not None


def kept_of(original: bytes) -> bytes:
    """What is kept of a diagnose object, both in canonical form: of a small one all of it.

    Of a larger one: status, command, the physical volumes it names as failing, and as ``cut`` its
    size in bytes and the beginning of its details.  Where these volumes are too many, none is
    kept: then they are left to people, and no half of them is repaired.
    """
    if _stored(original.decode()) <= LONGEST_KEPT:
        return original
    found: dict[str, Any] = load_json(original)
    kept = {"status": found["status"]}
    command = found.get("command")
    if isinstance(command, str) and is_name(command) and len(command) <= _COMMAND:
        kept["command"] = command
    volumes = list(failing_volumes(original))
    if volumes and _stored(canonical(volumes).decode()) <= _VOLUMES:
        kept["details"] = {PHYSICAL_VOLUMES: volumes}
    beginning = _beginning(canonical(found.get("details")).decode())
    return canonical({**kept, CUT: {"bytes": len(original), "beginning": beginning}})


def _beginning(text: str) -> str:
    """As much of a text as may be kept; it is written as JSON in the object."""
    text = text[:_BEGINNING]
    while _stored(canonical(text).decode()) > _BEGINNING:
        text = text[: len(text) * 3 // 4]
    return text


def _stored(text: str) -> int:
    """Bytes of an ASCII text in Ganeti's configuration, which is JSON."""
    return len(canonical(text))
