"""The page of what plugins get is what the code has now, and says what each member means."""

from __future__ import annotations

import pytest
import values
from paths import DOCS


def test_it_is_made_from_the_code() -> None:
    page = (DOCS / "reference" / "values.md").read_text()
    assert page == values.page(), "contrib/manual/values.py > docs/reference/values.md"


@pytest.mark.parametrize("name", ["Instance", "Node", "Group", "Cluster"])
def test_each_member_has_a_meaning(name: str) -> None:
    about, found = values.members("core/model/cluster.py", name)
    assert about
    assert [one.name for one in found if not (one.type and one.meaning)] == []


def test_members_are_those_of_the_class() -> None:
    from ganeti_steward.core.model.cluster import Node

    names = {one.name for one in values.members("core/model/cluster.py", "Node")[1]}
    public = {name for name in dir(Node) if not name.startswith("_")} - {"count", "index"}
    assert names == public


def test_methods_have_their_arguments() -> None:
    _, found = values.members("diagnose/model/machine.py", "Machine")
    assert ("run(*command: str)", "Ended") in {(one.name, one.type) for one in found}
