"""What ``gnt-steward check`` prints: a text, shell variables, a list, data."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.allocators.cli.texts import (
    BAD,
    GOOD,
    WARN,
    for_terminal,
    gib,
    group_as_data,
    painted,
    totals,
)
from ganeti_steward.allocators.health import outage, troubles
from ganeti_steward.allocators.health.counts import Checked, Counts
from ganeti_steward.allocators.health.left import has_usable_node
from ganeti_steward.allocators.health.troubles import Item, Trouble
from ganeti_steward.allocators.jobs.job_sets import job_sets
from ganeti_steward.allocators.state.names import short_names
from ganeti_steward.core.commands.tables import (
    WIDTH,
    Value,
    print_fields,
    table,
    terminal_width,
    wrapped,
)
from ganeti_steward.core.errors import few
from ganeti_steward.core.json_reader import counted

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.planning.plan_balance import BalancePlan
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.explanation import GroupHealth

#: What the names of all shell variables begin with.
PREFIX: Final = "GNT_STEWARD_CHECK_"
#: Names shown of each kind, without --verbose.
_SHOWN: Final = 10

#: Fields of the list of counts -> headings.
FIELDS: Final = {
    "group": "Group",
    "count": "Count",
    "severity": "Severity",
    "now": "Now",
    "balanced": "Balanced",
    "names": "Names",
}


#: What each count is called in a table, and in a shell variable (as hcheck calls it).
_WORDS: Final = (
    ("nodes that fail N+1", "N1_FAIL"),
    ("nodes with tag conflicts", "CONFLICT_TAGS"),
    ("instances with an unusable primary", "OFFLINE_PRI"),
    ("instances with an unusable secondary", "OFFLINE_SEC"),
    ("nodes that could not be emptied", "GN1_FAIL"),
)


class Report(NamedTuple):
    """Everything that was found."""

    plan: BalancePlan
    groups: list[Checked]
    troubles: tuple[Trouble, ...]
    """the most severe first"""
    skipped: tuple[str, ...]
    """what was not looked at, each with the reason"""
    failed: tuple[str, ...]
    """names of nodes that are assumed to be offline"""
    outages: tuple[outage.Outage, ...]
    """what that does to their instances"""

    @property
    def cluster(self) -> Cluster:
        """The cluster, with the nodes that are assumed to be offline."""
        return self.plan.cluster

    @property
    def sums(self) -> tuple[Counts, Counts]:
        """The counts of all groups, now and balanced."""
        return (
            Counts.sum([Counts.of(group.before) for group in self.groups]),
            Counts.sum([Counts.of(group.after) for group in self.groups]),
        )


def outage_troubles(outages: Iterable[outage.Outage]) -> Iterator[Trouble]:
    """What a failure of nodes would do, by kind."""
    for kind, effect in (
        ("stay-down", outage.STAYS_DOWN),
        ("restart", outage.RESTARTS),
        ("lose-copy", outage.LOSES_COPY),
    ):
        items = [Item(one.instance, one.target) for one in outages if one.effect == effect]
        yield Trouble(kind, tuple(items))


# The text


def as_text(report: Report, options: argparse.Namespace) -> str:
    """A verdict, a line for each kind of trouble, then each group, then all together."""
    short = {} if options.verbose else _short(report.cluster)
    parts = [_verdict(report, options) + "".join(_lines(report, short, options))]
    if report.failed:
        parts.append(_outages(report, short))
    parts += [_group(group, report.cluster, short, options) for group in report.groups]
    if len(report.groups) > 1:
        rows = _rows(*report.sums, simulated=not options.no_simulation)
        parts += [table(_headings("All groups", options), rows)] if rows else []
    if not options.no_simulation:
        parts.append(_gain(report.plan))
    return "\n".join(parts)


_COLOURS: Final = {"": GOOD, troubles.ADVICE: GOOD, troubles.WARNING: WARN, troubles.ERROR: BAD}


def _verdict(report: Report, options: argparse.Namespace) -> str:
    number = {
        severity: sum(one.severity == severity for one in report.troubles)
        for severity in (troubles.ERROR, troubles.WARNING)
    }
    shown = [counted(count, severity) for severity, count in number.items() if count]
    balanced = "" if options.no_simulation else _balanced(*report.sums)
    verdict = f"{', '.join(shown) or 'No error, no warning'}.{balanced}"
    colour = _COLOURS[troubles.worst(report.troubles)]
    return painted(wrapped(verdict), colour)


def _balanced(before: Counts, after: Counts) -> str:
    """How much of it balancing would fix."""
    if not any(before):
        return ""
    if not any(after):
        return " Balancing would fix all faults of placement."
    fixed = "none" if before == after else "some"
    left = ", ".join(
        f"{count} {word}" for (word, _), count in zip(_WORDS, after, strict=True) if count
    )
    return f" Balancing would fix {fixed} of the faults of placement; left: {left}."


def _lines(report: Report, short: Mapping[str, str], options: argparse.Namespace) -> Iterator[str]:
    """One line for each kind of trouble, and what was looked at."""
    wrap: Callable[[str], str] = for_terminal if options.verbose else wrapped
    for one in report.troubles:
        shown = [_item(item, short) for item in one.items]
        listed = few(shown, None if options.verbose else _SHOWN)
        yield wrap(f"{one.severity}: {one.heading}: {listed}")
    tested = "" if options.no_capacity_checks else ", capacity to empty each node"
    yield wrap(
        "Looked at: status of instances and nodes, N+1, exclusion, location and migration "
        f"tags{tested}{'' if options.no_simulation else ', balance'}."
    )
    if report.skipped:
        yield wrap(f"Not looked at: {'; '.join(report.skipped)}.")


def _item(item: Item, short: Mapping[str, str]) -> str:
    name, node = short.get(item.name, item.name), short.get(item.node, item.node)
    return name + (f" on {node}" if node else "") + (f" ({item.detail})" if item.detail else "")


def _short(cluster: Cluster) -> dict[str, str]:
    """Short names of all nodes and instances; nodes and instances do not share names."""
    nodes = short_names([node.name for node in cluster.nodes])
    return nodes | short_names([instance.name for instance in cluster.instances])


#: What becomes of an instance -> in words; the sum of those in words.
_EFFECTS: Final = {
    outage.RESTARTS: ("restarts on {target}", "would restart elsewhere"),
    outage.STAYS_DOWN: ("stays down: {why}", "would stay down"),
    outage.LOSES_COPY: ("loses its copy, runs on", "would lose a copy"),
    outage.STOPPED: ("is stopped; could start on {target}", "are stopped"),
}


def _outages(report: Report, short: Mapping[str, str]) -> str:
    """What becomes of each instance without the nodes."""
    names = ", ".join(short.get(name, name) for name in report.failed)
    number = {
        words: sum(one.effect == effect for one in report.outages)
        for effect, (_, words) in _EFFECTS.items()
    }
    parts = [f"{count} {words}" for words, count in number.items() if count]
    text = wrapped(f"Without {names}: {', '.join(parts) or 'no instance is concerned'}.")
    rows = [
        (
            short.get(one.instance, one.instance),
            "/".join(short.get(node, node) for node in one.nodes),
            _effect(one, short),
        )
        for one in report.outages
    ]
    headings = ("Instance", "Nodes", "Then")
    return text + (table(headings, rows, width=terminal_width() or WIDTH) if rows else "")


def _effect(one: outage.Outage, short: Mapping[str, str]) -> str:
    text, _ = _EFFECTS[one.effect]
    if one.effect == outage.STOPPED and not one.target:
        text = "is stopped; could not start: {why}"
    why = " ".join(short.get(word, word) for word in one.why.split(" "))
    return text.format(target=short.get(one.target, one.target), why=why)


def _gain(plan: BalancePlan) -> str:
    moves, copied = totals(plan.groups)
    if not moves:
        return "Balancing would move nothing.\n"
    sets = counted(len(job_sets(plan.cluster, plan.jobs)), "job set")
    return f"Balancing would be {counted(moves, 'move')}, {gib(copied)} GiB to be copied, {sets}.\n"


def _headings(title: str, options: argparse.Namespace) -> tuple[str, ...]:
    return (title, "now") if options.no_simulation else (title, "now", "balanced")


def _rows(before: Counts, after: Counts, *, simulated: bool) -> list[tuple[str, ...]]:
    counts = zip(*([before, after] if simulated else [before]), strict=True)
    rows = zip(_WORDS, counts, strict=True)
    return [(word, *map(str, numbers)) for (word, _), numbers in rows if any(numbers)]


def _group(
    group: Checked, cluster: Cluster, short: Mapping[str, str], options: argparse.Namespace
) -> str:
    balance, simulated = group.balance, not options.no_simulation
    rows = _rows(Counts.of(group.before), Counts.of(group.after), simulated=simulated)
    if not group.unusable or has_usable_node(balance, cluster):
        score = (f"score (never below {balance.bound:.8f})", f"{balance.score_before:.8f}")
        rows.append((*score, f"{balance.score_after:.8f}") if simulated else score)
    lines = [table(_headings(f"Group {balance.group}", options), rows)]
    if group.unusable:
        names = [f"{short.get(one.name, one.name)} ({one.condition})" for one in group.unusable]
        line = f"Unusable: {few(names, None if options.verbose else _SHOWN)}"
        lines.append(for_terminal(line) if options.verbose else wrapped(line))
    return "".join(lines + [for_terminal(f"Note: {note}") for note in balance.notes])


# Other forms


def print_counts(report: Report, options: argparse.Namespace) -> None:
    """All counts and scores of the groups, then each kind of trouble; raises StewardError."""
    rows = list[dict[str, Value]]()
    for group in report.groups:
        before, after = Counts.of(group.before), Counts.of(group.after)
        lines = [
            (word, str(now), str(then))
            for (word, _), now, then in zip(_WORDS, before, after, strict=True)
        ]
        scores = (f"{group.balance.score_before:.8f}", f"{group.balance.score_after:.8f}")
        rows += [
            _row(group.balance.group, count, "-", now, then, [])
            for count, now, then in (*lines, ("score", *scores))
        ]
    rows += [
        _row("-", one.kind, one.severity, str(len(one.items)), "-", [i.name for i in one.items])
        for one in report.troubles
    ]
    usual = [name for name in FIELDS if name != "names"]
    if options.no_simulation:
        usual.remove("balanced")
    print_fields(options, FIELDS, usual, rows)


def _row(*values: Value) -> dict[str, Value]:
    return dict(zip(FIELDS, values, strict=True))


def variables(report: Report) -> Iterator[str]:
    """``NAME=value`` for a shell; the names end as hcheck's do."""
    plan, groups = report.plan, report.groups
    for at, group in enumerate(groups):
        yield f"GROUP_UUID_{at}='{group.uuid}'"
    for phase, when, total in zip(("INIT", "FINAL"), ("before", "after"), report.sums, strict=True):
        for at, group in enumerate(groups):
            health: GroupHealth = getattr(group, when)
            yield from _counted(f"{phase}_GROUP_{at}", Counts.of(health))
            score: float = getattr(group.balance, f"score_{when}")
            yield f"{phase}_GROUP_{at}_SCORE={score:.8f}"
        yield from _counted(f"{phase}_CLUSTER", total)
        wrong = not all(getattr(group, when).well for group in groups)
        yield f"{phase}_CLUSTER_NEED_REBALANCE={int(wrong)}"
    for at, group in enumerate(groups):
        yield f"GROUP_{at}_BOUND={group.balance.bound:.8f}"
    moves, copied = totals(plan.groups)
    yield f"MOVES={moves}"
    yield f"COPIED={copied}"
    for severity in (troubles.ERROR, troubles.WARNING):
        yield f"{severity.upper()}S={sum(one.severity == severity for one in report.troubles)}"
    yield "OK=1"


def _counted(name: str, counts: Counts) -> Iterable[str]:
    return (f"{name}_{word}={count}" for (_, word), count in zip(_WORDS, counts, strict=True))


def as_data(report: Report) -> dict[str, object]:
    """Everything for JSON; disk in MiB."""
    moves, copied = totals(report.plan.groups)
    worst = troubles.worst(report.troubles)
    return {
        "well": worst not in (troubles.ERROR, troubles.WARNING),
        "severity": worst,
        "troubles": [
            {
                "kind": one.kind,
                "severity": one.severity,
                "items": [item._asdict() for item in one.items],
            }
            for one in report.troubles
        ],
        "not_looked_at": report.skipped,
        "offline": report.failed,
        "outages": [one._asdict() for one in report.outages],
        "moves": moves,
        "copied": copied,
        "groups": [
            {
                "uuid": group.uuid,
                **group_as_data(group.balance),
                "unusable": {node.name: node.condition for node in group.unusable},
                "before": group.before,
                "after": group.after,
            }
            for group in report.groups
        ],
    }
