"""Times that a user writes."""

from __future__ import annotations

from datetime import datetime

import pytest

from ganeti_steward.plugins.maintenance.forecast.deadline import read_deadline

#: A Tuesday.
NOW = datetime(2026, 12, 1, 5, 10, 30)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("06:00", datetime(2026, 12, 1, 6)),
        ("05:10", datetime(2026, 12, 2, 5, 10)),
        ("Sat 06:00", datetime(2026, 12, 5, 6)),
        ("Tue 23:59", datetime(2026, 12, 1, 23, 59)),
        ("Tue 05:00", datetime(2026, 12, 8, 5)),
        ("Mon  05:00", datetime(2026, 12, 7, 5)),
        ("2026-12-01 05:11", datetime(2026, 12, 1, 5, 11)),
        ("2028-02-29 00:00", datetime(2028, 2, 29)),
        ("2026-12-01 05:10", None),
        ("2027-02-29 00:00", None),
        ("24:00", None),
        ("6:00", None),
        ("sat 06:00", None),
        ("Sat", None),
        ("2026-12-05", None),
        ("", None),
    ],
)
def test_what_is_meant(text: str, meant: datetime | None) -> None:
    assert read_deadline(text, NOW) == meant
