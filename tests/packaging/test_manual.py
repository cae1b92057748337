"""What each command's help has after its options; every example is a usable command line."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from functools import cache

import pytest
from asserting import some

from ganeti_steward.core.commands.main import parser
from ganeti_steward.core.commands.manual import Manual, manual_of
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, EXIT_USAGE

#: The type of a size in options; these commands say what their units are.
SIZE_OPTIONS = ("--memory", "--os-size", "--max-copy", "--effort", "--duration", "--until")


@cache
def runnable() -> dict[str, argparse.ArgumentParser]:
    """Each command line that does something, by its words."""

    def below(one: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
        subs = [a for a in one._actions if isinstance(a, argparse._SubParsersAction)]
        if not any(action.required for action in subs):
            yield one
        for action in subs:
            for sub in action.choices.values():
                yield from below(sub)

    return {one.prog: one for one in below(parser())}


def manual(command: str) -> Manual:
    found = manual_of(runnable()[command])
    assert found is not None, f"{command}: add describe(...) beside its options"
    return found


def command_line(example: str) -> list[str]:
    words = shlex.split(example)
    assert words[0] == "gnt-steward"
    return words[1:]


def test_every_command_has_examples_and_exit_statuses() -> None:
    assert len(runnable()) >= 45
    for command in runnable():
        found = manual(command)
        assert found.examples, command
        assert {EXIT_OK, EXIT_FAILURE, EXIT_USAGE} <= set(found.statuses), command


def test_every_example_is_a_command_line_of_its_command() -> None:
    front = parser()
    examples = [(command, one) for command in runnable() for one in manual(command).examples]
    for command, example in some(examples):
        words = command_line(example)
        try:
            front.parse_args(words)
        except SystemExit:
            pytest.fail(f"{command}: {example}")
        assert " ".join(["gnt-steward", *words]).startswith(command)


def test_what_does_not_parse_is_found() -> None:
    with pytest.raises(SystemExit, match="2"):
        parser().parse_args(command_line("gnt-steward capacity --no-such-option"))


def test_units_where_an_option_has_one() -> None:
    for command, one in some(runnable().items()):
        options = {name for action in one._actions for name in action.option_strings}
        if options & {*SIZE_OPTIONS}:
            assert manual(command).units, command


def test_help_prints_all_of_it() -> None:
    for command, one in some(runnable().items()):
        text, found = one.format_help(), manual(command)
        assert all(f"\n  {example}\n" in text for example in found.examples)
        after = " ".join(text.rpartition("exit status:")[2].split())
        assert all(f"{n} {meaning}" in after for n, meaning in found.statuses.items())


def test_commands_of_commands_point_to_their_help() -> None:
    for command in ("filter", "filter recipe", "incident", "reserve", "aggregate"):
        one = parser()
        for word in command.split():
            (subs,) = (a for a in one._actions if isinstance(a, argparse._SubParsersAction))
            one = subs.choices[word]
        assert f"gnt-steward {command} " in (one.epilog or "")
        assert "--help prints options, examples and exit statuses" in (one.epilog or "")
