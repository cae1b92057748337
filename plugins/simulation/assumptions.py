"""What a simulation takes for granted: how often hardware fails, how fast jobs and people are."""

from __future__ import annotations

from typing import Final, NamedTuple

from ganeti_steward.allocators.rolling.pace import Pace

SECOND: Final = 10**9
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
YEAR: Final = 365 * DAY
_PACE: Final = Pace()


class Assumptions(NamedTuple):
    """Rates are means of exponential distributions; times are hours unless named otherwise."""

    seed: int = 1
    """the same seed gives the same failures, whatever the configuration"""
    days: float = 30
    """simulated time"""
    deaths: float = 0.1
    """sudden deaths of a node per year, without any report before"""
    ailments: float = 0.5
    """faults of a node per year that it reports as evacuate or evacuate-failover while it still
    runs; it dies of them in the end"""
    ailing_hours: float = 48
    """from the first report of such a fault until the node dies of it"""
    repairable: float = 1
    """faults of a node per year that it reports as live-repair, with a repair command"""
    repaired: float = 0.8
    """share of the repair commands that succeed"""
    flaps: float = 0.2
    """times per node and year that a healthy node reports a fault on and off for some hours"""
    storms: float = 2
    """times per year that many healthy nodes report a fault at the same time"""
    storm_nodes: float = 0.4
    """share of the nodes in a storm"""
    cut_offs: float = 0.05
    """times per node and year that a running node loses its network; its instances run on"""
    cut_off_hours: float = 2
    """until the network is back by itself"""
    oob_fails: float = 0.1
    """share of the calls of a node's out-of-band program that fail and do nothing"""
    operator_hours: float = 8
    """until an operator attends to a dead node, or to an incident that completed or failed"""
    repair_hours: float = 24
    """until the node is back in service from then on"""
    job_failures: float = 0.002
    """share of the jobs that fail for no reason known here"""
    copied_per_second: float = _PACE.copied_per_second
    """MiB of disks"""
    migrated_per_second: float = _PACE.migrated_per_second
    """MiB of memory"""
    failover_seconds: float = _PACE.failover_seconds
    """while an instance is down in a failover"""
    set_up_seconds: float = _PACE.set_up_seconds
    """of a migration, or of a copy of disks, beside what it copies"""
    short_seconds: float = _PACE.short_seconds
    """of any other operation"""
    roll_days: float = 0
    """from one roll of planned maintenance over all nodes to the next; 0: there is none"""
    reboot_minutes: float = 10
    """for which a node of a roll is away"""
