"""The built-in gates: what has to agree before a healthy node is taken out for maintenance.

A command has to end with status 0, and Prometheus must know of no firing alert of certain names.
What gives no answer does not agree.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.errors import reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.process.following import ending
from ganeti_steward.core.process.program import run_supervised
from ganeti_steward.core.process.supervisor import supervisor_program
from ganeti_steward.core.process.trusted_program import Forbidden, opened_program
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.model.world import World

#: Seconds the command may take; all it has started is ended after them.
TIME_LIMIT: Final = 30.0
#: Seconds until the connection stands, and until the answer begins.
_LIMITS: Final = (5.0, 10.0)
#: Bytes of the output, and of an answer.
_LONGEST: Final = 2**20
#: Alerts that a sentence names, and characters of what a command has printed.
_SHOWN: Final = 5
_PRINTED: Final = 200


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
        fault = self._fault() if self._command else ""
        return f"the gate command {self._command} {fault}" if fault else None

    def _fault(self) -> str:
        try:
            with opened_program(self._command) as program:
                ended = run_supervised(
                    [self._command],
                    self._time_limit,
                    executable=program,
                    given=b"",
                    output_limit=_LONGEST,
                    start=supervisor_program,
                )
        except Forbidden as err:
            return f"is not run: {err}"
        except OSError as err:
            return f"cannot be run: {reason_of(err)}"
        if ended.fault:
            return f"was {ended.fault}"
        if ended.status == 0:
            return ""
        printed = " ".join(ended.errors[:_PRINTED].decode(errors="replace").split())
        return f"{ending(ended.status)}{': ' * bool(printed)}{printed}"


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
