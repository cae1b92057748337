"""A script as a command of the whitelist."""

from __future__ import annotations

from ganeti_steward.core.model.finding import Finding, Unknown

#: Seconds; far more than any command takes that ends by itself.
LIMIT = 300.0


FINE = """echo '{"status":"Ok"}'"""


def unknown(reason: str) -> Unknown:
    return Unknown("command:raid", reason)


OK = Finding("command:raid", "Ok")
