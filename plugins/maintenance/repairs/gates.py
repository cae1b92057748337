"""The built-in gates: what has to agree before a healthy node is taken out for maintenance.

A command has to end with status 0, and Prometheus must know of no firing alert of certain names.
What gives no answer does not agree.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.plugins.maintenance.admin_program import TIME_LIMIT, fault_of
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.model.world import World

#: Seconds until the connection stands, and until the answer begins.
_LIMITS: Final = (5.0, 10.0)
#: Bytes of an answer.
_LONGEST: Final = 2**20
#: Alerts that a sentence names.
_SHOWN: Final = 5


class CommandGate:
    """Runs the program ``[maintd] gate-command``."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        """``time_limit``: seconds."""
        self._command, self._time_limit = "", time_limit

    def configure(self, settings: Maintd) -> None:
        """Take the program's path."""
        self._command = settings.gate_command

    @hookimpl
    def steward_gate(self, world: World) -> str | None:
        """Why it does not agree."""
        fault = fault_of(self._command, self._time_limit) if self._command else ""
        return f"the gate command {self._command} {fault}" if fault else None


class PrometheusGate:
    """Queries ``[maintd] gate-prometheus`` for firing alerts whose names match ``gate-alerts``."""

    def __init__(self) -> None:
        self._address, self._alerts = "", ""

    def configure(self, settings: Maintd) -> None:
        """Take the address and the pattern."""
        self._address = settings.gate_prometheus.rstrip("/")
        self._alerts = settings.gate_alerts

    @hookimpl
    def steward_gate(self, world: World) -> str | None:
        """Which alerts fire, or why that is not known."""
        if not self._address:
            return None
        try:
            firing = sorted(set(map(_shown, self._firing())))
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            return f"Prometheus at {self._address} gave no answer that is understood: {err}"
        except OSError as err:
            return f"Prometheus at {self._address} gave no answer: {type(err).__name__}"
        if not firing:
            return None
        more = len(firing) - _SHOWN
        rest = f" and {more} more" if more > 0 else ""
        return (
            f"{len(firing)} alerts fire whose names match {self._alerts}: "
            f"{', '.join(firing[:_SHOWN])}{rest}"
        )

    def _firing(self) -> list[dict[str, Any]]:
        """The labels of each firing alert; raises OSError, and ValueError and the like."""
        # Only where there is a Prometheus; its exceptions are kinds of OSError.
        from ganeti_steward.core.http_session import Session, read_whole

        pattern = self._alerts.replace("\\", "\\\\").replace('"', '\\"')
        query = f'ALERTS{{alertstate="firing",alertname=~"{pattern}"}}'
        address = f"{self._address}/api/v1/query"
        with (
            Session() as session,
            session.get(address, params={"query": query}, timeout=_LIMITS) as answer,
        ):
            if answer.status_code != HTTPStatus.OK:
                raise ValueError(f"HTTP {answer.status_code}")
            found = load_json(read_whole(answer, _LONGEST))
        if found["status"] != "success":
            raise ValueError(f"its status is {found['status']!a}")
        return [dict(one["metric"]) for one in found["data"]["result"]]


def _shown(labels: dict[str, Any]) -> str:
    where = labels.get("instance")
    return f"{labels['alertname']} ({where})" if where else str(labels["alertname"])
