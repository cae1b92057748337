"""Killed at any moment, what submits jobs loses none and submits none twice."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import clusters
from records import signing_store
from standin_server import process
from thorough import often

from ganeti_steward.plugins.maintenance.queue.job_search import jobs_with_reason
from ganeti_steward.plugins.model.incident import JOB_SOURCE

LIVES: Final = often(12, 300)
INCIDENTS: Final = often(1200, 2000, 1200)

#: One life: finds out what an earlier one has submitted, then goes on, three incidents in a call.
LIFE: Final = """\
import os, sys
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.task import Task
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.maintenance.queue.submit import look_up, noted, submit
from ganeti_steward.plugins.maintenance.engine.decision import Started
from ganeti_steward.plugins.maintenance.queue.calls import Calls
from ganeti_steward.plugins.maintenance.queue.calls import Connections

luxi = Luxi(sys.argv[1])
store = Store(luxi, lambda: b"secretkey0123456789\\n")
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 1}
print("ready", flush=True)
known = dict(store.read_all().incidents)
pending = [one for incident in known.values() for one in incident.open]
why = Connections(luxi.path).awaited()
looked_up = look_up(pending, luxi, Calls(), lambda ids: dict.fromkeys(ids, why) if why else {})
assert not looked_up.awaited, looked_up.awaited
for key, numbers in looked_up.found.items():
    (incident,) = [i for i in known.values() if key in [one.id for one in i.open]]
    found = noted(incident, key, numbers) if numbers else incident._replace(open=())
    store.write(found)
    known[found.uuid] = found
uuids = [f"0f0f0f0f-1111-2222-3333-{n:012}" for n in range(int(sys.argv[2]))]
left = [uuid for uuid in uuids if uuid not in known or not known[uuid].open]
for start in range(0, len(left), 3):
    some = {
        uuid: Incident(uuid, "n", "node", b"{}", "evacuate")._replace(
            open=(Submission(f"{os.getpid()}-{uuid}", "move", (), (), 0),)
        )
        for uuid in left[start : start + 3]
    }
    for incident in some.values():
        store.write(incident)
    task = Task("move", frozenset(), frozenset(), "why", [[DELAY]])
    submit([Started(u, i.open[0].id, task) for u, i in some.items()], some, store, luxi)
"""


def live(socket: str, seconds: float) -> bool:
    """Whether it reached its end before it was killed."""
    command = [sys.executable, "-c", LIFE, socket, str(INCIDENTS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        try:
            return running.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            running.kill()
    return False


def test_killed_at_random_moments(tmp_path: Path) -> None:
    rng = random.Random(7)
    sent = clusters.generate("--nodes=2", "--groups=1", "--mix=drbd=1")
    with process(tmp_path, sent) as luxi:
        socket = luxi.where.removeprefix("luxid at ")
        lives = [live(socket, rng.uniform(0, 0.1)) for _ in range(LIVES)]
        assert not any(lives[:20]), "it ends too soon to be killed"
        until = time.monotonic() + 300
        assert live(socket, until - time.monotonic())
        jobs = jobs_with_reason(luxi, JOB_SOURCE)
        records = signing_store(luxi).read_all()
    submitted = Counter(job.reasons[0][0].text for job in jobs)
    assert set(submitted.values()) == {1}
    assert len(submitted) == INCIDENTS
    assert records.faults == ()
    numbers = {uuid: one.open[0].jobs for uuid, one in records.incidents.items()}
    assert numbers == {job.reasons[0][0].text: (job.number,) for job in jobs}
