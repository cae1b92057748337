"""The storage of nodes as the jobs of Ganeti return it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from worlds import incident, instance, node, world

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.jobs import Submitted
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.repairs.reading import nodes_to_read, read_storage
from ganeti_steward.plugins.model.incident import (
    COMPLETED,
    FAILED,
    JOB_SOURCE,
    PENDING,
    Incident,
    Submission,
)
from ganeti_steward.plugins.model.storage import LogicalVolume, NodeStorage, PhysicalVolume
from ganeti_steward.plugins.model.world import Reported, World

ORIGINAL: Final = canonical(
    {"status": "live-repair", "details": {"physical_volumes": ["/dev/sda"]}}
)
REPORT: Final = Reported(ORIGINAL, "live-repair", "", 0)
#: Device, major, minor, percent synced, seconds left, degraded, local state.
GOOD: Final = ["/dev/drbd0", 147, 0, None, None, False, 1]
SYNCING: Final = ["/dev/drbd1", 147, 1, 12.5, 60, True, 1]
LOST: Final = ["/dev/drbd2", 147, 2, None, None, True, 4]


def ailing(**fields: Any) -> Incident:
    return incident("n1", "live-repair", original=ORIGINAL, **{"status": PENDING, **fields})


def seen(*incidents: Incident, tags: Sequence[str] = (), **fields: Any) -> World:
    made = [instance("web", "n1", "n2"), instance("db", "n2", "n1"), instance("x", "n1")]
    return world([node("n1", tags=tags), node("n2")], made, incidents, **fields)


class Queue:
    """luxid with jobs that end as given."""

    def __init__(self, *results: Any, **state: Any) -> None:
        self.jobs: list[Job] = []
        self.trails: list[Sequence[tuple[str, str]]] = []
        self.canceled: list[int] = []
        self._state = JobState(7, **{"status": "success", "results": results, **state})

    def info(self) -> dict[str, Any]:
        return {"volume_group_name": "xenvg"}

    def submit_with_trails(
        self, jobs: Sequence[Job], trails: Sequence[Sequence[tuple[str, str]]]
    ) -> list[Submitted]:
        self.jobs += jobs
        self.trails += trails
        return [Submitted((7,))]

    def states(self, numbers: Sequence[int]) -> list[JobState]:
        return [self._state]

    def cancel(self, number: int) -> str:
        self.canceled.append(number)
        return "canceled"


def read(queue: Any, about: World | None = None) -> NodeStorage:
    found = read_storage(queue, about or seen(ailing()), sleep=lambda seconds: None)
    assert list(found) == ["n1"]
    return found["n1"]


def disks(primary: str, secondary: str, *states: Sequence[Any]) -> dict[str, Any]:
    rows = [{"pstatus": one, "sstatus": other} for one, other in states]
    return {"pnode": primary, "snodes": [secondary], "disks": rows}


def test_one_job_reads_all_of_a_node() -> None:
    queue = Queue(
        [["/dev/sda", 100, False], ["[unknown]", 50, True]],
        [["xenvg", "a.data", "/dev/sda", "web"], ["xenvg", "old", "/dev/sda", "-"]],
        {
            "web": disks("n1", "n2", (GOOD, GOOD), (LOST, SYNCING)),
            "db": disks("n2", "n1", (None, None)),
        },
    )
    assert read(queue) == NodeStorage(
        "xenvg",
        (PhysicalVolume("/dev/sda", 100, False), PhysicalVolume("[unknown]", 50, True)),
        (
            LogicalVolume("xenvg/a.data", "/dev/sda", "web"),
            LogicalVolume("xenvg/old", "/dev/sda", ""),
        ),
        {
            "web": {"n1": "faulty", "n2": "degraded"},
            "db": {"n2": "unknown", "n1": "unknown"},
        },
    )
    (job,) = queue.jobs
    assert [one["OP_ID"] for one in job] == [
        "OP_NODE_QUERY_STORAGE",
        "OP_NODE_QUERYVOLS",
        "OP_INSTANCE_QUERY_DATA",
    ]
    assert job[2]["instances"] == ["db", "web"]


def test_the_job_names_the_incidents_it_is_for() -> None:
    """Job filters and people select it by them; without an incident it has the node's name."""
    queue = Queue([], [], {})
    other = canonical({"status": "live-repair", "details": {"physical_volumes": ["/dev/sdb"]}})
    both = ailing(), ailing(uuid="0")._replace(original=other)
    plain = incident("n1", "live-repair", uuid="1")
    read(queue, seen(*both, plain, ailing(status=FAILED, uuid="2")))
    uuids = [(JOB_SOURCE, uuid) for uuid in sorted(one.uuid for one in both)]
    assert queue.trails == [[*uuids, (JOB_SOURCE, "storage of node n1")]]
    queue = Queue([], [], {})
    read(queue, seen(observations={"n1": REPORT}))
    assert queue.trails == [[(JOB_SOURCE, "storage of node n1")]]


def test_a_job_that_fails_or_lasts_or_returns_something_else() -> None:
    failed = read(Queue(status="error", error="node n1 is down"))
    assert failed.fault == "job 7 ended with error: node n1 is down"
    late = Queue(status="waiting")
    assert read(late).fault == ("job 7 did not end within 20 s: another job may hold its locks")
    assert late.canceled == [7]
    assert read(Queue([["/dev/sda"]], [])).fault.startswith(
        "job 7 did not return what Ganeti 3 returns (ValueError: "
    )


def test_luxid_that_does_not_answer() -> None:
    class Gone(Queue):
        def submit_with_trails(self, jobs: Sequence[Job], trails: object) -> list[Submitted]:
            raise StewardError("luxid does not answer")

    class Refusing(Queue):
        def submit_with_trails(self, jobs: Sequence[Job], trails: object) -> list[Submitted]:
            return [Submitted((), "the queue is full")]

    assert read(Gone()).fault == "luxid does not answer"
    assert read(Refusing()).fault == "the queue is full"


def test_which_nodes_are_read() -> None:
    acknowledged = ailing(status=COMPLETED, acknowledged=True)
    running = Submission("s", "replace-disks", ("n1",), (), 0, (5,))
    reported = {"n1": REPORT}
    assert nodes_to_read(seen(ailing())) == ["n1"]
    assert nodes_to_read(seen(observations=reported)) == ["n1"]
    assert nodes_to_read(seen(acknowledged, tags=[acknowledged.closed_tag])) == ["n1"]
    for about in (
        seen(),
        seen(incident("n1", "live-repair")),
        seen(ailing(status=FAILED), observations=reported),
        seen(ailing(open=(running,)), observations=reported),
        seen(acknowledged, observations=reported),
        seen(incident("n9", "live-repair", original=ORIGINAL)),
    ):
        assert nodes_to_read(about) == []
    assert read_storage(Queue(), seen()) == {}  # type: ignore[arg-type]
