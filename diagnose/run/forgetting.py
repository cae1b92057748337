"""Dropping what earlier runs found, such as the findings of a source that was removed."""

from __future__ import annotations

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.diagnose.model.hysteresis import State, covers
from ganeti_steward.diagnose.run.files import locked, prepare_directory
from ganeti_steward.diagnose.run.state_file import read_state, write_state


def forget(directory: str, source: str) -> list[str]:
    """Drop what is kept of a source and its objects, and return their names.

    Raises Busy while a run is in progress, StewardError where nothing of it is kept.  A source
    that still finds something reports it again.
    """
    prepare_directory(directory)
    with locked(directory):
        kept = read_state(directory)
        if kept.note:
            raise StewardError(kept.note)
        state = kept.state
        known = sorted({*state.held, *state.unreported})
        dropped = [one for one in known if covers(source, one)]
        if not dropped:
            names = ", ".join(state.held) or "none"
            raise StewardError(f"nothing is kept of the source {quoted(source)} (kept: {names})")
        held = {name: one for name, one in state.held.items() if name not in dropped}
        unreported = tuple(one for one in state.unreported if one not in dropped)
        lost = state.lost and bool(unreported)
        write_state(directory, kept, State(held, unreported, lost))
    return dropped
