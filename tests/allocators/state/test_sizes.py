"""Sizes as Ganeti's commands take them."""

from __future__ import annotations

import pytest

from ganeti_steward.allocators.state.sizes import UNITS, format_size, parse_size
from ganeti_steward.core.errors import StewardError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512", 512),
        ("512m", 512),
        ("512MiB", 512),
        ("4g", 4096),
        ("4 GB", 4096),
        ("1.5t", 1572864),
        ("1", 4),
        ("513", 516),
        ("0.1g", 104),
        ("0", 0),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "g", "4x", "4gg", "-4", "4 g b", "1,5g", "4b", "4ib", "٤", "4e3", "9999999999t"]
)
def test_no_sizes(text: str) -> None:
    with pytest.raises(StewardError, match=r"a size such as 512, 4g|out of range"):
        parse_size(text)


@pytest.mark.parametrize(
    ("mebibytes", "texts"),
    [
        (0, ("0M", "0", "0.0", "0.0")),
        (1023, ("1023M", "1023", "1.0", "0.0")),
        (1024, ("1.0G", "1024", "1.0", "0.0")),
        (31130, ("30.4G", "31130", "30.4", "0.0")),
        (1024**2, ("1.0T", "1048576", "1024.0", "1.0")),
    ],
)
def test_printed_sizes(mebibytes: int, texts: tuple[str, ...]) -> None:
    """As Ganeti 3.0.2 prints them with --units=h, m, g and t (`utils.FormatUnit`)."""
    assert tuple(format_size(mebibytes, units) for units in UNITS) == texts
