"""Explanations, plans of moves and suggestions as text.

Unless more is wanted, lines fit `WIDTH` columns, and names of nodes lack their domain where only
one can be meant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TextIO

from ganeti_steward.allocators.advice.proposals import PlaceObstacle, Proposal, Proposals
from ganeti_steward.allocators.jobs.job_sets import Step
from ganeti_steward.allocators.score.tolerance import TOLERANCE
from ganeti_steward.core.commands.output import ours
from ganeti_steward.core.commands.tables import table, terminal_width, wrapped
from ganeti_steward.core.commands.terminal import understands_codes
from ganeti_steward.core.json_reader import counted, printable
from ganeti_steward.core.model.explanation import (
    GroupBalance,
    Move,
)

#: Codes of the terminal's own colours, which its user has chosen to be readable.
GOOD: Final = "32"

WARN: Final = "33"

BAD: Final = "31;1"

#: Why a plan has no moves.
BALANCED: Final = "Balanced: no allowed move lowers the score."
#: The same of a plan that only ends faults.
NOTHING_ENDED: Final = "No moves: no fault that a move could end is left."
#: The same where something is left on unusable nodes.
UNMOVED: Final = "No moves: none is allowed that lowers the score."

#: The fields of a list of moves: name -> heading.
FIELDS: Final = {
    "group": "Group",
    "number": "#",
    "instance": "Instance",
    "from": "From",
    "to": "To",
    "how": "How",
    "copied": "GiB",
    "total": "Total",
    "score": "Score",
    "lowers": "Lowers",
}
HEADINGS: Final = tuple(FIELDS.values())[1:]
#: Those that a narrow terminal does not show, the first one first.
_LESS: Final = ("Lowers", "Total", "Score", "GiB")
#: The last headings, which need scores.
SCORED: Final = 2


def move_rows(moves: Iterable[Move | Step], group: str) -> list[tuple[str, ...]]:
    """The moves below `HEADINGS`, each behind its group; steps have no score."""
    rows, total = list[tuple[str, ...]](), 0
    for number, move in enumerate(moves, 1):
        total += move.copied
        score = lowers = ""
        if isinstance(move, Move):
            score, lowers = f"{move.score:.8f}", move.lowers or "-"
        nodes = ("/".join(move.before), "/".join(move.after))
        amounts = (gib(move.copied), gib(total))
        rows.append((group, str(number), move.instance, *nodes, move.how, *amounts, score, lowers))
    return rows


def group_text(
    group: GroupBalance,
    nothing: str = BALANCED,
    *,
    no_headers: bool = False,
    short: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The plan of one group; ``nothing``: the sentence when there are no moves.

    ``short``: names without their domain, for a terminal.
    """
    bound = f"no plan gets below {group.bound:.8f}"
    text = for_terminal(f"Group {group.group}: score {group.score_before:.8f}, {bound}")
    if group.moves:
        text += _moves_table(group.moves, short, no_headers=no_headers)
    after = [_gained(group) if group.moves else nothing]
    after += [f"Note: {note}" for note in (*group.notes, *_not_emptied(group))]
    return text + "".join(map(for_terminal, after))


def _moves_table(moves: Iterable[Move], short: Mapping[str, str], *, no_headers: bool) -> str:
    """All columns; on a terminal those that fit, with short names where whole ones do not."""
    width, rows = terminal_width(), [row[1:] for row in move_rows(moves, "")]
    text = table(HEADINGS, rows, no_headers=no_headers)
    if width is None or _columns(text) <= width:
        return text
    cells = [[_shortened(cell, short) for cell in row] for row in rows]
    for left in range(len(_LESS) + 1):
        shown = [at for at, name in enumerate(HEADINGS) if name not in _LESS[:left]]
        headings, part = (
            [HEADINGS[at] for at in shown],
            [[row[at] for at in shown] for row in cells],
        )
        if _columns(table(headings, part, no_headers=no_headers)) <= width:
            break
    text = table(headings, part, no_headers=no_headers, width=width)
    return text + (f"Not shown: {', '.join(_LESS[:left])} (-o prints all)\n" if left else "")


def _columns(text: str) -> int:
    return max(map(len, text.splitlines()))


def _shortened(cell: str, short: Mapping[str, str]) -> str:
    return "/".join(short.get(name, name) for name in cell.split("/"))


def _not_emptied(group: GroupBalance) -> Iterator[str]:
    """The nodes that cannot be emptied when the plan is done, with what has no place then."""
    by_node: dict[str, list[str]] = {}
    for instance, node in (group.health_after.stuck if group.health_after else None) or ():
        by_node.setdefault(node, []).append(instance)
    for node, instances in by_node.items():
        yield f"node {node} cannot be emptied: no place for {', '.join(instances)}"


def _gained(group: GroupBalance) -> str:
    moves, copied = totals([group])
    share = progress(group)
    gone = "" if share is None else f" ({100 * share:.1f} % of the way to the bound)"
    amount = f"{counted(moves, 'move')}, {gib(copied)} GiB"
    return f"Score {group.score_before:.8f} -> {group.score_after:.8f}{gone}, {amount}"


def group_as_data(group: GroupBalance) -> dict[str, object]:
    """One group for JSON."""
    return {
        "group": group.group,
        "score_before": group.score_before,
        "score_after": group.score_after,
        "bound": group.bound,
        "way": progress(group),
        "moves": group.moves,
        "notes": group.notes,
    }


def totals(groups: Sequence[GroupBalance]) -> tuple[int, int]:
    """Moves, and MiB to be copied."""
    moves = [move for group in groups for move in group.moves]
    return len(moves), sum(move.copied for move in moves)


def progress(group: GroupBalance) -> float | None:
    """The share of the way to the bound that the plan goes; None at the bound already."""
    whole = group.score_before - group.bound
    return (group.score_before - group.score_after) / whole if whole > TOLERANCE else None


def gib(mebibytes: int) -> str:
    """MiB as GiB, for a table."""
    return f"{mebibytes / 1024:.1f}"


def proposals_text(found: Proposals | None, limit: float) -> str:
    """The suggestions, one line each; ``limit``: seconds of CPU the search had."""
    if found is None:
        return ""
    return "\n" + "".join(map(for_terminal, _proposal_lines(found, limit)))


def _proposal_lines(found: Proposals, limit: float) -> Iterator[str]:
    if found.found:
        yield "The request would succeed (each change was tried):"
        yield from (f"- {one.text}" for one in found.found)
    else:
        yield "No change was found with which the request would succeed."
    if found.bounded:
        yield f"The search ended after {limit:g} s of CPU; --effort allows more."


def obstacles_text(found: Sequence[PlaceObstacle] | None, limit: float) -> str:
    """What keeps the instances from a node, and what would remove it."""
    lines = []
    for one in found or ():
        rule = f"{one.rule}: " if one.rule else ""
        lines += ["", f"{one.instance} on {one.node} as {one.role}: {rule}{one.reason}"]
        lines += _proposal_lines(one.proposals, limit) if one.proposals else ()
    return "".join(for_terminal(line) if line else "\n" for line in lines)


def moves_script(proposal: Proposal, name: str) -> str:
    """The moves of a proposal as commands, each with what it copies."""
    lines, number = [], len(proposal.moves)
    for at, move in enumerate(proposal.moves, 1):
        places = f"{'/'.join(move.before)} -> {'/'.join(move.after)}"
        copied = f"copies {move.copied / 1024:.1f} GiB" if move.copied else "copies nothing"
        lines += [f"# move {at} of {number}: {move.instance} {places}, {copied}", *move.commands]
    lines.append(f"# then {name} fits on {'/'.join(proposal.nodes)}")
    return "".join(f"{line}\n" for line in lines)


def for_terminal(text: str) -> str:
    """A sentence wrapped where it is printed on a terminal, otherwise in one line, for grep."""
    width, line = terminal_width(), printable(text)
    return f"{line}\n" if width is None else wrapped(line, width)


def painted(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, where ``stream`` (default: standard output) shows any.

    ``colour``: one of the codes above; empty: as it is.  Line ends stay outside.
    """
    out = sys.stdout if stream is None else stream
    body = text.rstrip("\n")
    if not body or not colour or os.environ.get("NO_COLOR") or not understands_codes(out):
        return text
    begin, end = ours(f"\x1b[{colour}m"), ours("\x1b[0m")
    return f"{begin}{body}{end}{text[len(body) :]}"
