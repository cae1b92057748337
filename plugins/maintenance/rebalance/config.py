"""The section [rebalance]: when the daemon balances node groups, and by which moves."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from ganeti_steward.core.config.kinds import number, one_of, whole
from ganeti_steward.core.model.requests import MIN_GAIN_PER_GIB

#: Values of ``load-data``.
NO_LOAD: Final = "none"
NODE_LOAD: Final = "mond"
XEN_LOAD: Final = "mond-xen"


class Rebalance(NamedTuple):
    """[rebalance]: balancing by the maintenance daemon, where [maintd] routine names it."""

    threshold: Annotated[
        float,
        number(0, 1_000_000),
        "A node group is balanced when its score is above this; lower scores are better.",
    ] = 1
    min_gain: Annotated[
        float, number(0, 1_000_000), "What a move must lower the score of its group by."
    ] = 0.1
    min_gain_per_gib: Annotated[
        float,
        number(0, 1_000_000),
        "What copying disks must lower the score by for each GiB.",
    ] = MIN_GAIN_PER_GIB
    hold_time: Annotated[
        float,
        number(0, 604800),
        "Seconds for which the score must have been above the threshold before anything is moved.",
    ] = 1800
    search_interval: Annotated[
        float,
        number(1, 604800),
        "Seconds until moves are searched again where none were found and nothing has changed.",
    ] = 3600
    moves_at_once: Annotated[
        int, whole(1, 1000), "The most instances of a node group that are moved at the same time."
    ] = 4
    copy_per_hour: Annotated[
        float,
        number(0, 1_000_000),
        "The most GiB of disks that routine work may have copied within an hour when another move "
        "begins; 0: no limit.",
    ] = 100
    disk_moves: Annotated[
        bool, "Whether disks may be copied; without, instances only migrate to their secondary."
    ] = True
    load_data: Annotated[
        str,
        one_of(NO_LOAD, NODE_LOAD, XEN_LOAD),
        "CPU load that counts: none, what the nodes measure (mond), or the Xen instances on them "
        "(mond-xen).  Where it is missing nothing is moved.",
    ] = NO_LOAD
    load_time_limit: Annotated[
        float, number(0.1, 600), "Seconds all monitoring daemons have to answer."
    ] = 5
    evac_mode: Annotated[
        bool, "Whether only instances are moved that have a node which is drained or offline."
    ] = False
