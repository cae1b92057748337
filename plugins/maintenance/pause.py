"""The pause of the daemon: a tag of the cluster that holds the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.model.incident import PAUSE_TAG

#: What Ganeti takes as a tag.
_LONGEST: Final = 128
_FORM: Final = re.compile(r"[\w.+*/:@-]+", re.ASCII)


def pause_tags(tags: Iterable[str]) -> list[str]:
    """The tags of the cluster that pause the daemon, sorted; none: it is not paused."""
    return sorted(tag for tag in tags if tag.startswith(PAUSE_TAG))


def pause_reason(tags: Iterable[str]) -> str | None:
    """Why the daemon is paused, by the tags of the cluster; None when it is not."""
    found = pause_tags(tags)
    if not found:
        return None
    reasons = (tag.removeprefix(PAUSE_TAG).replace("-", " ") for tag in found)
    return ", ".join(reasons).strip() or "no reason given"


def pause_tag(reason: str) -> str:
    """The tag for a reason; raises StewardError when Ganeti would not take it."""
    tag = f"{PAUSE_TAG}{'-'.join(reason.split())}"
    if tag == PAUSE_TAG or not _FORM.fullmatch(tag):
        raise StewardError(
            f"{reason!a} cannot be a reason: letters, digits, blanks and _.+*/:@- are possible"
        )
    if len(tag) > _LONGEST:
        most = _LONGEST - len(PAUSE_TAG)
        raise StewardError(f"the reason is longer than {most} characters, with - for blanks")
    return tag
