"""Definitions of a uid pool, read by us and by Ganeti's own code."""

from __future__ import annotations

from pathlib import Path

import pytest
from uid_pools import ganeti, with_ganeti

from ganeti_steward.diagnose.sources.uid_pool import (
    Pool,
    UidPoolError,
    parse_pool,
    read_pool,
)

DEFINITIONS = [
    ("", []),
    ("1000", [(1000, 1000)]),
    ("1000-5000,8000,9000-9010", [(1000, 5000), (8000, 8000), (9000, 9010)]),
    ("9000, 1000-1001", [(1000, 1001), (9000, 9000)]),
    (",5,,6,", [(5, 5), (6, 6)]),
    ("7 - 9", [(7, 9)]),
    ("0-4294967295", [(0, 4294967295)]),
    ("5-6,5-6,5", [(5, 5), (5, 6), (5, 6)]),
]


BAD_DEFINITIONS = [
    ("a", "'a' is neither a user id nor a range of user ids"),
    ("1-2-3", "'1-2-3' has more than one dash"),
    ("-5", "'-5' is neither a user id nor a range of user ids"),
    ("5-", "'5-' is neither a user id nor a range of user ids"),
    ("1, ", "' ' is neither a user id nor a range of user ids"),
    ("1.5", "'1.5' is neither a user id nor a range of user ids"),
    ("9-8", "'9-8' ends below its beginning"),
    ("4294967296", "'4294967296' is above the highest user id, 4294967295"),
    (
        "b,3-2,7",
        "'b' is neither a user id nor a range of user ids; '3-2' ends below its beginning",
    ),
]


@pytest.mark.parametrize(("text", "ranges"), DEFINITIONS)
def test_definitions(text: str, ranges: list[tuple[int, int]]) -> None:
    assert parse_pool(text) == ranges
    assert parse_pool(text.replace(",", "\n"), "\n") == ranges


@pytest.mark.parametrize(("text", "fault"), BAD_DEFINITIONS)
def test_bad_definitions(text: str, fault: str) -> None:
    with pytest.raises(UidPoolError) as caught:
        parse_pool(text)
    assert str(caught.value) == f"uid pool: {fault}"


@with_ganeti
@pytest.mark.parametrize(("text", "ranges"), DEFINITIONS)
def test_definitions_as_ganeti_reads_them(
    locks: str, text: str, ranges: list[tuple[int, int]]
) -> None:
    ((found, written),) = ganeti(locks, "parse", text, ",")
    assert [tuple(pair) for pair in found] == ranges
    # What Ganeti shows of a pool is a definition again.
    assert parse_pool(written) == ranges


@with_ganeti
@pytest.mark.parametrize(("text", "fault"), BAD_DEFINITIONS)
def test_definitions_ganeti_refuses_too(locks: str, text: str, fault: str) -> None:
    (found,) = ganeti(locks, "parse", text, ",")
    assert isinstance(found, str)


def test_ssconf(tmp_path: Path) -> None:
    pool = Pool(str(tmp_path / "ssconf_uid_pool"), "")
    with pytest.raises(UidPoolError, match="ssconf_uid_pool cannot be read"):
        read_pool(pool)
    for text, ranges in [("", []), ("\n", []), ("100-200\n300\n", [(100, 200), (300, 300)])]:
        Path(pool.definition).write_text(text)
        assert read_pool(pool) == ranges
    Path(pool.definition).write_bytes(b"\xff")
    with pytest.raises(UidPoolError, match="cannot be read"):
        read_pool(pool)
