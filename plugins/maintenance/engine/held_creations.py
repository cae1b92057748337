"""Job filter rules that hold new instances off a node while it is evacuated."""

from __future__ import annotations

from typing import Final
from uuid import NAMESPACE_URL, uuid5

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.model.finding import EVACUATE, EVACUATE_FAILOVER
from ganeti_steward.plugins.filters.filter_rules import PAUSE, FilterRule

#: The source in the reason trail of such a rule; the text is the incident's uuid.
CREATION_SOURCE: Final = "maintd:held-creations"
#: After the rules that recipes write by default, and before their limits.
_PRIORITY: Final = 90
#: Parameters that name the node.  One rule each: luxid does not match an opcode on which a
#: parameter of the expression is not set.
_FIELDS: Final = ("pnode", "snode")


def rules_of(incident: Incident, now: int) -> tuple[FilterRule, ...]:
    """The rules that are to exist for an incident; ``now``: ns since the epoch."""
    if not incident.state.under_repair or incident.action not in (EVACUATE, EVACUATE_FAILOVER):
        return ()
    reason = Reason(CREATION_SOURCE, incident.uuid, now)
    return tuple(
        FilterRule(
            str(uuid5(NAMESPACE_URL, f"{incident.uuid} {field}")),
            _PRIORITY,
            (["opcode", _names(field, incident.node_name)],),
            PAUSE,
            reasons=(reason,),
        )
        for field in _FIELDS
    )


def _names(field: str, node: str) -> list[object]:
    return ["&", ["=", "OP_ID", "OP_INSTANCE_CREATE"], ["=", field, node]]


def owner_of(rule: FilterRule) -> str:
    """The uuid of the incident a rule belongs to; empty for a rule of others."""
    found = (reason.text for reason in rule.reasons if reason.source == CREATION_SOURCE)
    return next(found, "")
