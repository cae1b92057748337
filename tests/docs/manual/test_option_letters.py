"""Options of all commands together: one meaning for each letter, and help that fits a terminal."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

import pytest
from asserting import some
from command_parsers import parsers

from ganeti_steward.core.commands.main import main
from ganeti_steward.core.iallocator.main import USAGE

#: What each letter means, in every command that has it.
LETTERS: Final = {
    "-a": "--address",
    "-b": "--bind",
    "-B": "--backend-parameters",
    "-c": "--vcpus",
    "-C": "--print-commands",
    "-d": "--debug",
    "-E": "--evac-mode",
    "-g": "--min-gain",
    "-G": "--group",
    "-h": "--help",
    "-I": "--file",
    "-l": "--max-length",
    "-L": "--luxi",
    "-m": "--rapi",
    "-n": "--node",
    "-o": "--output",
    "-O": "--offline",
    "-p": "--port",
    "-s": "--os-size",
    "-S": "--save",
    "-t": "--disk-template",
    "-U": "--dynu-file",
    "-v": "--verbose",
    "-V": "--version",
    "-X": "--exec",
}

#: Columns of a terminal.
WIDTH: Final = 80


def letters(one: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Each letter of one command, with the first long form of its option."""
    for action in one._actions:
        long = next((name for name in action.option_strings if name.startswith("--")), "")
        yield from ((name, long) for name in action.option_strings if len(name) == 2)


def test_each_letter_means_the_same_everywhere() -> None:
    used = {pair for _, one in parsers() for pair in letters(one)}
    assert used == set(LETTERS.items())


#: What every command has that prints a list.
_LIST: Final = {"-o", "--json", "--no-headers", "--separator"}
#: Its table is one of several forms of the diagnose object, and -o is not its.
_NO_LIST: Final = ("diagnose",)


def test_lists_have_the_same_options() -> None:
    missing = {}
    for words, one in parsers():
        names = {name for action in one._actions for name in action.option_strings}
        if names & (_LIST - {"--json"}) and words != _NO_LIST:
            missing[words] = _LIST - names
    assert len(missing) > 12
    assert not [words for words, options in missing.items() if options]


def test_an_unknown_option_prints_the_usage_of_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, one in some(parsers()):
        if words and not one._subparsers:
            with pytest.raises(SystemExit, match="2"):
                main([*words, "--no-such-option"])
            assert capsys.readouterr().err.startswith(f"usage: gnt-steward {' '.join(words)} ")


#: Options that only commands which submit jobs have.
_SUBMITTING: Final = ("--exec", "--submit", "--dry-run")


def test_every_command_that_submits_jobs_takes_a_reason() -> None:
    found = {one.prog: {a for b in one._actions for a in b.option_strings} for _, one in parsers()}
    submitting = [name for name, options in found.items() if options & {*_SUBMITTING}]
    assert len(submitting) >= 10
    # The reasons of rules are in their file; the one of a pause is an argument.
    elsewhere = ["gnt-steward filter apply", "gnt-steward maintd pause"]
    assert [n for n in submitting if "--reason" not in found[n]] == elsewhere


def test_help_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    found = [(one.prog, line) for _, one in parsers() for line in one.format_help().split("\n")]
    assert len(found) > 500
    found += [("steward-iallocator", line) for line in USAGE.split("\n")]
    assert [one for one in found if len(one[1]) > WIDTH] == []


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["balance", "-t", "file"], "(-t is the disk template in all commands; --text-data reads"),
        (["explain", "-O=--mond", "file"], "(-O names an offline node in all commands; --option "),
        (["balance", "-p"], "(-p is a port in all commands; --print-nodes prints the nodes)"),
        (["balance", "-Z"], "unrecognized arguments: -Z\n"),
    ],
)
def test_a_letter_of_another_tool(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert hint in capsys.readouterr().err
