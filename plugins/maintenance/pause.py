"""Pauses: tags that hold the reason, for the whole daemon or for planned maintenance only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.model.incident import PAUSE_TAG

#: What Ganeti takes as a tag.
_LONGEST: Final = 128
TAG_FORM: Final = re.compile(r"[\w.+*/:@-]+", re.ASCII)


def pause_tags(tags: Iterable[str], beginning: str = PAUSE_TAG) -> list[str]:
    """The tags that are a pause, sorted; none: nothing is paused.

    ``beginning``: of such tags; without it those that pause the daemon, which are the cluster's.
    """
    return sorted(tag for tag in tags if tag.startswith(beginning))


def pause_reason(tags: Iterable[str], beginning: str = PAUSE_TAG) -> str | None:
    """Why something is paused, by the tags of the cluster or a node; None when it is not."""
    found = pause_tags(tags, beginning)
    if not found:
        return None
    reasons = (tag.removeprefix(beginning).replace("-", " ") for tag in found)
    return ", ".join(reasons).strip() or "no reason given"


def pause_tag(reason: str, beginning: str = PAUSE_TAG) -> str:
    """The tag for a reason; raises StewardError when Ganeti would not take it."""
    tag = f"{beginning}{'-'.join(reason.split())}"
    if tag == beginning or not TAG_FORM.fullmatch(tag):
        raise StewardError(
            f"{reason!a} cannot be a reason: letters, digits, blanks and _.+*/:@- are possible"
        )
    if len(tag) > _LONGEST:
        most = _LONGEST - len(beginning)
        raise StewardError(f"the reason is longer than {most} characters, with - for blanks")
    return tag
