"""The page of ``gnt-steward filter``: what it shows was printed, and every option is there."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import clusters
import pytest
from daemons import luxid
from records import recorded
from standin import StandIn
from worlds import incident

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.plugins.filters.cli.filter import SUBCOMMANDS
from ganeti_steward.plugins.filters.cli.show import FIELDS
from ganeti_steward.plugins.filters.recipes import PRIORITIES

if TYPE_CHECKING:
    from front import Front

PAGE: Final = (
    Path(__file__).parents[2] / "docs" / "reference" / "commands" / "filter.md"
).read_text()
_OPTION: Final = re.compile(r"--[a-z][a-z-]+")
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


#: Calls that need a queue with certain jobs; what they print is tested with the commands.
_OF_A_QUEUE: Final = ("explain", "diff")


def shown() -> list[tuple[list[str], str]]:
    """Each call of the page with what it prints; ``cat`` shows a file that is read later."""
    text = "".join(re.findall(r"^```\n(.*?)^```\n", PAGE, re.DOTALL | re.MULTILINE))
    found = re.findall(r"^\$ (?:gnt-steward )?(.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
    calls = [(shlex.split(words), printed) for words, printed in found]
    return [(words, printed) for words, printed in calls if words[1] not in _OF_A_QUEUE]


def same(text: str, uuids: dict[str, str]) -> str:
    """The text with its uuids numbered as they come."""
    return UUID.sub(lambda match: uuids.setdefault(match[0], f"<{len(uuids)}>"), text)


def test_what_is_shown_is_printed(
    front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All calls in the order of the page, on a cluster with the record of one incident."""
    cluster = StandIn(clusters.generate("--nodes=2", "--seed=5"))
    record = recorded(incident("node1.lab"))
    (uuid,) = {word for words, _ in shown() for word in words if UUID.fullmatch(word)}
    cluster.replace_filter(
        uuid, record.priority, list(record.predicates), "CONTINUE", [list(record.reasons[0])]
    )
    there, here = dict[str, str](), dict[str, str]()

    def answer(method: str, arguments: list[object]) -> bytes:
        return json.dumps(cluster.call(method, arguments)).encode() + b"\x03"

    monkeypatch.chdir(tmp_path)
    with luxid(tmp_path, answer) as daemon:
        for words, printed in shown():
            if words[0] == "cat":
                (tmp_path / words[1]).write_text(printed)
                continue
            done = front(*words, "--luxi-socket", daemon.path)
            assert same(done.out + done.err, there) == same(printed, here), words


HOW_TO: Final = Path(__file__).parents[2] / "docs" / "how-to" / "drain-the-job-queue.md"


def test_the_steps_of_the_how_to_work_one_after_the_other(front: Front, tmp_path: Path) -> None:
    cluster = StandIn(clusters.generate("--nodes=2", "--seed=5"))
    steps = re.findall(r"^ {4,}gnt-steward (filter .*)$", HOW_TO.read_text(), re.MULTILINE)
    assert len(steps) > 5

    def answer(method: str, arguments: list[object]) -> bytes:
        return json.dumps(cluster.call(method, arguments)).encode() + b"\x03"

    with luxid(tmp_path, answer) as daemon:
        for step in steps:
            done = front(*shlex.split(step), "--luxi-socket", daemon.path)
            assert done.status == 0, (step, done.err)
    assert not any("recipe" in str(rule["reason_trail"]) for rule in cluster.filters.values())


@pytest.mark.parametrize("word", [*SUBCOMMANDS, *FIELDS, *PRIORITIES])
def test_everything_is_on_the_page(word: str) -> None:
    assert re.search(rf"[` ]{word}[` ]", PAGE), f"docs/reference/commands/filter.md lacks {word}"


@pytest.mark.parametrize(
    "what",
    [[one] for one in SUBCOMMANDS if one != "recipe"] + [["recipe", one] for one in PRIORITIES],
)
def test_every_option_is_on_the_page(front: Front, what: list[str]) -> None:
    options = set(_OPTION.findall(front("filter", *what, "--help").out)) - usual_options()
    assert options or what[0] != "recipe"
    for option in options:
        assert f"`{option}" in PAGE, f"docs/reference/commands/filter.md lacks {option}"


@pytest.mark.parametrize("recipe", PRIORITIES)
def test_every_recipe_has_its_priorities_on_the_page(recipe: str) -> None:
    excepting, plain = PRIORITIES[recipe]
    rows = re.findall(rf"^\| `{recipe} NAME.*\| ([^|]+) \|$", PAGE, re.MULTILINE)
    assert rows, f"docs/reference/commands/filter.md: no row for the recipe {recipe}"
    assert {str(excepting), str(plain)} <= set(re.findall(r"\d+", rows[0]))


def usual_options() -> set[str]:
    """Those that have a page of their own, and what argparse adds."""
    parser = argparse.ArgumentParser()
    add_source_options(parser, positional=False)
    return {*_OPTION.findall(parser.format_help()), "--output"}
