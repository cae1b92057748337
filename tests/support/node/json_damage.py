"""JSON documents with one thing wrong: every member in turn deleted, or replaced by nonsense."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, Final

#: A value of each kind of JSON, none of which a program would print where it does not belong.
NONSENSE: Final[tuple[Any, ...]] = (None, "", -1, True, [], {"?": []})

Path = tuple[str | int, ...]


def paths(document: Any, start: Path = ()) -> Iterator[Path]:
    """The paths of all members and elements, but that of the whole."""
    if isinstance(document, dict | list):
        for key in document if isinstance(document, dict) else range(len(document)):
            yield (*start, key)
            yield from paths(document[key], (*start, key))


def holder(document: Any, path: Path) -> Any:
    """What contains the member at a path."""
    for key in path[:-1]:
        document = document[key]
    return document


def without(document: Any, path: Path) -> Any:
    """A copy that lacks one member."""
    changed = copy.deepcopy(document)
    del holder(changed, path)[path[-1]]
    return changed


def replaced(document: Any, path: Path, value: Any) -> Any:
    """A copy in which one member is something else."""
    changed = copy.deepcopy(document)
    holder(changed, path)[path[-1]] = value
    return changed


def shuffled(document: Any, chance: Random, lists: bool = False) -> Any:
    """A copy whose objects have their keys in another order, and whose lists too if wanted."""
    if isinstance(document, dict):
        keys = chance.sample(sorted(document), len(document))
        return {key: shuffled(document[key], chance, lists) for key in keys}
    if isinstance(document, list):
        items = [shuffled(item, chance, lists) for item in document]
        return chance.sample(items, len(items)) if lists else items
    return document


def damaged(document: Any) -> Iterator[tuple[Path, Any]]:
    """Every document that lacks one member, or has nonsense for one."""
    for path in list(paths(document)):
        yield path, without(document, path)
        for value in NONSENSE:
            if type(value) is not type(holder(document, path)[path[-1]]):
                yield path, replaced(document, path, value)
