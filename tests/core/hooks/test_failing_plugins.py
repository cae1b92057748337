"""Whatever a plugin does wrong becomes a valid failure answer that names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from thorough import often

from ganeti_steward.core.model.answer import Answer

if TYPE_CHECKING:
    from pathlib import Path

    from sites import Capture, Site

#: What stands in a hook's body -> the answer behind the plugin's name.
RAISING: Final = {
    "exception": ("raise ValueError('no such rack')", "failed: ValueError: no such rack"),
    "no text": ("raise KeyError", "failed: KeyError: no message"),
    "lines": ("raise OSError('a\\n\\nb')", "failed: OSError: a b"),
    "exit": ("sys.exit('bye')", "failed: SystemExit: bye"),
    "exit 0": ("sys.exit(0)", "failed: SystemExit: 0"),
    "generator exit": ("raise GeneratorExit", "failed: GeneratorExit: no message"),
    "base": ("raise BaseException('base')", "failed: BaseException: base"),
    "recursion": (
        "f = lambda: f()\n    f()",
        "failed: RecursionError: maximum recursion depth exceeded",
    ),
    "surrogate": ("raise OSError('/srv/\\udcff')", "failed: OSError: /srv/\\udcff"),
    "broken text": (
        "raise type('E', (Exception,), dict(__str__=lambda self: 1 / 0))()",
        "failed: E: no message",
    ),
    "missing": ("import nosuchlibrary", "failed: ModuleNotFoundError: No module named"),
}

#: The same for what the hooks of both kinds give that is wrong in either.
PLACES: Final = {
    "not a list": ("return 5", "must give a list, not 5"),
    "true": ("return True", "must give a list, not True"),
    "a text": ("return 'node1.lab'", "must give a list, not 'node1.lab'"),
    "other items": ("return ['node1.lab']", "not 'node1.lab'"),
    "one item bare": ("return {KIND}('node1.lab', PRIMARY, {REST})", "must give a list, not "),
    "mapping": ("return dict([('node1.lab', 1)])", "must give a list, not {'node1.lab': 1}"),
    "unknown node": (
        "return [{KIND}('node9.lab', PRIMARY, {REST})]",
        "names the node 'node9.lab', which the cluster does not have",
    ),
    "short name": (
        "return [{KIND}('node1', PRIMARY, {REST})]",
        "names the node 'node1', which the cluster does not have",
    ),
    "no name": (
        "return [{KIND}(None, PRIMARY, {REST})]",
        "names the node None, which the cluster does not have",
    ),
    "list as node": ("return [{KIND}(['node1.lab'], PRIMARY, {REST})]", "names the node ['node1"),
    "unknown role": (
        "return [{KIND}('node1.lab', 'tertiary', {REST})]",
        "names the role 'tertiary' (known: primary, secondary)",
    ),
    "no role": ("return [{KIND}('node1.lab', None, {REST})]", "names the role None"),
    "generator": (
        "yield {KIND}('node1.lab', PRIMARY, {REST})\n    raise ValueError('midway')",
        "failed: ValueError: midway",
    ),
    "generator's item": ("yield 'node1.lab'", "not 'node1.lab'"),
    "generator's exit": ("yield from ()\n    sys.exit(3)", "failed: SystemExit: 3"),
}

BANS: Final = {
    "no reason": (
        "return [Ban('node1.lab', PRIMARY, 'word', None)]",
        "the reason for node1",
    ),
    "no rule": ("return [Ban('node1.lab', PRIMARY, '', 'why')]", "the rule for node1.lab is ''"),
    "list as rule": ("return [Ban('node1.lab', PRIMARY, [], 'why')]", "the rule for node1.lab is"),
    "a cost": ("return [Cost('node1.lab', PRIMARY, 1)]", "steward_constrain must give bans, not"),
}

COSTS: Final = {
    "nan": ("return [Cost('node1.lab', PRIMARY, math.nan)]", "the cost of node1.lab is nan"),
    "infinite": ("return [Cost('node1.lab', PRIMARY, -math.inf)]", "the cost of node1.lab is -inf"),
    "huge": ("return [Cost('node1.lab', PRIMARY, 10**400)]", "the cost of node1.lab is 1000000"),
    "text": ("return [Cost('node1.lab', PRIMARY, '1')]", "the cost of node1.lab is '1'"),
    "none": ("return [Cost('node1.lab', PRIMARY, None)]", "the cost of node1.lab is None"),
    "complex": ("return [Cost('node1.lab', PRIMARY, 1j)]", "the cost of node1.lab is 1j"),
    "a ban": ("return [Ban('node1.lab', PRIMARY, 'w', 'r')]", "steward_weigh must give costs, not"),
}

#: What an allocator gives for a request for two nodes.
RESULTS: Final = {
    "text": ("return 'node1.lab'", "gave str, not an answer or a refusal"),
    "list": ("return ['node1.lab', 'node2.lab']", "gave list, not an answer or a refusal"),
    "generator": ("yield Answer(['node1.lab', 'node2.lab'], '')", "gave list, not an answer"),
    "coroutine": ("return (lambda: (yield))", "gave function, not an answer or a refusal"),
    "unknown node": (
        "return Answer(['node1.lab', 'node9.lab'], '')",
        "gave ['node1.lab', 'node9.lab'], which is not an answer to this request on this cluster",
    ),
    "too few": ("return Answer(['node1.lab'], '')", "gave ['node1.lab'], which is not an answer"),
    "too many": ("return Answer(['node1.lab', 'node2.lab', 'node3.lab'], '')", "is not an answer"),
    "twice": ("return Answer(['node1.lab', 'node1.lab'], '')", "is not an answer"),
    "a name": ("return Answer('node1.lab', '')", "gave 'node1.lab', which is not an answer"),
    "nothing": ("return Answer(None, '')", "gave None, which is not an answer"),
    "objects": ("return Answer([object(), object()], '')", "gave [<object object at"),
    "no info": ("return Answer(['node1.lab', 'node2.lab'], None)", "gave the info None"),
    "bytes": ("return Refusal(b'no')", "gave the info b'no', which is not a text"),
    "surrogate": ("return Refusal('\\udcff')", "gave the info '\\udcff', which is not a text"),
    "explanations": ("return Refusal('no', ('because',))", "gave the explanations ('because',)"),
}


def cases(*tables: dict[str, tuple[str, str]]) -> pytest.MarkDecorator:
    found = {name: case for table in tables for name, case in table.items()}
    return pytest.mark.parametrize(("body", "fault"), found.values(), ids=found)


def some(table: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Usually every fourth of the cases that another hook is tried with as well."""
    return dict(list(table.items())[:: often(4, 1)])


def broken(site: Site, hook: str, body: str) -> None:
    site.plugin("broken", f"@hookimpl\ndef {hook}(cluster):\n    {body}\n")


@cases(RAISING, PLACES, BANS)
def test_constrain(site: Site, capture: Capture, body: str, fault: str) -> None:
    broken(site, "steward_constrain", body.format(KIND="Ban", REST="'word', 'reason'"))
    site.configure("broken")
    info = site.refused(capture("allocate-drbd"))
    assert info.startswith("plugin broken: ")
    assert fault in info


@cases(some(RAISING), some(PLACES), COSTS)
def test_weigh(site: Site, capture: Capture, body: str, fault: str) -> None:
    broken(site, "steward_weigh", body.format(KIND="Cost", REST="1"))
    site.configure("broken")
    info = site.refused(capture("allocate-drbd"))
    assert info.startswith("plugin broken: ")
    assert fault in info


@cases(some(RAISING), RESULTS)
def test_allocator(site: Site, capture: Capture, body: str, fault: str) -> None:
    broken(site, "steward_allocate", body)
    site.configure("broken", more='[allocators]\nallocate = ["broken"]')
    info = site.refused(capture("allocate-drbd"))
    assert info.startswith("plugin broken: ")
    assert fault in info


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("relocate-drbd", "[]"),
        ("relocate-drbd", "['node9.lab']"),
        ("relocate-drbd", "['node1.lab', 'node2.lab']"),
        ("relocate-drbd", "'node1.lab'"),
        ("allocate-secondary-plain-to-drbd", "['node1.lab']"),
        ("allocate-secondary-plain-to-drbd", "'node9.lab'"),
        ("allocate-secondary-plain-to-drbd", "{}"),
        ("multi-allocate-two", "[[], []]"),
        ("multi-allocate-two", "[[['m1.lab', ['node1.lab']]], []]"),
        ("multi-allocate-two", "[[], ['m1.lab', 'm1.lab']]"),
        ("multi-allocate-two", "[[['m1.lab', ['node1.lab']]], ['m1.lab', 'm2.lab']]"),
        ("multi-allocate-two", "[[['m1.lab', ['node9.lab']]], ['m2.lab']]"),
        ("multi-allocate-two", "[[['m1.lab', []]], ['m2.lab']]"),
        ("multi-allocate-two", "[[['m1.lab', 'node1.lab']], ['m2.lab']]"),
        ("multi-allocate-two", "[['m1.lab', 'm2.lab']]"),
        ("multi-allocate-two", "[['m1.lab'], [['m2.lab', 'reason']]]"),
        ("multi-allocate-two", "[None, 5]"),
    ],
)
def test_allocators_of_other_types(site: Site, capture: Capture, name: str, result: str) -> None:
    message = capture(name)
    kind = message["request"]["type"]
    broken(site, f"steward_{kind.replace('-', '_')}", f"return Answer({result}, 'done')")
    site.configure("broken", more=f'[allocators]\n{kind} = ["broken"]')
    info = site.refused(message)
    assert info.startswith("plugin broken: gave ")
    assert info.endswith(", which is not an answer to this request on this cluster")


@pytest.mark.parametrize(
    "name",
    [
        "allocate-diskless",
        "allocate-drbd",
        "multi-allocate-two",
        "relocate-drbd",
        "relocate-ext",
        "allocate-secondary-plain-to-drbd",
    ],
)
@pytest.mark.parametrize("hook", ["steward_constrain", "steward_weigh"])
def test_every_request_type(site: Site, capture: Capture, name: str, hook: str) -> None:
    broken(site, hook, "raise ValueError('no such rack')")
    site.configure("broken")
    assert site.refused(capture(name)) == "plugin broken: failed: ValueError: no such rack"


def test_next_allocator_after_a_failure(site: Site, capture: Capture) -> None:
    site.configure()
    balanced = site.ask(capture("allocate-drbd"))
    assert isinstance(balanced, Answer)
    broken(site, "steward_allocate", "raise ValueError('no such rack')")
    site.configure("broken", more='[allocators]\nallocate = ["broken", "balanced"]')
    assert site.ask(capture("allocate-drbd")) == balanced
    info = site.refused(capture("allocate-refused-memory"))
    assert info.startswith("plugin broken: failed: ValueError: no such rack; balanced: ")


def test_a_good_plugin_beside_a_broken_one(site: Site, capture: Capture) -> None:
    site.plugin("good", "@hookimpl\ndef steward_constrain(cluster):\n    return []\n")
    broken(site, "steward_constrain", "raise ValueError('no such rack')")
    site.configure("good", "broken")
    assert site.refused(capture("allocate-drbd")).startswith("plugin broken: ")


def test_explained(site: Site, capture: Capture) -> None:
    broken(site, "steward_constrain", "raise ValueError('no such rack')")
    site.configure("broken")
    outcome = site.ask(capture("allocate-drbd"), explain=True)
    assert outcome.info == "plugin broken: failed: ValueError: no such rack"
    assert outcome.explanations == ()


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("raise ValueError('no such rack')", "failed: ValueError: no such rack"),
        ("sys.exit(0)", "failed: SystemExit: 0"),
        ("raise OSError('/srv/\\udcff')", "failed: OSError: /srv/\\udcff"),
        ("raise asyncio.CancelledError", "failed: CancelledError: no message"),
    ],
)
def test_real_process(site: Site, capture: Capture, body: str, fault: str) -> None:
    broken(site, "steward_constrain", f"import asyncio\n    {body}")
    site.configure("broken")
    answer = site.run(capture("allocate-drbd"))
    assert answer == {
        "success": False,
        "info": f"Request failed: plugin broken: {fault}",
        "result": [],
    }


def test_traceback_in_the_log(site: Site, capture: Capture, tmp_path: Path) -> None:
    log = tmp_path / "steward.log"
    site.log = str(log)
    broken(site, "steward_constrain", "raise ValueError('no such rack')")
    site.configure("broken")
    site.run(capture("allocate-drbd"))
    text = log.read_text()
    assert "ERROR plugin broken: failed: ValueError: no such rack" in text
    assert 'broken.py", line ' in text


def test_printing_does_not_spoil_the_answer(site: Site, capture: Capture) -> None:
    site.plugin(
        "chatty",
        """
        print("imported")
        @hookimpl
        def steward_constrain(cluster):
            print("called")
            os.system("echo from a child")
            os.write(1, b"raw")
            return []
        """,
    )
    site.configure("chatty")
    assert site.run(capture("allocate-drbd"))["success"] is True
