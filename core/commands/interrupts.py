"""What a command prints when it is interrupted while jobs run."""

from __future__ import annotations

import sys
from collections.abc import Callable


def interrupt_printer(waits_for: str) -> Callable[[int], None]:
    """Prints what an interrupt does, and what another one would; gets their count.

    ``waits_for``: what the first one lets end, for example "the running set".
    """

    def print_interrupt(count: int) -> None:
        if count == 1:
            text = (
                f"interrupted: waiting for {waits_for}; press Ctrl-C again to exit immediately, "
                "submitted jobs continue"
            )
        else:
            text = "interrupted again: exiting; submitted jobs continue"
        print(text, file=sys.stderr, flush=True)

    return print_interrupt
