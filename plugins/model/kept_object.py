"""What a record keeps of a diagnose object and of texts that come from nodes.

The hash stands for the object; of a large one only the part is kept that people need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.model.finding import PHYSICAL_VOLUMES, is_name
from ganeti_steward.plugins.model.storage import failing_volumes

#: Bytes of an object, as text in Ganeti's configuration, that is kept as it is; what is kept of a
#: larger one has at most as many.
LONGEST_KEPT: Final = 4096
#: Bytes in the configuration of the beginning of larger details.
_BEGINNING: Final = 2048
#: Bytes of the name of a command of a larger object, and of the names of its physical volumes.
_COMMAND: Final = 255
_VOLUMES: Final = 1024

#: The member of what is kept of a larger object; it has the object's size and its beginning.
CUT: Final = "cut"


def kept_of(original: bytes) -> bytes:
    """What is kept of a diagnose object, both in canonical form: of a small one all of it.

    Of a larger one: status, command, the physical volumes it names as failing, and as ``cut`` its
    size in bytes and the beginning of its details.  Where these volumes are too many, none is
    kept: then they are left to people, and no half of them is repaired.
    """
    if _stored(original.decode()) <= LONGEST_KEPT:
        return original
    found: dict[str, Any] = load_json(original)
    # A record that others wrote need not have one.
    kept = {"status": found.get("status")}
    command = found.get("command")
    if isinstance(command, str) and is_name(command) and len(command) <= _COMMAND:
        kept["command"] = command
    volumes = list(failing_volumes(original))
    if volumes and _stored(canonical(volumes).decode()) <= _VOLUMES:
        kept["details"] = {PHYSICAL_VOLUMES: volumes}
    beginning = shortened(canonical(found.get("details")).decode(), _BEGINNING)
    return canonical({**kept, CUT: {"bytes": len(original), "beginning": beginning}})


def beginning_of(kept: Mapping[str, Any]) -> str:
    """The beginning of the details of an object of which a part was kept; empty without one."""
    cut = kept.get(CUT)
    found = cut.get("beginning") if isinstance(cut, dict) else ""
    return found if isinstance(found, str) else ""


def shortened(text: str, limit: int) -> str:
    """The beginning of a text that takes at most so many bytes as a member of a record."""
    whole, text = text, text[:limit]
    while _stored(canonical(text).decode()) > limit:
        text = text[: len(text) * 3 // 4]
    return text if text == whole else f"{text}..."


def _stored(text: str) -> int:
    """Bytes of an ASCII text in Ganeti's configuration, which is JSON."""
    return len(canonical(text))
