"""Plans of moves as text and as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ganeti_steward.allocators.jobs.job_sets import Step
from ganeti_steward.allocators.score.tolerance import TOLERANCE
from ganeti_steward.core.commands.tables import table
from ganeti_steward.core.model.explanation import GroupBalance, Move
from ganeti_steward.core.units import counted

#: Why a plan has no moves.
BALANCED: Final = "Balanced: no allowed move lowers the score."

HEADINGS: Final = ("#", "Instance", "From", "To", "How", "GiB", "Total", "Score", "Lowers")
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


def group_text(group: GroupBalance, nothing: str = BALANCED, *, no_headers: bool = False) -> str:
    """The plan of one group; ``nothing``: the sentence when there are no moves."""
    bound = f"no plan gets below {group.bound:.8f}"
    lines = [f"Group {group.group}: score {group.score_before:.8f}, {bound}\n"]
    if group.moves:
        rows = [row[1:] for row in move_rows(group.moves, "")]
        lines.append(table(HEADINGS, rows, no_headers=no_headers))
        lines.append(f"{_outcome(group)}\n")
    else:
        lines.append(f"{nothing}\n")
    notes = [*group.notes, *_not_emptied(group)]
    return "".join(lines + [f"Note: {note}\n" for note in notes])


def _not_emptied(group: GroupBalance) -> Iterator[str]:
    """The nodes that cannot be emptied when the plan is done, with what has no place then."""
    by_node: dict[str, list[str]] = {}
    for instance, node in (group.health_after.stuck if group.health_after else None) or ():
        by_node.setdefault(node, []).append(instance)
    for node, instances in by_node.items():
        yield f"node {node} cannot be emptied: no place for {', '.join(instances)}"


def _outcome(group: GroupBalance) -> str:
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
