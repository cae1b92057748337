"""The plugin ``rebalance``: the first moves of the balance engine's plan, on what remains.

It looks at the world only.  Each round makes another plan, so that nothing is carried out
that was right an hour ago.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from uuid import NAMESPACE_URL, uuid5

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.cluster import Group
from ganeti_steward.core.model.context import Context
from ganeti_steward.plugins.maintenance.config import Rebalance
from ganeti_steward.plugins.maintenance.rebalance.remaining import NAME, Remaining, remaining
from ganeti_steward.plugins.model.task import RoutinePlan, Wait
from ganeti_steward.plugins.model.world import World

if TYPE_CHECKING:
    from ganeti_steward.plugins.maintenance.rebalance.moves import Groups

_SECOND: Final = 10**9


class Rebalancing:
    """The plugin."""

    CONFIG: Final = Rebalance

    def __init__(self) -> None:
        self._settings = Rebalance()

    def configure(self, settings: Rebalance) -> None:
        """``settings``: the section ``[rebalance]``."""
        self._settings = settings

    @hookimpl
    def steward_routine(self, world: World, context: Context) -> list[RoutinePlan]:
        """Moves for each group whose score is above the threshold, and why not more."""
        # It imports the engine, which a daemon without balancing does not need.
        from ganeti_steward.allocators.loads.load_reports import NoLoads
        from ganeti_steward.plugins.maintenance.rebalance.moves import Groups, loaded

        if self._settings.fault:
            return [Wait(f"nothing is moved: {self._settings.fault}")]
        try:
            world = world._replace(cluster=loaded(world, self._settings))
        except NoLoads as err:
            return [Wait(f"nothing is moved: the CPU load is not known: {err}")]
        groups = Groups(world, context, self._settings)
        if self._settings.by_load:
            return self._by_load(world, groups)
        even, plans = list[str](), list[RoutinePlan]()
        for group in sorted(world.groups.values(), key=lambda one: (one.name, one.uuid)):
            score = groups.score(group.uuid)
            if score is None:
                continue
            if score <= self._settings.threshold:
                even.append(f"{group.name} ({score:.3f})")
            else:
                plans += self._group(world, group, score, groups)
        if even:
            text = f"the score is not above the threshold of {self._settings.threshold:g}: "
            plans.append(Wait(text + ", ".join(even)))
        return plans

    def _by_load(self, world: World, groups: Groups) -> list[RoutinePlan]:
        """Moves for each group whose load has been uneven for long enough, and why not more."""
        settings, even, plans = self._settings, list[str](), list[RoutinePlan]()
        for group in sorted(world.groups.values(), key=lambda one: (one.name, one.uuid)):
            if groups.score(group.uuid) is None:
                continue
            value = groups.imbalance(group.uuid)
            if value <= settings.load_threshold:
                even.append(f"{group.name} ({value:.2f})")
            else:
                plans += self._uneven(world, group, value, groups)
        if even:
            limit = settings.load_threshold
            text = f"the imbalance of load is not above {limit:g}: {', '.join(even)}"
            plans.append(Wait(text))
        return plans

    def _uneven(
        self, world: World, group: Group, value: float, groups: Groups
    ) -> Iterator[RoutinePlan]:
        from ganeti_steward.plugins.maintenance.rebalance import by_load

        settings, subject = self._settings, _subject(group)
        loads = by_load.group_loads(world, group.uuid)
        if busy := _running(world, group) or by_load.unsettled(world, loads):
            yield Wait(f"{by_load.sentence(value, settings)}; {busy}", subject)
            return
        rounds = by_load.Rounds.read(world.marked.get(subject, {})).counted(loads)
        if world.since.get(subject) == 0:
            # A preview takes what must last as having lasted.
            rounds = rounds._replace(number=settings.load_rounds)
        begins = by_load.sentence(value, settings, rounds.number)
        if rounds.number < settings.load_rounds:
            yield Wait(begins, subject, rounds.mark)
            return
        left_out = remaining(world, group.uuid, by_load.moved_lately(world))
        end = f"; {left_out.text}" if left_out.text else ""
        if rounds.searched:
            yield Wait(f"{begins}; no move was found with these reports{end}", subject, rounds.mark)
            return
        found = groups.moves(group.uuid, left_out)
        yield from found.tasks
        mark = rounds._replace(searched=not (found.tasks or found.waits)).mark
        yield Wait(f"{begins}; {found.text}{end}", subject, mark)

    def _group(
        self, world: World, group: Group, score: float, groups: Groups
    ) -> Iterator[RoutinePlan]:
        settings = self._settings
        begins = f"score {score:.3f}, above the threshold of {settings.threshold:g}"
        lasts = (world.now - world.since.get(_subject(group), world.now)) / _SECOND
        left_out = remaining(world, group.uuid)
        running = _running(world, group)
        if running:
            yield Wait(f"{begins}; {running}", _subject(group))
        elif lasts < settings.hold_time:
            limit = f"for {lasts:.0f} s of the hold time of {settings.hold_time:g} s"
            yield Wait(f"{begins} {limit}", _subject(group))
        else:
            yield from self._search(world, group, (begins, left_out), groups)

    def _search(
        self, world: World, group: Group, about: tuple[str, Remaining], groups: Groups
    ) -> Iterator[RoutinePlan]:
        """Search for moves, unless the same search has found none a short time ago."""
        begins, left_out = about
        interval, subject = self._settings.search_interval * _SECOND, _subject(group)
        turn = int((world.now - world.since.get(subject, world.now)) // interval)
        mark = f"{_digest(world, group, left_out)} {turn}"
        end = f"; {left_out.text}" if left_out.text else ""
        searched = world.marked.get(subject, {}).get(mark)
        if searched is not None:
            ago = (world.now - searched) / _SECOND
            reason = f"no move gained enough when this was searched {ago:.0f} s ago"
            yield Wait(f"{begins}; {reason}{end}", subject, mark)
            return
        found = groups.moves(group.uuid, left_out)
        yield from found.tasks
        nothing = not (found.tasks or found.waits)
        yield Wait(f"{begins}; {found.text}{end}", subject, mark if nothing else "")


def _subject(group: Group) -> str:
    """What is reported, and remembered, about a group; moves are about their instance."""
    return f"group {group.name}"


def _running(world: World, group: Group) -> str:
    """Which jobs of the last moves in the group have not ended; empty for none."""
    members = {one.name for one in world.cluster.nodes if one.group == group.uuid}
    jobs = [
        str(job.number)
        for job in world.routine
        if job.open and job.plugin == NAME and members.intersection(job.nodes)
    ]
    if not jobs:
        return ""
    words = ("job", "has") if len(jobs) == 1 else ("jobs", "have")
    return f"{words[0]} {', '.join(jobs)} of the last moves {words[1]} not ended"


def _digest(world: World, group: Group, left_out: Remaining) -> str:
    """The same for the same instances on the same nodes, of which the same may be used."""
    members = {one.name for one in world.cluster.nodes if one.group == group.uuid}
    here = [
        (one.name, one.nodes, one.memory, one.disk_space, one.vcpus, one.state)
        for one in world.cluster.instances
        if members.intersection(one.nodes)
    ]
    usable = [(one.name, one.condition) for one in world.cluster.nodes if one.name in members]
    left = [sorted(left_out.nodes), sorted(left_out.instances)]
    return uuid5(NAMESPACE_URL, repr([sorted(here), sorted(usable), left])).hex[:12]
