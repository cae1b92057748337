"""The counters of records: what a machine has written and read, and its file of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from records import FIRST, LATER, SECOND, ignored, signing_store, unsigned, write

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.filters.filter_rules import FilterRules
from ganeti_steward.plugins.maintenance.edges.counters import Counters
from ganeti_steward.plugins.model.incident import FAILED


@pytest.mark.parametrize("content", ["", "{", "[]", '{"highest": "x"}', '{"counters": {"a": 1.5}}'])
def test_a_damaged_file_of_counters(luxi: Luxi, tmp_path: Path, content: str) -> None:
    """There was one, so records were signed here; what is signed is accepted."""
    path = tmp_path / "counters"
    path.write_text(content)
    signing_store(luxi).write(FIRST)
    store = signing_store(luxi, counters=Counters(str(path)))
    assert store.read_all(rewrite=True) == ({FIRST.uuid: FIRST}, (), ())
    luxi.delete_filter(FIRST.uuid)
    path.write_text(content)
    write(luxi, unsigned(SECOND))
    later = signing_store(luxi, counters=Counters(str(path)))
    assert ignored(later.read_all(rewrite=True)) == ["it is not signed"]


def test_a_file_of_counters_that_cannot_be_written(
    luxi: Luxi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    store = signing_store(luxi, counters=Counters(str(tmp_path / "file" / "counters")))
    store.write(FIRST)
    assert store.read_all() == ({FIRST.uuid: FIRST}, (), ())
    assert f"the counters {tmp_path}/file/counters cannot be written: " in caplog.text


def test_the_master_was_another_node_meanwhile() -> None:
    """Within one round of its daemon: its own writes are later, and do not make others' old."""
    counters = Counters()
    counters.note({"before": 10}, all_signed=True, master=True)
    counters.wrote("own", 30)
    assert not counters.is_old("of the other master", 20)
    assert counters.is_old("put back", 10)
    assert counters.is_old("own", 29)
    counters.note({"own": 30}, all_signed=True, master=True)
    assert counters.is_old("put back", 20)


def test_a_node_that_is_not_the_master_any_more_takes_no_record_for_old(luxi: Luxi) -> None:
    """What it reads is the configuration of before, which has no record of the new master."""
    store = signing_store(luxi, clock=lambda: LATER + 9)
    store.read_all(rewrite=True)
    signing_store(luxi, clock=lambda: LATER + 5).write(FIRST)
    of_new_master = FilterRules(luxi).read().rules[0]
    luxi.delete_filter(FIRST.uuid)
    store.write(SECOND)
    store.read_all()
    write(luxi, of_new_master)
    assert store.read_all(rewrite=True) == ({FIRST.uuid: FIRST, SECOND.uuid: SECOND}, (), ())


def test_the_counters_of_a_clock_that_was_set_back(luxi: Luxi) -> None:
    times = [LATER]
    store = signing_store(luxi, clock=lambda: times[0])
    store.write(FIRST)
    times[0] = 5
    store.write(FIRST._replace(status=FAILED))
    assert signing_store(luxi, clock=lambda: 0).read_all().incidents[FIRST.uuid].status == FAILED


def test_a_first_reading_without_a_won_vote_makes_no_record_old(luxi: Luxi, tmp_path: Path) -> None:
    """Not for the next process of this node's daemon either."""
    path = str(tmp_path / "counters")
    signing_store(luxi).write(FIRST)
    for rewrite in (False, True):
        store = signing_store(luxi, counters=Counters(path))
        assert store.read_all(rewrite=rewrite) == ({FIRST.uuid: FIRST}, (), ())
