"""What a command prints cannot change a terminal, whatever it forgets."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.commands.output import checked_output, ours, shown
from ganeti_steward.core.commands.tables import print_json, table

if TYPE_CHECKING:
    import pytest

#: Escape sequences, the one-byte form of their beginning, DEL, characters that turn the direction,
#: half of a character, and one beyond the first 65,536.
HOSTILE: Final = "a\x1b]0;x\x07\x9b2J\x7f\u202eb\u2066\u200b\ud800\U000e0041c\r"
#: Everything that may be printed.
GOOD: Final = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]*")


def test_hostile_text() -> None:
    assert shown(HOSTILE) == (
        r"a\u001b]0;x\u0007\u009b2J\u007f\u202eb\u2066\u200b\ud800\udb40\udc41c\u000d"
    )
    assert shown("zürich 例え 😀\ta\n") == "zürich 例え 😀\ta\n"


def test_what_is_ours_passes() -> None:
    """Colours, and a separator that the user chose."""
    assert shown(f"{ours(chr(27) + '[1m')}a{HOSTILE[1]}b{ours(chr(31))}") == "\x1b[1ma\\u001bb\x1f"
    text = shown(table(["A", "B"], [["a\x1f", "b"]], separator="\x1f", no_headers=True))
    assert text == "a\\x1f\x1fb\n"


def test_no_text_of_others_can_be_ours() -> None:
    """The mark is another one in each process."""
    assert "\x1b" not in shown("\x1a0123456789abcdef:1b;")
    assert ours("\x1b") not in Path(sys.modules[shown.__module__].__file__ or "").read_text()


def test_all_ways_to_print(capfd: pytest.CaptureFixture[str]) -> None:
    number = sys.stdout.fileno()
    with checked_output():
        print(HOSTILE, flush=True)
        print(HOSTILE, file=sys.stderr)
        sys.stdout.write(HOSTILE)
        sys.stdout.writelines([HOSTILE])
        print_json({HOSTILE: [HOSTILE, 2**70]})
        assert not hasattr(sys.stdout, "buffer")
        assert not sys.stdout.isatty()
        assert sys.stdout.fileno() == number
        sys.stdout.flush()
    printed = capfd.readouterr()
    assert GOOD.fullmatch(printed.out)
    assert GOOD.fullmatch(printed.err)
    text = printed.out[printed.out.index("{") :]
    assert json.loads(text) == {HOSTILE: [HOSTILE, 2**70]}


def test_streams_are_as_before_afterwards() -> None:
    before = sys.stdout, sys.stderr
    with checked_output():
        assert sys.stdout is not before[0]
    assert (sys.stdout, sys.stderr) == before


def test_json_of_printable_values_is_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"zürich": [1.5, None, "\x00\n\x7f"]})
    assert json.loads(capsys.readouterr().out) == {"zürich": [1.5, None, "\x00\n\x7f"]}
