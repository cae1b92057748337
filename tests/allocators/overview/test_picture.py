"""Pictures of a cluster: what is drawn is what the values say, and nothing in them is markup."""

from __future__ import annotations

from itertools import pairwise
from typing import Final
from xml.etree import ElementTree

import pytest

from ganeti_steward.allocators.overview import amounts
from ganeti_steward.allocators.overview.amounts import Amount, Filled, FilledGroup, in_words
from ganeti_steward.allocators.overview.bars import DARK, LIGHT, PAIR, Palette, pair
from ganeti_steward.allocators.overview.curve import HEIGHT, Curve, Point
from ganeti_steward.allocators.overview.picture import heading, svg

_SVG: Final = "{http://www.w3.org/2000/svg}"
MEMORY, DISK, CPU = Amount(48 * 1024, 64 * 1024, 8 * 1024), Amount(10, 100), Amount(6, 24)
UNKNOWN: Final = Amount(0, None)


def node(name: str, *notes: str, after: tuple[Amount, ...] = ()) -> Filled:
    return Filled(name, (MEMORY, DISK, CPU), after, notes)


def group(*nodes: Filled, name: str = "default") -> FilledGroup:
    return FilledGroup(node(name), nodes)


def drawn(now: Amount, after: Amount | None = None) -> list[tuple[str, float, float]]:
    """Class, left and width of each shape."""
    root = ElementTree.fromstring(f"<svg>{pair(now, after)}</svg>")
    return [(one.get("class", ""), _share(one, "x"), _share(one, "width")) for one in root]


def _share(shape: ElementTree.Element, name: str) -> float:
    return float(shape.get(name, "").removesuffix("%"))


@pytest.mark.parametrize(
    ("amount", "shapes"),
    [
        (MEMORY, [("track", 0, 100), ("used", 0, 75), ("reserved", 75, 12.5)]),
        (DISK, [("track", 0, 100), ("used", 0, 10)]),
        (
            Amount(90, 100, 30),
            [("track", 0, 100), ("used", 0, 90), ("reserved", 90, 10), ("over", 97, 3)],
        ),
        (Amount(150, 100), [("track", 0, 100), ("used", 0, 100), ("over", 97, 3)]),
        (Amount(-5, 100), [("track", 0, 100), ("used", 0, 0)]),
        (UNKNOWN, [("unknown", 0, 100)]),
        (Amount(7, 0), [("unknown", 0, 100)]),
    ],
)
def test_a_bar(amount: Amount, shapes: list[tuple[str, float, float]]) -> None:
    assert drawn(amount) == shapes


def test_two_bars() -> None:
    root = ElementTree.fromstring(f"<svg>{pair(MEMORY, DISK)}</svg>")
    rows = [(int(one.get("y", "")), int(one.get("height", ""))) for one in root]
    assert len({*rows}) == 2
    (first, height), (second, lower) = sorted({*rows})
    assert first + height < second < second + lower == PAIR
    assert [one for one, *_ in drawn(MEMORY, DISK)].count("planned") == 1
    assert drawn(UNKNOWN, UNKNOWN) == [("unknown", 0, 100)]


def test_words() -> None:
    words = "memory: 48.0GiB of 64.0GiB in use, 8.0GiB reserved for N+1"
    assert in_words("memory", MEMORY) == in_words("memory", MEMORY, MEMORY) == words
    assert in_words("CPU", CPU, Amount(30, 24)) == (
        "CPU: 6 vcpus of 24 vcpus in use; planned: 30 vcpus of 24 vcpus in use, 6 vcpus too much"
    )
    assert in_words("disk", UNKNOWN) == "disk: unknown"
    assert in_words("CPU", Amount(3, None)) == "CPU: 3 vcpus in use, without a known limit"
    assert amounts.change(MEMORY, DISK) == "75 → 10 %"
    assert amounts.change(MEMORY, None) == amounts.change(MEMORY, MEMORY) == "75 %"
    assert amounts.change(UNKNOWN, UNKNOWN) == "unknown"


def test_absolute_figures() -> None:
    assert amounts.absolute("memory", MEMORY) == "48.0 of 64.0 GiB"
    assert amounts.absolute("memory", MEMORY, Amount(40 * 1024, 64 * 1024)) == (
        "48.0 → 40.0 of 64.0 GiB"
    )
    assert amounts.absolute("memory", MEMORY, MEMORY) == "48.0 of 64.0 GiB"
    assert amounts.absolute("disk", Amount(5 * 1024**2, 20 * 1024**2)) == "5.0 of 20.0 TiB"
    assert amounts.absolute("CPU", CPU, Amount(30, 24)) == "6 → 30 of 24 vcpus"
    assert amounts.absolute("disk", UNKNOWN) == ""


def test_a_heading_has_cluster_and_date() -> None:
    assert heading("Balancing", "lab", 1_767_787_200) == "Balancing of lab, 2026-01-07 12:00 UTC"
    assert heading("Capacity", "", 1_767_787_200) == "Capacity, 2026-01-07 12:00 UTC"


def test_a_curve() -> None:
    """From the score without any move to the chosen one, down where the score is lower."""
    curve = Curve("<b>", 4.0, (Point(0, 3.0), Point(20, 3.5), Point(40, 1.0)), 0.5)
    root = ElementTree.fromstring(svg((group(node("n1")),), "Balancing", "", [curve]))
    dots = list(root.iter(f"{_SVG}circle"))
    assert [one.get("class") for one in dots] == ["move", "move", "move", "chosen"]
    across = [float(one.get("cx", "")) for one in dots]
    down = [float(one.get("cy", "")) for one in dots]
    assert across[0] == across[1] < across[2] < across[3]
    assert down[0] < down[2] < down[1] < down[3] < int(root.get("height", ""))
    found = [one.text for one in root.iter(f"{_SVG}text")]
    assert {"group <b>", "4.0000", "0.5000", "40.0 GiB"} <= {*found}
    without = ElementTree.fromstring(svg((group(node("n1")),), ""))
    assert root.get("style") == "max-width:100%;height:auto"
    assert int(root.get("height", "")) == int(without.get("height", "")) + HEIGHT


def test_a_sum() -> None:
    assert amounts.total([MEMORY, UNKNOWN, DISK]) == Amount(49162, 65636, 8192)
    assert amounts.total([UNKNOWN]) == amounts.total([]) == UNKNOWN


def texts(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return [one.text or "" for one in root.iter(f"{_SVG}text")]


def test_a_picture() -> None:
    after = (DISK, MEMORY, CPU)
    nodes = (node("node1.lab", after=after), node("node2.lab", "drained", after=after))
    found = texts(svg((group(*nodes),), "Balancing", "now, and after 3 moves"))
    assert found[:2] == ["Balancing", "now, and after 3 moves"]
    assert [one for one in found if one.startswith(("group", "node"))] == [
        "group default",
        "node1",
        "node2",
    ]
    assert found.count("75 → 10 %") == 2
    assert "when the plan is done" in found
    assert "when the plan is done" not in texts(svg((group(node("n")),), ""))


def test_names_are_no_markup() -> None:
    hostile = "<script>alert(1)</script>\"'&\x00\x1b\ud800"
    long = "x" * 90
    picture = svg(
        (group(node(hostile, hostile), node(long, long), name=hostile),), hostile, hostile
    )
    root = ElementTree.fromstring(picture)
    picture.encode()
    assert {one.tag.removeprefix(_SVG) for one in root.iter()} == {
        *("svg", "style", "defs", "pattern", "rect", "text", "tspan", "title")
    }
    titles = [one.text or "" for one in root.iter(f"{_SVG}title")]
    assert any(one.startswith("<script>alert(1)</script>\"'&") for one in titles)
    assert f"{long}: {long}" in titles
    assert max(map(len, texts(picture))) < 40


def test_many_nodes_keep_their_rows() -> None:
    nodes = tuple(node(f"node{number}.lab") for number in range(200))
    root = ElementTree.fromstring(svg((group(*nodes),), "many"))
    tops = sorted({int(one.get("y", "")) for one in root.findall(f"{_SVG}svg")})
    assert len(tops) == 201
    assert all(second - first > PAIR for first, second in pairwise(tops))
    assert int(root.get("height", "")) > tops[-1] + PAIR


def luminance(colour: str) -> float:
    """Relative luminance by the Web Content Accessibility Guidelines."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_of_black_and_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_can_be_distinguished(palette: Palette) -> None:
    """4.5 for text, 3 for shapes."""
    for ground in (palette.ground, palette.panel):
        for text in (palette.text, palette.muted, palette.link):
            assert contrast(text, ground) >= 4.5
        for text in (palette.bad, palette.warn, palette.good):
            assert contrast(text, ground) >= 4.5
    for shape in (palette.used, palette.planned, palette.reserved, palette.bad):
        assert contrast(shape, palette.track) >= 3
