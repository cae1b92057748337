"""A plan without moves because of a faulty tag must not read as "balanced"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import clusters

if TYPE_CHECKING:
    from front import Front

FAULT = "the cluster: tag 'steward:default-forbiden-prefix:license:': unknown key"


def test_a_faulty_cluster_tag_stops_balance(front: Front) -> None:
    message = clusters.generate("--nodes=6", "--request=none", "--seed=3")
    file = front.message(message)
    done = front("balance", "--file", file)
    assert (done.status, done.err) == (0, "")
    message["cluster_tags"].append("steward:default-forbiden-prefix:license:")
    front.message(message)
    for command in ("balance", "check"):
        done = front(command, "--file", file)
        assert (done.status, done.out) == (3 if command == "check" else 1, "")
        assert FAULT in done.err
    # Nothing is moved, so what is wrong with the nodes can still be looked at.
    done = front("check", "--no-simulation", "--file", file)
    assert "Group " in done.out


def test_a_faulty_section_stops_it_too(front: Front) -> None:
    front.configure('[aggregates.nodes]\n"a" = ["b c"]\n')
    message = clusters.generate("--nodes=6", "--request=none", "--seed=3")
    done = front("balance", "--file", front.message(message))
    assert (done.status, done.out) == (1, "")
    assert "configuration aggregates.nodes.a: 'b c': " in done.err


def test_a_faulty_instance_only_stays(front: Front) -> None:
    message = clusters.generate("--nodes=6", "--request=none", "--seed=3")
    names = sorted(message["instances"])
    message["instances"][names[0]]["tags"].append("steward:memberof:a")
    done = front("balance", "--file", front.message(message))
    assert done.status == 0
    assert f" {names[0]} " not in done.out
