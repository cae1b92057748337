"""What a message is about in a few words: for the log, and for the list of kept requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.core.json_reader import quoted

#: Instances that are named; the others are counted.
_NAMED: Final = 5

#: Characters of a name: of one in the DNS, and more than Ganeti allows.
_LONGEST: Final = 255


class About(NamedTuple):
    """The type of a request, the instances it is about, and the cluster; empty: not known."""

    type: str = ""
    instances: str = ""
    """names, separated by commas; where there are many, the first ones and how many more"""
    cluster: str = ""


def about(message: Mapping[str, Any]) -> About:
    """What a parsed message is about, as far as it can be read."""
    request, cluster = message.get("request"), _word(message.get("cluster_name"))
    if not isinstance(request, dict):
        return About(cluster=cluster)
    return About(_word(request.get("type")), _instances(request), cluster)


def _instances(request: Mapping[str, Any]) -> str:
    given = request.get("instances")
    if not isinstance(given, list):
        return _word(request.get("name"))
    names = [one.get("name") if isinstance(one, dict) else one for one in given[:_NAMED]]
    more = [f"+{len(given) - _NAMED}"] if len(given) > _NAMED else []
    return ",".join([*(_word(name) or "?" for name in names), *more])


def _word(text: object) -> str:
    """A name as one word, whatever was sent."""
    if not isinstance(text, str) or not text:
        return ""
    text = text[:_LONGEST]
    return text if text.isprintable() and " " not in text else quoted(text).replace(" ", "_")
