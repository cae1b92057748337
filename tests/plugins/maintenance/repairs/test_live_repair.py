"""Live repair: the command of the diagnose object; without one it is left to people."""

from __future__ import annotations

import pytest
from worlds import incident, node, world

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.plugins.maintenance.repairs.live_repair import steward_plan
from ganeti_steward.plugins.model.task import Done, Failed, Task, Wait

WORLD = world([node("n1"), node("n2")])


def test_the_command_is_run_on_the_node() -> None:
    found = steward_plan(incident("n1", "live-repair", command="fix-disk"), WORLD)
    assert found == [
        Task(
            "command",
            frozenset({"n1"}),
            frozenset(),
            "run the repair command fix-disk on node n1",
            command="fix-disk",
        )
    ]


def test_other_actions_are_not_handled() -> None:
    assert steward_plan(incident("n1", "evacuate", command="fix"), WORLD) is None


@pytest.mark.parametrize("command", [None, "", 5, ["fix"], {}])
def test_no_command(command: object) -> None:
    """Nothing has failed: what was reported is left to people."""
    object_ = {"status": "live-repair"} | ({} if command is None else {"command": command})
    ill = incident("n1", "live-repair", original=canonical(object_))
    reason = (
        "no repair command was requested: what node n1 reports (live-repair) is left to an admin"
    )
    assert steward_plan(ill, WORLD) == [Done(reason)]
    details = [{"source": "smart:X", "details": {"faults": ["failing"]}}]
    ill = incident("n1", "live-repair", original=canonical(object_ | {"details": details}))
    text = '[{"details":{"faults":["failing"]},"source":"smart:X"}]'
    assert steward_plan(ill, WORLD) == [Done(f"{reason}: {text}")]


def test_long_details_are_shortened() -> None:
    object_ = {"status": "live-repair", "details": ["x" * 5000]}
    (found,) = steward_plan(incident("n1", "live-repair", original=canonical(object_)), WORLD) or ()
    assert isinstance(found, Done)
    assert len(found.reason) < 500
    assert found.reason.endswith("xxx...")


@pytest.mark.parametrize("command", ["../fix", "a b", "fix\n", "fïx"])
def test_an_unusable_name(command: str) -> None:
    (found,) = steward_plan(incident("n1", "live-repair", command=command), WORLD) or ()
    assert isinstance(found, Failed)
    assert found.reason == (
        f"the diagnose object names no repair command: {command!a} is not a command name"
    )


def test_a_node_that_is_gone() -> None:
    gone = steward_plan(incident("n9", "live-repair", command="fix"), WORLD)
    assert gone == [Wait("node n9 is not in the cluster")]
