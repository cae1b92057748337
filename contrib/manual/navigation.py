"""The manual's site: its navigation, every page in the order of ``index.md``, and its search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mkdocs.plugins import event_priority

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

_SEARCH: Final = Path(__file__).with_name("search.js")

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


@event_priority(-100)
def on_post_build(config: MkDocsConfig) -> None:
    """Called by mkdocs after its own search is written, which does not work from a disk."""
    search = Path(config.site_dir) / "search"
    index = search / "search_index.json"
    (search / "index.js").write_text(f"const manual_index = {index.read_text()};\n")
    (search / "main.js").write_text(_SEARCH.read_text())
    for replaced in (index, search / "worker.js"):
        replaced.unlink()


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
