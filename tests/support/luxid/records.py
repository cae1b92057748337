"""Records of incidents as a daemon with the tests' key writes them."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any, Final

from confd_servers import KEY

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.filters.filter_rules import FilterRule, FilterRules
from ganeti_steward.plugins.filters.rule_notes import RECORD_SOURCE, record_rule
from ganeti_steward.plugins.maintenance.edges.record import (
    SignedRecord,
    Stamp,
    sign_record,
    write_record,
)
from ganeti_steward.plugins.maintenance.edges.store import Records, Store
from ganeti_steward.plugins.model.incident import Incident

if TYPE_CHECKING:
    from standin import StandIn

#: Of the first writing in a cluster that has had no job.
_WRITTEN: Final = Stamp(1, 0)


def signed(incident: Incident, stamp: Stamp = _WRITTEN, key: bytes = KEY) -> SignedRecord:
    """The record of an incident."""
    return sign_record(incident, stamp, key)


def recorded(incident: Incident, stamp: Stamp = _WRITTEN) -> FilterRule:
    """The filter rule of an incident."""
    return record_rule(incident.uuid, signed(incident, stamp).text, 0)


def unsigned(incident: Incident) -> FilterRule:
    """The filter rule of an incident as someone without the key writes it."""
    return record_rule(incident.uuid, write_record(incident), 0)


def signing_store(luxi: Luxi, **more: Any) -> Store:
    """A store with the tests' key."""
    return Store(luxi, lambda: KEY, **more)


def members(incident: Incident) -> dict[str, Any]:
    """What a signed record of an incident says, without its signature."""
    found: dict[str, Any] = json.loads(signed(incident).text)
    del found["hmac"]
    return found


def signed_members(content: dict[str, Any], key: bytes = KEY) -> str:
    """Any record, signed for its incident; as the page says it is done."""
    return signed_text(content["uuid"], json.dumps(content), key)


def signed_text(rule: str, body: str, key: bytes = KEY) -> str:
    """Any text, signed for a rule."""
    own = hmac.new(key, b"gnt-steward: the record of an incident", hashlib.sha256).digest()
    content = f"{rule}\n{body}".encode(errors="surrogatepass")
    found = hmac.new(own, content, hashlib.sha256).hexdigest()
    return f'{body[:-1]},"hmac":"{found}"}}'


def put(stand_in: StandIn, uuid: str, text: str) -> None:
    """Have a rule of the stand-in for luxid hold this text instead, as anybody can."""
    trail = stand_in.filters[uuid]["reason_trail"]
    trail[:] = [[source, text if source == RECORD_SOURCE else old, at] for source, old, at in trail]


NODE = "aaaaaaaa-1111-2222-3333-444444444444"
#: ns; long after all times of these incidents.
LATER = 10**18


def noted(number: int = 1, **more: Any) -> Incident:
    """An incident of one node that is noted; ``number``: which one."""
    uuid = f"0f0f0f0f-1111-2222-3333-{number:012}"
    made = Incident(uuid, NODE, "node2.lab", b'{"status":"evacuate"}', "evacuate")
    return made._replace(tag=made.ready_tag, observed_since=1, **more)


FIRST, SECOND = noted(), noted(2)


def write(luxi: Luxi, rule: FilterRule) -> None:
    """As anybody with write access to RAPI can."""
    FilterRules(luxi).write(rule)


def ignored(records: Records) -> list[str]:
    """Why records are ignored; nothing comes of them, and no node is held."""
    assert (records.incidents, records.faults) == ({}, ())
    start = "filter rule {} is ignored, though it looks like an incident: "
    return [one.text.removeprefix(start.format(one.uuid)) for one in records.notes]
