#!/usr/bin/env python3
"""Write the man pages into a directory, made from what the program declares.

    .venv/bin/python contrib/packaging/man_pages.py DIRECTORY

``gnt-steward(8)`` and one page for each command come from the parsers, ``steward.toml(5)`` from the
declarations of the sections, ``steward-iallocator(7)`` from the usage of that program.  The date is
SOURCE_DATE_EPOCH, or today.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from roff import (
    bold,
    escaped,
    example,
    filled,
    heading,
    italic,
    paragraphs,
    sub_heading,
    tagged,
    wrapped,
)

from ganeti_steward.core.commands.config_texts import ABOUT, default_of, sections
from ganeti_steward.core.commands.main import parser as front_door
from ganeti_steward.core.commands.manual import STATUSES, Manual, manual_of, sentence
from ganeti_steward.core.commands.registry import built_in_commands
from ganeti_steward.core.config.values import ENVIRONMENT
from ganeti_steward.core.iallocator.main import USAGE
from ganeti_steward.core.model.command import Command
from ganeti_steward.core.version import VERSION

#: The group of options that many commands share, printed once in a page.
SHARED = "cluster"

FILES: Mapping[str, str] = {
    "/etc/ganeti/steward.toml": "the configuration, see steward.toml(5); it need not exist",
    "/var/lib/ganeti-steward": "kept requests, the audit log, the state of the self-diagnosis",
    "/var/log/ganeti/steward.log": "the log, unless configured otherwise",
}
VARIABLES: Mapping[str, str] = {
    ENVIRONMENT: "another configuration file; it has to exist",
    "GNT_STEWARD_RAPI_USER": "the user for --rapi",
    "GNT_STEWARD_RAPI_PASSWORD": "and the password",
}
IALLOCATOR = """
Ganeti calls this program on the master node, as root, for `gnt-instance add -I steward`, and for
every placement where `steward` is the default allocator of the cluster
(`gnt-cluster modify -I steward`). It is found by the name `steward` in Ganeti's directory for
allocators, see `gnt-steward-install-iallocator(8)`.

It reads one request (JSON, as Ganeti documents for allocators) from FILE and prints one answer. A
refusal is an answer, with `success` false and the number of nodes that each rule refuses.
`gnt-steward explain --last` prints all reasons afterwards.
"""


class Page(NamedTuple):
    """One page as a file."""

    name: str
    section: int
    text: str

    @property
    def file(self) -> str:
        return f"{self.name}.{self.section}"


def pages(date: str) -> Iterator[Page]:
    """All pages; ``date``: YYYY-MM-DD."""
    top = front_door()
    yield _page("gnt-steward", 8, "placement and repair for Ganeti clusters", _top(top), date)
    commands = built_in_commands()
    for name, parser in sub_parsers(top).items():
        command = commands[name].command
        body = _command(command, parser)
        yield _page(f"gnt-steward-{name}", 8, command.description, body, date)
    yield _page("steward.toml", 5, "configuration of Ganeti Steward", _toml(), date)
    yield _page("steward-iallocator", 7, "the allocator that Ganeti calls", _iallocator(), date)


def _page(name: str, section: int, purpose: str, body: Iterable[str], date: str) -> Page:
    title = escaped(name.upper())
    lines = [
        f'.TH "{title}" {section} "{date}" "ganeti\\-steward {VERSION}" "Ganeti Steward"',
        heading("name"),
        wrapped(rf"{escaped(name)} \- {escaped(purpose)}"),
        *body,
    ]
    return Page(name, section, "".join(f"{one}\n" for one in lines))


def sub_parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands right below a parser, by name."""
    return {
        name: sub
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, sub in action.choices.items()
    }


def _top(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield from (heading("synopsis"), _usage(parser), heading("description"))
    yield filled(
        "Each command has a page of its own, and prints its options, examples and exit statuses "
        "with --help."
    )
    for name, one in built_in_commands().items():
        yield from tagged(
            bold(f"gnt-steward-{name}(8)"), [filled(sentence(one.command.description))]
        )
    yield heading("options")
    yield from _options(parser._optionals, parser)
    yield heading("exit status")
    yield filled("Unless the page of a command says otherwise:")
    yield from _words({str(number): text for number, text in STATUSES.items()})
    yield heading("environment")
    yield from _words(VARIABLES)
    yield heading("files")
    yield from _words(FILES)
    yield from _see("steward.toml(5)", "steward-iallocator(7)", "ganeti(7)", "gnt-instance(8)")


def _command(command: Command, parser: argparse.ArgumentParser) -> Iterator[str]:
    leaves = list(_leaves(parser))
    yield heading("synopsis")
    for at, (_, leaf) in enumerate(leaves):
        yield from ([".br"] if at else [])
        yield _usage(leaf)
    yield from (heading("description"), filled(sentence(command.description)))
    if command.package:
        yield filled(f"It is in the Debian package {command.package}.")
    if leaves == [("", parser)]:
        yield from _leaf(parser, heading)
    else:
        for path, leaf in leaves:
            yield heading(path or "without a sub-command")
            if path:
                yield filled(" ".join((leaf.description or "").split()))
            yield from _leaf(leaf, sub_heading)
    shared = next((group for _, leaf in leaves for group in _groups(leaf, shared=True)), None)
    if shared is not None:
        owner = next(leaf for _, leaf in leaves if shared in leaf._action_groups)
        yield from (heading("cluster options"), filled(shared.description or ""))
        yield from _options(shared, owner)
    yield from (heading("files"), *_words(FILES))
    yield from _see("gnt-steward(8)", "steward.toml(5)")


def _leaves(
    parser: argparse.ArgumentParser, path: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parsers that describe something to run, each with its words after the command's."""
    if manual_of(parser) is not None:
        yield path, parser
    for name, sub in sub_parsers(parser).items():
        yield from _leaves(sub, f"{path} {name}".strip())


def _leaf(parser: argparse.ArgumentParser, head: object) -> Iterator[str]:
    """Arguments, options and manual of what can be run; ``head``: makes a heading."""
    assert callable(head)
    for group in _groups(parser, shared=False):
        yield head("arguments" if group is parser._positionals else "options")
        yield from _options(group, parser)
    manual = manual_of(parser)
    assert manual is not None
    yield from _manual(manual, head)


def _manual(manual: Manual, head: object) -> Iterator[str]:
    assert callable(head)
    for title, words in manual.lists.items():
        yield from (head(title), *_words(words))
    if manual.units:
        yield from (head("units"), filled(manual.units))
    yield head("examples")
    for command, text in manual.examples.items():
        yield from tagged(bold(command), [filled(sentence(text))])
    yield head("exit status")
    yield from _words({str(number): text for number, text in sorted(manual.statuses.items())})


def _groups(parser: argparse.ArgumentParser, *, shared: bool) -> Iterator[argparse._ArgumentGroup]:
    for group in parser._action_groups:
        if (group.title == SHARED) == shared and any(map(_shown, group._group_actions)):
            yield group


def _shown(action: argparse.Action) -> bool:
    return action.help is not argparse.SUPPRESS and not isinstance(
        action, argparse._SubParsersAction
    )


def _options(group: argparse._ArgumentGroup, parser: argparse.ArgumentParser) -> Iterator[str]:
    formatter = parser._get_formatter()
    for action in filter(_shown, group._group_actions):
        text = formatter._expand_help(action) if action.help else ""
        yield from tagged(_tag(action, formatter), [filled(text) or r"\&"])


def _tag(action: argparse.Action, formatter: argparse.HelpFormatter) -> str:
    """An option with its value, or an argument."""
    value = formatter._format_args(action, action.metavar or action.dest)
    if not action.option_strings:
        return italic(action.metavar if isinstance(action.metavar, str) else action.dest)
    value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
    return ", ".join(
        bold(name) + (f" {italic(value)}" if value else "") for name in action.option_strings
    )


def _usage(parser: argparse.ArgumentParser) -> str:
    words = " ".join(parser.format_usage().split()).removeprefix("usage: ")
    words = re.sub(r" \[-L\].*?\[-I FILE\]", " [cluster options]", words)
    if manual_of(parser) is not None:
        # A command that runs without a sub-command; its sub-commands have lines of their own.
        words = re.sub(r" [A-Z]+ \.\.\.$", "", words)
    return wrapped(bold(parser.prog) + escaped(words.removeprefix(parser.prog)))


def _words(words: Mapping[str, str]) -> Iterator[str]:
    for word, text in words.items():
        yield from tagged(bold(word), [filled(sentence(text))])


def _see(*others: str) -> Iterator[str]:
    yield heading("see also")
    for at, name in enumerate(others):
        page, _, section = name.partition("(")
        comma = "," if at < len(others) - 1 else ""
        yield f'.BR "{escaped(page)}" "({section}{comma}"'


def _toml() -> Iterator[str]:
    yield heading("synopsis")
    yield bold("/etc/ganeti/steward.toml")
    yield heading("description")
    yield filled(
        "The file is TOML. It need not exist: a section or key that is missing has its default."
    )
    yield ".PP"
    yield from paragraphs(ABOUT)
    yield heading("examples")
    yield from example('[allocators]\nallocate = ["balanced"]\n\n[maintd]\nmode = "observe"')
    for section in sections():
        yield heading(section.title)
        yield filled(section.text)
        for alike in section.rows:
            tag = ", ".join(bold(key.name) for key in alike)
            key = alike[0]
            text = f"{key.text} Value: {key.kind.text}. Default: {default_of(key)}."
            yield from tagged(tag, [filled(text)])
    yield from _see("gnt-steward(8)", "gnt-steward-check-config(8)", "steward-iallocator(7)")


def _iallocator() -> Iterator[str]:
    usage, _, rest = USAGE.partition("\n\n")
    yield from (heading("synopsis"), filled(usage.removeprefix("usage: ")))
    yield from (heading("description"), *paragraphs(IALLOCATOR))
    yield heading("options")
    yield filled("Ganeti passes what gnt-cluster modify --default-iallocator-params has set.")
    for option, text in re.findall(r"^  (-\S+(?:, --\S+)?)\s{2,}(.+)$", rest, re.MULTILINE):
        yield from tagged(bold(option), [filled(sentence(text))])
    yield from (".PP", filled(rest.rpartition("\n\n")[2].strip()))
    yield heading("examples")
    yield from example(
        "gnt-instance add -I steward -t drbd -s 20G -B memory=4G -o noop web1\n"
        "gnt-cluster modify -I steward\n"
        "gnt-cluster modify --default-iallocator-params=mond=yes"
    )
    yield heading("exit status")
    yield from _words(
        {
            "0": "the answer was printed, also that of a refusal",
            "1": "the request or the configuration cannot be used; the reason is on standard error",
        }
    )
    yield from (heading("files"), *_words(FILES))
    yield from _see("gnt-steward(8)", "gnt-steward-explain(8)", "steward.toml(5)", "hail(1)")


def main() -> None:
    directory = Path(sys.argv[1])
    now = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    for page in pages(time.strftime("%Y-%m-%d", time.gmtime(now))):
        place = directory / f"man{page.section}"
        place.mkdir(parents=True, exist_ok=True)
        (place / page.file).write_text(page.text)


if __name__ == "__main__":
    main()
