"""After the operator's word: a physical volume is opened again, or stays closed."""

from __future__ import annotations

from typing import Any

import pytest
from storage_worlds import ACKNOWLEDGED, OK, A, B, ailing, lvm, now, report, task, waiting
from worlds import uuid_of

from ganeti_steward.core.model.finding import MISSING
from ganeti_steward.plugins.model.incident import FAILED
from ganeti_steward.plugins.model.operations import remove_tags, set_allocatable
from ganeti_steward.plugins.model.storage import NodeStorage
from ganeti_steward.plugins.model.world import Reported, Silent, World


def opened(storage: NodeStorage, **more: Any) -> World:
    fine = {"n1": OK, **more.pop("silent", {})}
    return now(storage, closed_for=ACKNOWLEDGED, silent=fine, **more)


def test_it_is_opened() -> None:
    found = task(ACKNOWLEDGED, opened(lvm()))
    untag = remove_tags("node", "n1", [ACKNOWLEDGED.closed_tag])
    assert found.jobs == [[set_allocatable("n1", A, True), untag]]
    assert found.step == "open-volume"
    assert task(ACKNOWLEDGED, opened(lvm(closed=()))).jobs == [[untag]]


@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        (opened(lvm(), silent={"n1": Silent(0, "no")}), "node n1 gives no valid report"),
        (
            opened(lvm(), silent={"n1": Reported(report(A), "live-repair", "", 0)}),
            "node n1 still reports /dev/sda",
        ),
        (
            opened(lvm(volumes=(A, MISSING))),
            "a physical volume of the node is missing, LVM changes nothing then",
        ),
        (
            opened(lvm(volumes=[B])),
            "the node has no physical volume /dev/sda; add it to the volume group, or remove the "
            f"tag {ACKNOWLEDGED.closed_tag}",
        ),
        (
            opened(lvm(), incidents=[ailing(A, B, number=2, status=FAILED)]),
            f"incident {uuid_of('n1 live-repair 2')} (failed) names it, too",
        ),
    ],
    ids=["silent", "still reported", "missing", "not there", "another incident"],
)
def test_it_stays_closed(seen: World, sentence: str) -> None:
    assert waiting(ACKNOWLEDGED, seen) == f"/dev/sda of node n1 stays closed: {sentence}"
