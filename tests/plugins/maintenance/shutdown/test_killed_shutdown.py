"""Killed at any moment, or begun the other way in the middle: what ran runs again, and no more."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from small_site import INSTANCES, PAUSE, sent
from standin_server import process
from thorough import often
from workspace import PROGRAMS

from ganeti_steward.plugins.maintenance.shutdown.plan import own_tags

if TYPE_CHECKING:
    from front import Front

    from ganeti_steward.core.ganeti.luxi import Luxi

SEEDS: Final = range(often(3, 40))
RAN: Final = {name for name, (_, _, up) in INSTANCES.items() if up}
SHUTDOWN: Final = ("shutdown", "--all", "--yes", "--order", "order:")
BRING_UP: Final = ("bring-up", "--timeout", "60")


class Commands:
    """The command as processes."""

    def __init__(self, front: Front, luxi: Luxi) -> None:
        front.configure()
        self._config, self._luxi = front.config_file, luxi

    def killed(self, words: tuple[str, ...], seconds: float) -> bool:
        """Whether it was killed before its end."""
        with self._process(words) as running:
            try:
                running.wait(seconds)
            except subprocess.TimeoutExpired:
                running.kill()
                return True
        return False

    def ended(self, words: tuple[str, ...]) -> str:
        """What it prints when it succeeds."""
        with self._process(words) as running:
            printed, _ = running.communicate(timeout=200)
        assert running.returncode == 0, printed
        return printed

    def _process(self, words: tuple[str, ...]) -> subprocess.Popen[str]:
        command = [PROGRAMS / "gnt-steward", "maintenance", *words]
        return subprocess.Popen(
            [*command, "--luxi-socket", self._luxi.path],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={"GNT_STEWARD_CONFIG": str(self._config), "LC_ALL": "C"},
        )

    @property
    def up(self) -> set[str]:
        rows = self._luxi.rows("instance", ("name", "status"))
        return {row["name"] for row in rows if row["status"] == "running"}

    @property
    def off(self) -> set[str]:
        rows = self._luxi.rows("node", ("name", "powered"))
        return {row["name"] for row in rows if row["powered"] is False}

    @property
    def tags(self) -> list[str]:
        """All that a shutdown sets."""
        rows: list[dict[str, Any]] = [
            *self._luxi.rows("node", ("tags",)),
            *self._luxi.rows("instance", ("tags",)),
        ]
        info = self._luxi.info()
        return own_tags(tag for row in rows for tag in row["tags"]) + info["tags"]


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_at_random_moments(front: Front, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with process(tmp_path, sent()) as luxi:
        luxi.call("test.pace", 0.3)
        commands = Commands(front, luxi)
        # The interpreter takes a while before anything is done.
        begun = [commands.killed(SHUTDOWN, rng.uniform(0.3, 5)) for _ in range(2)]
        if rng.random() < 0.5:
            commands.ended(SHUTDOWN)
            assert (commands.up, len(commands.off)) == (set(), 3)
            assert PAUSE in commands.tags
        begun += [commands.killed(BRING_UP, rng.uniform(0.3, 5)) for _ in range(2)]
        commands.ended(BRING_UP)
        assert (commands.up, commands.off, commands.tags) == (RAN, set(), [])
    assert any(begun)


def test_bring_up_right_after_a_killed_shutdown(front: Front, tmp_path: Path) -> None:
    """The jobs that it has left are waited for: they would stop instances afterwards."""
    with process(tmp_path, sent()) as luxi:
        luxi.call("test.pace", 1.5)
        commands = Commands(front, luxi)
        with commands._process(("shutdown", "--all", "--yes")) as running:
            assert running.stdout is not None
            assert any("stop db.test on n3.test: queued" in line for line in running.stdout)
            running.kill()
        assert "waiting for jobs of an earlier run" in commands.ended(BRING_UP)
        assert (commands.up, commands.tags) == (RAN, [])
