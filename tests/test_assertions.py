"""Every test asserts something: itself or by a helper, and not only in a loop that may be empty."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

TESTS: Final = Path(__file__).parent
_RAISING: Final = {"raises", "warns", "fail"}
#: What is called for its errors alone: any error of it fails the test.
_CHECKING: Final = {"parse_config", "change"}
_NOT_EMPTY: Final = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.ListComp)


class Found(NamedTuple):
    place: str
    function: ast.FunctionDef


@cache
def trees() -> dict[Path, ast.Module]:
    return {file: ast.parse(file.read_text()) for file in sorted(TESTS.rglob("*.py"))}


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def all_tests() -> list[Found]:
    return [
        Found(f"{file.relative_to(TESTS.parent)}:{function.lineno} {function.name}", function)
        for file, tree in trees().items()
        if file.name.startswith("test_")
        for function in functions(tree)
        if function.name.startswith("test_")
    ]


def asserts(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Assert) or (isinstance(one, ast.Attribute) and one.attr in _RAISING)
        for one in ast.walk(node)
    )


def names(node: ast.AST) -> set[str]:
    """Everything it may call: names, methods, and fixtures."""
    found: set[str] = set()
    for one in ast.walk(node):
        match one:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                found.add(name)
    return found


@cache
def helpers() -> frozenset[str]:
    """The functions of the tests that assert, themselves or by others."""
    bodies = defaultdict[str, list[ast.FunctionDef]](list)
    for tree in trees().values():
        for function in functions(tree):
            if not function.name.startswith("test_"):
                bodies[function.name].append(function)
    found = {name for name, same in bodies.items() if any(map(asserts, same))} | _CHECKING
    calls = {name: set[str]().union(*map(names, same)) for name, same in bodies.items()}
    while more := {name for name, called in calls.items() if called & found} - found:
        found |= more
    return frozenset(found)


def may_be_empty(loop: ast.For) -> bool:
    """Whether nothing says that there is at least one: a literal, a range, or ``some``."""
    over = loop.iter
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute):
        over = over.func.value if over.func.attr in ("items", "values") else over
    if isinstance(over, _NOT_EMPTY):
        return False
    return not names(over) & {"some", "range"}


def places(body: Iterable[ast.stmt], loop: ast.For | None = None) -> Iterator[ast.For | None]:
    """For each assertion of a test the loop over what may be empty that it stands in, if any."""
    for statement in body:
        if isinstance(statement, ast.For):
            inner = statement if loop is None and may_be_empty(statement) else loop
            yield from places(statement.body, inner)
        elif isinstance(statement, ast.With | ast.If | ast.While | ast.Try):
            if isinstance(statement, ast.With) and any(map(asserts, statement.items)):
                yield loop
            yield from places(statement.body, loop)
        elif asserts(statement) or (
            isinstance(statement, ast.Expr) and names(statement) & helpers()
        ):
            yield loop


def empty(test: Found) -> bool:
    """Hypothesis also tries what is empty, beside much that is not."""
    if any("given" in names(one) for one in test.function.decorator_list):
        return False
    found = list(places(test.function.body))
    return bool(found) and None not in found


def test_every_test_asserts() -> None:
    found = [
        test.place
        for test in all_tests()
        if not asserts(test.function) and not names(test.function) & helpers()
    ]
    assert len(all_tests()) > 3000
    assert found == [], "assert something, or call what does"


def test_no_test_asserts_in_an_empty_loop_only() -> None:
    found = [test.place for test in all_tests() if empty(test)]
    assert found == [], "loop over some(...) of tests/support/asserting.py"


def test_what_is_found() -> None:
    (function,) = functions(ast.parse("def test():\n    for one in f():\n        assert one"))
    assert empty(Found("", function))
    (function,) = functions(ast.parse("def test():\n    for one in some(f()):\n        assert one"))
    assert not empty(Found("", function))
