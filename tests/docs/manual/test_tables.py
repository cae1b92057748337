"""All commands that print tables are lists, and none is wider than the terminal."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Final

import pytest
from command_parsers import parsers

from ganeti_steward.core.commands.tables import print_fields

WIDTH: Final = 80
#: --output names a file there, and --format json prints the data.
OTHERS: Final = "diagnose"
#: Commands that print a table without being a list.
PLANS: Final = "balance capacity check explain group-evacuate place plugins replay"

LISTS: Final = [
    (words, one)
    for words, one in parsers()
    if words != (OTHERS,)
    and {"--output", "--no-headers", "--separator"} & one._option_string_actions.keys()
]


def test_commands_that_print_tables() -> None:
    assert {words[0] for words, _ in LISTS} >= set(PLANS.split())
    assert len(LISTS) > 15


@pytest.mark.parametrize(("words", "one"), LISTS, ids=lambda value: str(value)[:40])
def test_no_table_is_wider_than_the_terminal(
    words: tuple[str, ...],
    one: argparse.ArgumentParser,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    text = one._option_string_actions["--output"].help or ""
    fields = {name: name.title() for name in re.split(", ", text.partition("known: ")[2])}
    names = [f"node{at}.example.com" for at in range(9)]
    row = dict.fromkeys(fields, "5b0c9f7e-1a2b-4c3d-8e4f-0123456789ab")
    options = argparse.Namespace(output=None, json=False, separator=None, no_headers=False)
    for last in ("a reason of several words that goes on and on " * 3, names):
        rows = [{**row, [*fields][-1]: last}]
        for usual in (list(fields), [*fields][-2:]):
            print_fields(options, fields, usual, rows)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) > 8, words
    assert [line for line in printed if len(line) > WIDTH] == []
