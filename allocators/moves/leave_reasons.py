"""Why an instance cannot leave a node now, or at all, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.allocators.moves.answer import refusal
from ganeti_steward.allocators.moves.best_move import BestMoveSearch, MoveTask, try_moves
from ganeti_steward.allocators.moves.leave_tasks import Leaving, third_nodes, without_copy
from ganeti_steward.allocators.rules.checks import PASSING

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Node


class LeaveReasons(NamedTuple):
    """The reasons on one state, after all that can be moved has moved."""

    state: State
    leaving: Leaving
    search: BestMoveSearch

    def now(self, task: MoveTask) -> str:
        """Why an instance that fits later does not fit now."""
        text = self._refusal(task).replace(" nodes fit", " nodes fit now")
        return self._with_secondary(task, text)

    def in_use(self, task: MoveTask) -> str:
        """Why an instance that has a place is not moved now: its own other node is in use."""
        nodes = task.resident.demand.instance.nodes
        used = sorted(self.leaving.reserved.intersection(nodes) - {self.leaving.node})
        return f"another task uses its node {', '.join(used)}"

    def never(self, task: MoveTask) -> str:
        """Why an instance fits nowhere; ``task``: as it is when nothing is in use."""
        if task.fault:
            return task.fault
        if task.resident.demand.drbd and (lack := self._no_third_node(task)):
            left = try_moves(self.state, without_copy(task), None, self.search)
            return "; ".join(filter(None, (lack, left.trials[0].verdicts.blocked)))
        return self._with_secondary(task, self._refusal(task))

    def copy(self, task: MoveTask) -> str:
        """Why the copy of an instance that runs elsewhere fits nowhere else."""
        lack = task.fault or self._no_third_node(task)
        return lack or f"its copy does not fit on a third node: {self._refusal(task)}"

    def _refusal(self, task: MoveTask) -> str:
        return refusal(try_moves(self.state, task, None, self.search))

    def _no_third_node(self, task: MoveTask) -> str:
        """That the group has no third node that could ever take a copy; empty when it has."""
        others = third_nodes(self.state, task)
        faults = [self._lasting_fault(node) for node in others]
        if not all(faults):
            return ""
        group = self.state.frame.cluster.groups[self.state.frame.group[task.resident.primary]]
        text = f"group {group.name} has no third node for its copy"
        return f"{text} ({', '.join(faults)})" if faults else text

    def _lasting_fault(self, node: Node) -> str:
        if node.offline or not node.vm_capable:
            return f"{node.name} is {node.condition}"
        if node.name in self.leaving.excluded:
            return f"{node.name} {self.leaving.avoided.get(node.name, 'is excluded')}"
        return ""

    def _with_secondary(self, task: MoveTask, reason: str) -> str:
        """With why its secondary does not take it over, where that is not in ``reason``."""
        nodes = task.resident.demand.instance.nodes
        if len(nodes) < 2 or nodes[1] == self.leaving.node:
            return reason
        node = self.state.frame.cluster.nodes[task.resident.secondary]
        why = self._unused(node.name) or ("" if node.live else f"is {node.condition}")
        return f"its secondary {node.name} {why}; {reason}" if why else reason

    def _unused(self, node: str) -> str:
        if node in self.leaving.passing:
            return f"is {PASSING}"
        if node in self.leaving.avoided:
            return self.leaving.avoided[node]
        return "is used by another task" if node in self.leaving.reserved else ""
