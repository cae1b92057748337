"""The navigation of the manual's site: every page, in the order of the page ``index.md``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

#: Folder of pages -> title of its section.
_SECTIONS: Final = {
    "tutorial": "Tutorial",
    "how-to": "How-to",
    "reference": "Reference",
    "reference/commands": "Commands",
    "reference/hooks": "Hooks",
    "explanation": "Explanation",
    "explanation/decisions": "Decisions",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Called by mkdocs: the pages of each folder, then those of the folders in it."""
    docs = Path(config.docs_dir)
    tops = [folder for folder in _SECTIONS if "/" not in folder]
    config.nav = [{"Start": "index.md"}, *(_section(docs, folder) for folder in tops)]
    return config


def _section(docs: Path, folder: str) -> dict[str, list[Any]]:
    index = (docs / "index.md").read_text()

    def order(page: Path) -> tuple[bool, int, Path]:
        """An overview first, then as the index has them; what it does not name by name."""
        at = index.find(f"({page.relative_to(docs).as_posix()})")
        return page.stem != "index", at if at >= 0 else len(index), page

    pages = sorted((docs / folder).glob("*.md"), key=order)
    inner = [other for other in _SECTIONS if other.rpartition("/")[0] == folder]
    return {
        _SECTIONS[folder]: [
            *(page.relative_to(docs).as_posix() for page in pages),
            *(_section(docs, other) for other in inner),
        ]
    }
