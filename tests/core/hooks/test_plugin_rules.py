"""Bans and costs of plugins: each is checked, and costs of one place are added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest
from clusters import cluster
from hypothesis import given
from hypothesis import strategies as st

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.calls import PluginRules
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.site_rules import PRIMARY, ROLES, Ban, Cost

CLUSTER, REQUEST = read_message(orjson.dumps(cluster(1, "allocate-one")))
NODES = [node.name for node in CLUSTER.nodes][:3]


class One:
    """A plugin with one hook, as pluggy has it."""

    plugin_name, argnames = "site", ("instance",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def wake(self, *_: object) -> None:
        """Nothing is asleep."""

    def implementations(self, hook: str) -> list[One]:
        return [self] if self.function.__name__ == hook else []


def rules(function: Callable[..., Any]) -> PluginRules:
    plugins: Any = One(function)
    return PluginRules(plugins, Config(weigh={"site": 2.0}), REQUEST)


def costs(given_costs: Sequence[Cost]) -> dict[tuple[str, str, str], float]:
    def steward_weigh(instance: object) -> list[Cost]:
        return [*given_costs]

    return dict(rules(steward_weigh).costs(CLUSTER, CLUSTER.instances[0]))


@given(
    st.lists(
        st.builds(
            Cost,
            st.sampled_from(NODES),
            st.sampled_from(ROLES),
            st.integers(-1000, 1000).map(float),
        ),
        max_size=8,
    )
)
def test_the_costs_of_a_list_are_the_sums_of_those_of_each(many: list[Cost]) -> None:
    total: dict[tuple[str, str, str], float] = {}
    for one in many:
        for place, cost in costs([one]).items():
            total[place] = total.get(place, 0.0) + cost
    assert costs(many) == total


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("wrong", range(4))
def test_a_wrong_ban_is_an_error_for_whichever_instance(wrong: int, kind: type, same: bool) -> None:
    """Also where the bans for the instances before were the same object."""
    good = kind([Ban(NODES[0], PRIMARY, "rule", "reason")])
    bad = kind([*good, Ban("nowhere", PRIMARY, "rule", "reason")])
    answers = iter([*([good if same else kind(good)] * wrong), bad])

    def steward_constrain(instance: object) -> Any:
        return next(answers)

    found = rules(steward_constrain)
    for instance in CLUSTER.instances[:wrong]:
        assert found.bans(CLUSTER, instance) == tuple(good)
    with pytest.raises(PluginError, match="nowhere"):
        found.bans(CLUSTER, CLUSTER.instances[wrong])
