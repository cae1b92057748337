"""A change that makes a refused request succeed."""

from __future__ import annotations

from typing import Final, NamedTuple

from ganeti_steward.allocators.advice.case import Case
from ganeti_steward.core.model.opcodes import Job

#: Seconds of CPU in which suggestions for one refusal are looked for.
USUAL_LIMIT: Final = 3.0

#: Kinds of suggestions, in the order in which they are shown.
SIZE: Final = "size"
MOVES: Final = "moves"
NODE: Final = "node"
NODE_GROUP: Final = "node-group"
NODE_STATE: Final = "node-state"
REQUEST: Final = "request"
TAG: Final = "tag"
SITE_RULE: Final = "site-rule"
POLICY: Final = "policy"
NETWORK: Final = "network"
OPTION: Final = "option"


class OtherMove(NamedTuple):
    """A move of another instance, one job."""

    instance: str
    before: tuple[str, ...]
    """names of its nodes, primary first"""
    after: tuple[str, ...]
    copied: int
    """MiB of disk that are copied"""
    job: Job


class Suggestion(NamedTuple):
    """A change that was tried: the engine answers the changed request in full."""

    kind: str
    """one of the constants of this module"""
    text: str
    """the change as a sentence"""
    case: Case
    """the changed request, cluster or options"""
    moves: tuple[OtherMove, ...] = ()
    """of other instances, in the order in which they must be made"""
