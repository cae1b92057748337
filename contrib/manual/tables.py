"""The manual's site: tables in boxes that scroll, and where a long name in a cell may be broken."""

from __future__ import annotations

import re
from typing import Any, Final

#: Shorter names stay whole; a table that is too wide all the same scrolls.
_LONG: Final = 16

_TABLE: Final = re.compile(r"<table>.*?</table>", re.DOTALL)
_CELL: Final = re.compile(r"<td\b.*?</td>", re.DOTALL)
_CODE: Final = re.compile(rf"(?<=<code>)[^<\s]{{{_LONG + 1},}}(?=</code>)")


def on_page_content(html: str, **_: Any) -> str:
    """Called by mkdocs; the theme makes its own boxes only after the page is shown."""
    return _TABLE.sub(lambda table: f'<div class="table">{_broken(table[0])}</div>', html)


def _broken(table: str) -> str:
    """Paths, tests and metrics break behind ``/``, ``.``, ``_`` and ``:``."""
    return _CELL.sub(lambda cell: _CODE.sub(_breaks, cell[0]), table)


def _breaks(code: re.Match[str]) -> str:
    return re.sub(r"[/._:]+", r"\g<0><wbr>", code[0])
