"""Suggestions as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ganeti_steward.core.commands.tables import for_terminal
from ganeti_steward.core.model.explanation import Obstacle, Proposal, Proposals


def proposals_text(found: Proposals | None, limit: float) -> str:
    """The suggestions, one line each; ``limit``: seconds of CPU the search had."""
    if found is None:
        return ""
    return "\n" + "".join(map(for_terminal, _lines(found, limit)))


def _lines(found: Proposals, limit: float) -> Iterator[str]:
    if found.found:
        yield "The request would succeed (each change was tried):"
        yield from (f"- {one.text}" for one in found.found)
    else:
        yield "No change was found with which the request would succeed."
    if found.bounded:
        yield f"The search ended after {limit:g} s of CPU; --effort allows more."


def obstacles_text(found: Sequence[Obstacle] | None, limit: float) -> str:
    """What keeps the instances from a node, and what would remove it."""
    lines = []
    for one in found or ():
        rule = f"{one.rule}: " if one.rule else ""
        lines += ["", f"{one.instance} on {one.node} as {one.role}: {rule}{one.reason}"]
        lines += _lines(one.proposals, limit) if one.proposals else ()
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
