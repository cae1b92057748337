"""The built-in plugin that posts each change of an incident to a web address."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from ganeti_steward.core import hookimpl
from ganeti_steward.core.errors import PluginError
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.status import change_json
from ganeti_steward.plugins.model.incident import Incident

#: Seconds before each further attempt.
PAUSES: Final = (1.0, 2.0, 4.0, 8.0)

#: Seconds until the connection stands, and until the answer begins.
_LIMITS: Final = (5.0, 10.0)

#: Answers after which another attempt may succeed, in addition to all of 500 and more.
_LATER: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class Webhook:
    """Posts JSON; tries again for a while where the receiver cannot be reached or fails."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """``sleep``: waits for some seconds."""
        self._address, self._sleep = "", sleep

    def configure(self, settings: Maintd) -> None:
        """Take the address."""
        self._address = settings.webhook

    @hookimpl
    def steward_incident_changed(
        self, before: Incident | None, after: Incident | None, event: str, reason: str
    ) -> None:
        """Post the change; raises PluginError after the last attempt."""
        if not self._address:
            return
        content = change_json(before, after, event, reason)
        for pause in (*PAUSES, None):
            fault, final = self._post(content)
            if not fault:
                return
            if final or pause is None:
                break
            self._sleep(pause)
        # Path and query may hold a secret.
        host = urlsplit(self._address).hostname
        raise PluginError("webhook", f"{host} was not notified: {fault}")

    def _post(self, content: bytes) -> tuple[str, bool]:
        """Why an attempt failed, empty when it did not; and whether another one is of no use."""
        # Only where there is a webhook.
        import requests

        from ganeti_steward.core.http_session import Session

        kind = {"Content-Type": "application/json"}
        try:
            # The answer is not read: it may be endless.
            with (
                Session() as session,
                session.post(self._address, data=content, headers=kind, timeout=_LIMITS) as answer,
            ):
                status = answer.status_code
        except requests.RequestException as err:
            return type(err).__name__, False
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return "", True
        later = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER
        return f"HTTP {status}", not later
