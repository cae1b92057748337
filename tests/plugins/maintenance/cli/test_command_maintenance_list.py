"""``gnt-steward maintenance list --watch``."""

from __future__ import annotations

import pytest

from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.cli.planned.maintenance_list import follow


def test_it_looks_until_all_have_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """A look that fails later is tried again."""
    looks = iter([True, StewardError("luxid is stopped"), False])

    def look() -> bool:
        found = next(looks)
        if isinstance(found, StewardError):
            raise found
        return found

    slept: list[float] = []
    follow(look, 7, slept.append)
    assert slept == [7, 7]
    assert "luxid is stopped; it is tried again" in capsys.readouterr().err


def test_nothing_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    follow(lambda: False, 7, lambda seconds: pytest.fail("it waits"))
    assert capsys.readouterr().out == ""


def test_the_first_look_must_succeed() -> None:
    def look() -> bool:
        raise StewardError("luxid is stopped")

    with pytest.raises(StewardError, match="luxid is stopped"):
        follow(look, 7, lambda seconds: None)
