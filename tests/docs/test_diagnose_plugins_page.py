"""The vendors' page, followed literally: every command is run, every output is what it shows.

It happens as root in a mount namespace, where ``/etc``, ``/usr/local/sbin`` and ``/var/log`` are
copies or empty.  The page's fresh environment borrows what Steward depends on from the one
the tests run in.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from paths import ROOT
from whitelists import needs_root

PAGE: Final = ROOT / "docs" / "how-to" / "write-a-diagnose-plugin.md"
EXAMPLE: Final = ROOT / "contrib" / "diagnose-example"

#: What a clone needs for being installed, and for the page.
CLONE: Final = (
    "pyproject.toml README.md LICENSE core allocators plugins diagnose contrib/diagnose-example"
)

#: Sourced in this order by one shell, as by a reader who follows the page in one terminal.
RUNNER: Final = """\
set -e
mount -t tmpfs -o mode=755 steward /mnt
mkdir /mnt/empty /mnt/log
cp -a /etc /mnt/etc
rm -rf /mnt/etc/ganeti
mount --bind /mnt/etc /etc
mount --bind /mnt/empty /usr/local/sbin
mount --bind /mnt/log /var/log
cp -a "$FILES/clone" /mnt/clone
cd /mnt/clone
"""

#: After the step that makes the environment: nothing is downloaded that is here already.
BORROW: Final = """\
for place in trial/lib/python*/site-packages; do
  echo "$BORROWED" > "$place/borrowed.pth"
done
"""

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="mount namespaces")


class Block(NamedTuple):
    """A block of code on the page."""

    language: str
    text: str


def blocks() -> list[Block]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [Block(*one) for one in found]


def steps() -> Iterator[tuple[str, str]]:
    """The commands, and what they print; empty where the page does not say."""
    found = blocks()
    for block, following in zip(found, [*found[1:], Block("", "")], strict=True):
        if block.language == "sh":
            yield block.text, "" if following.language else following.text


def same_each_time(output: str) -> str:
    """Without times, and without how wide the columns of a table are."""
    return re.sub(r" +", " ", re.sub(r"\d+\.\d\d ?s\b|\d\d:\d\d:\d\d", "TIME", output))


def clone(target: Path) -> None:
    """What a vendor gets from the repository."""
    for name in CLONE.split():
        source, copy = ROOT / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)


def follow(files: Path) -> tuple[str, list[str]]:
    """Run all commands of the page; what was wrong, and what each step printed."""
    clone(files / "clone")
    script = RUNNER
    for number, (commands, _) in enumerate(steps()):
        (files / f"step{number}").write_text(commands)
        script += f'. "$FILES/step{number}" > "$FILES/output{number}" 2>&1\n'
        if "-m venv trial" in commands:
            script += BORROW
    mine = {key: value for key, value in os.environ.items() if not key.startswith(("PY", "GNT_"))}
    mine |= {
        "FILES": str(files),
        "BORROWED": sysconfig.get_path("purelib"),
        "PATH": f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        env=mine,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    names = [f"output{number}" for number, _ in enumerate(steps())]
    outputs = [(files / name).read_text() for name in names if (files / name).exists()]
    return ("" if done.returncode == 0 else f"{done.returncode} {done.stderr}"), outputs


@needs_linux
@needs_root
def test_the_page_followed(tmp_path: Path) -> None:
    fault, outputs = follow(tmp_path)
    for (commands, shown), output in zip(steps(), outputs, strict=False):
        if shown:
            assert same_each_time(output) == same_each_time(shown), f"{commands}\n{fault}"
    assert not fault, f"{fault}\n{outputs[-1:]}"
    assert len(outputs) == len(list(steps()))


def test_every_way_is_shown() -> None:
    """A page of which half was lost would be followed easily."""
    commands = [text for text, _ in steps()]
    assert len(commands) == 14
    assert sum(bool(shown) for _, shown in steps()) == 9
    for what in (
        "--check",
        "--format table",
        "[nagios.raid]",
        "[plugin.acme_raid]",
    ):
        assert any(what in text for text in commands)


def test_what_is_shown_of_the_package() -> None:
    found = {block.language: block.text for block in blocks()}
    project = (EXAMPLE / "package" / "pyproject.toml").read_text()
    assert found["toml"] in project
    assert found["python"] in (EXAMPLE / "package" / "tests" / "test_acme_steward.py").read_text()
    recorded = EXAMPLE / "package" / "tests" / "recorded"
    assert found["json"] == (recorded / "drive-failed" / "machine.json").read_text()


def test_links() -> None:
    text = PAGE.read_text()
    targets = re.findall(r"\]\(([^)#]+)\)", text)
    assert targets
    for target in targets:
        assert (PAGE.parent / target).exists(), target
    anchors = re.findall(r"\]\(([^)#]*)#([^)]+)\)", text)
    assert anchors
    for target, anchor in anchors:
        titles = re.findall(r"^##+ (.*)$", (PAGE.parent / (target or PAGE)).read_text(), re.M)
        assert anchor in [title.lower().replace(" ", "-") for title in titles]
