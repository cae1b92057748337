"""What the tests write to nodes of a lab: reports, commands and configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

DIAGNOSE_COMMAND: Final = "#!/bin/sh\nexec cat /etc/ganeti/diagnose.json\n"
#: A repair command that keeps what it was given, counts its runs, and ends as the test wants it.
REPAIR_COMMAND: Final = """#!/bin/sh
cat > /etc/ganeti/repair-input.json
echo >> /etc/ganeti/repair-runs
while [ -e /etc/ganeti/repair-held ]; do sleep 0.2; done
exit $(cat /etc/ganeti/repair-status)
"""
OK: Final[Mapping[str, Any]] = {"status": "Ok"}
REPAIR: Final[Mapping[str, Any]] = {"status": "live-repair", "command": "lab-repair", "details": 1}
EVACUATE: Final[Mapping[str, Any]] = {"status": "evacuate", "details": {"fan": "stopped"}}
#: A physical volume of each node, and a report that names it.
FAILING: Final = "/dev/lab0"
AILING: Final[Mapping[str, Any]] = {
    "status": "live-repair",
    "details": {"physical_volumes": [FAILING]},
}
FAILOVER: Final[Mapping[str, Any]] = {"status": "evacuate-failover", "details": {"psu": "lost"}}

AGENT_SECTIONS: Final = """
[diagnose]
collectors = []
appear-after = 1
clear-after = 1
directory = "{directory}"
[agent]
interval = 0
max-age = 3600
repair = true
repair-again-after = 0
lock-memory = false
"""
#: The daemon switches nodes off, by the out-of-band program of Ganeti.
FENCING: Final = 'fence = "act"\n'
DAEMON_SECTION: Final = """
[maintd]
report-max-age = 3600
mode = "{mode}"
hold-time = 0
healthy-delay = 2
poll-interval = 1
round-interval = 2
storm-share = 1
incident-pause = 0
command-again-after = 0
retry-delay = 5
audit-file = "{directory}/audit.db"
"""
