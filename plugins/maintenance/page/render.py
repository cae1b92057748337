"""The page as HTML: one document with its style and script inside, and nothing from elsewhere."""

from __future__ import annotations

import hashlib
import threading
from base64 import b64encode
from importlib.resources import files
from typing import Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ganeti_steward.allocators.overview import bars
from ganeti_steward.allocators.overview.amounts import KINDS, Amount, Filled, change, in_words
from ganeti_steward.plugins.maintenance.edges.status import Status
from ganeti_steward.plugins.maintenance.page.trends import VIEW_BOX, Trend
from ganeti_steward.plugins.maintenance.page.view import moment, view

#: ns for which a page is served again: many callers cost no more than one.
_FRESH: Final = 10**9

_COLOURS: Final = (
    f":root{{color-scheme:light dark;{bars.variables(bars.LIGHT)}}}"
    f"@media (prefers-color-scheme:dark){{:root{{{bars.variables(bars.DARK)}}}}}"
)


def _read(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


class Page:
    """Makes the page; may be called by several threads."""

    def __init__(self) -> None:
        environment = Environment(
            autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        style, script = _COLOURS + bars.STYLE + _read("page.css"), _read("page.js")
        environment.globals |= {
            "style": Markup(style),
            "script": Markup(script),
            "stripes": Markup(bars.STRIPES),
            "bars": _bars,
            "trend_line": _line,
            "moment": moment,
        }
        self._template = environment.from_string(_read("page.html"))
        self.policy: Final = (
            f"default-src 'none'; connect-src 'self'; script-src {_hashed(script)}; "
            f"style-src {_hashed(style)}; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        """the Content-Security-Policy: nothing but the style and the script of the page counts"""
        self._lock = threading.Lock()
        self._made: tuple[Status, str, int, bytes] | None = None

    def __call__(self, status: Status, fault: str, now: int) -> bytes:
        """The page; ``fault``: why the daemon does not count as healthy; ``now``: ns."""
        with self._lock:
            made = self._made
            if made and made[0] is status and made[1] == fault and 0 <= now - made[2] < _FRESH:
                return made[3]
            raw = self._template.render(view=view(status, fault, now)).encode(errors="replace")
            self._made = status, fault, now, raw
            return raw


def _hashed(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _line(trend: Trend) -> Markup:
    # Numbers and words of the program only.
    head = f'<svg class="trend" role="img" viewBox="{VIEW_BOX}" preserveAspectRatio="none">'
    return Markup(f"{head}<title>{trend.words}</title>{trend.line}</svg>")


def _bars(filled: Filled) -> list[tuple[str, Markup, str, bool]]:
    """Of each resource its name, the picture, the number below it, and whether it is too much."""
    afters: tuple[Amount | None, ...] = filled.after or (None,) * len(KINDS)
    return [
        (kind, _svg(kind, now, after), change(now, after), now.fails)
        for kind, now, after in zip(KINDS, filled.now, afters, strict=True)
    ]


def _svg(kind: str, now: Amount, after: Amount | None) -> Markup:
    # Numbers and words of the program only: nothing here is from outside.
    title = in_words(kind, now, after)
    head = f'<svg role="img" width="100%" height="{bars.PAIR}"><title>{title}</title>'
    return Markup(f"{head}{bars.pair(now, after)}</svg>")
