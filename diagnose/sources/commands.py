"""Whitelisted commands as sources: run, and their output checked.

Each is started by a separate process, because opening or starting a file on a dead disk can
hang.  A command's source is
``command:NAME``, so that it is never taken for a collector or a check of that name.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.finding import CheckResult, NotApplicable, Unknown, is_name
from ganeti_steward.core.process.following import Ended, Ladder, ending
from ganeti_steward.core.process.trusted_program import Forbidden
from ganeti_steward.diagnose.config.sections import EVERY
from ganeti_steward.diagnose.model.object import BadObject, read_finding
from ganeti_steward.diagnose.sources import isolated, whitelist
from ganeti_steward.diagnose.sources.isolated import Source
from ganeti_steward.diagnose.sources.uid_pool import (
    Pool,
    UidPoolError,
    borrowed_uid,
    gain_no_rights,
)
from ganeti_steward.diagnose.sources.whitelist import DIAGNOSE_DIRECTORY

#: What the name of a command's source begins with, and the source that is all of them.
SOURCE: Final = "command"

#: Together well below the second that a command may overrun its limit at most.
LADDER: Final[Ladder] = ((signal.SIGTERM, 0.2), (signal.SIGKILL, 0.1))

#: Extra seconds for opening the whitelist, for the ladder, for taking and giving back a user id.
_AROUND: Final = 0.4

#: Bytes of a line about a command, for each byte it prints; a control character takes six.
_ESCAPED: Final = 6


def find_commands(
    wanted: Sequence[str], directory: str = DIAGNOSE_DIRECTORY
) -> tuple[list[str], list[CheckResult]]:
    """The commands to run, in order, and the results about the whitelist itself.

    ``*`` in ``wanted`` stands for every command that is not named, the empty name for none.  What
    lies in the whitelist under a name that is none of a command (``raid.dpkg-old``) is left out.
    """
    wanted = [name for name in wanted if name]
    if EVERY not in wanted:
        return list(dict.fromkeys(wanted)), []
    found, results = _listed(directory)
    others = [name for name in found if name not in wanted]
    names = [name for word in wanted for name in (others if word == EVERY else [word])]
    return list(dict.fromkeys(names)), results


def _listed(directory: str) -> tuple[list[str], list[CheckResult]]:
    if not os.path.lexists(directory):
        return [], [NotApplicable(SOURCE, f"there is no {directory}")]
    try:
        found = whitelist.listing(directory)
    except (Forbidden, OSError) as err:
        return [], [Unknown(SOURCE, f"no command is run: {err}")]
    left_out = [name for name in found if not is_name(name)]
    results: list[CheckResult] = []
    if left_out:
        names = ", ".join(map(quoted, left_out))
        results.append(NotApplicable(SOURCE, f"no names of commands, so not run: {names}"))
    return [name for name in found if name not in left_out], results


def command_source(
    name: str,
    limit: float,
    output_limit: int,
    *,
    directory: str = DIAGNOSE_DIRECTORY,
    pool: Pool | None = None,
) -> Source:
    """A command as a source; it takes less than 1 s more than ``limit`` seconds.

    ``output_limit`` is in bytes.  With ``pool`` it runs under a user id of Ganeti's pool
    instead of as root; when none can be had, it does not run.
    """
    source = f"{SOURCE}:{name}"
    command = partial(
        whitelist.run, name, directory, limit, output_limit=output_limit, ladder=LADDER
    )
    return Source(
        source,
        partial(_results, source, command, pool),
        limit,
        _ESCAPED * output_limit + isolated.OUTPUT_LIMIT,
        _AROUND,
    )


def _results(source: str, command: Callable[..., Ended], pool: Pool | None) -> list[CheckResult]:
    kept: list[int] = []
    result = _result(source, command, pool, kept)
    fault = "is kept out of the pool: its processes cannot be ended"
    return [result, *(Unknown(f"{source}:uid-pool", f"the user id {uid} {fault}") for uid in kept)]


def _result(
    source: str, command: Callable[..., Ended], pool: Pool | None, kept: list[int]
) -> CheckResult:
    try:
        with ExitStack() as held:
            user = None
            if pool:
                import random

                user = held.enter_context(borrowed_uid(pool, random.SystemRandom(), kept.append))
                gain_no_rights()
            ended = command(user=user)
    except (Forbidden, UidPoolError) as err:
        return Unknown(source, f"not run: {err}")
    except OSError as err:
        return Unknown(source, f"cannot be run: {err.strerror}")
    isolated.log_errors(source, ended)
    if ended.fault or ended.status:
        return Unknown(source, ended.fault or ending(ended.status))
    try:
        return read_finding(source, ended.output)
    except BadObject as err:
        return Unknown(source, f"printed no diagnose object: {err}")
