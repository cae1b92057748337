"""``gnt-steward filter recipe``."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from daemons import luxid

from ganeti_steward.plugins.filters.cli.recipe import RECIPES
from ganeti_steward.plugins.filters.filter_rules import FilterRule, FilterRules
from ganeti_steward.plugins.filters.recipes import LIMIT, PRIORITIES

if TYPE_CHECKING:
    from pathlib import Path

    from front import Front
    from ruled import Call, Ruled

A = "aaaaaaaa-0000-4000-8000-000000000000"
#: Each recipe with what it requires in addition to a name.
EVERY = {name: ["3"] if name == LIMIT else [] for name in RECIPES}


def calls(text: str) -> list[dict[str, Any]]:
    """The rules in printed calls of gnt-filter."""
    found = []
    for line in text.splitlines():
        program, command, *words = shlex.split(line)
        assert (program, command) == ("gnt-filter", "add")
        values = dict(word.removeprefix("--").split("=", 1) for word in words)
        predicates = json.loads(values["predicates"])
        found.append({**values, "priority": int(values["priority"]), "predicates": predicates})
    return found


def test_every_recipe_is_a_command_with_a_priority() -> None:
    assert sorted(RECIPES) == sorted(PRIORITIES), (
        "give each recipe a row in RECIPES of plugins/filters/cli/recipe.py and one in PRIORITIES "
        "of plugins/filters/recipes.py"
    )


@pytest.mark.parametrize("recipe", EVERY)
def test_printed_calls_and_data_and_what_is_created_are_the_same(
    call: Call, cluster: Ruled, recipe: str
) -> None:
    words = ("recipe", recipe, "pink bunny", *EVERY[recipe])
    printed, data = calls(call(*words).out), json.loads(call(*words, "--json").out)
    assert cluster.rules == []
    done = call(*words, "--submit")
    assert (done.status, done.err) == (0, "")
    assert done.out.split() == [rule["uuid"] for rule in cluster.rules]
    for shown, sent, rule in zip(printed, data, cluster.rules, strict=True):
        for key in ("priority", "predicates"):
            assert shown[key] == sent[key] == rule[key]
        assert sent["action"] == rule["action"]
        action = rule["action"]
        assert shown["action"] == (action if isinstance(action, str) else "RATE_LIMIT 3")
        text = f"gnt-steward:recipe:{recipe}:pink bunny"
        assert shown["reason"] == sent["reason"][-1][1] == rule["reason_trail"][0][1] == text


def test_only_lets_the_owner_through(call: Call) -> None:
    accept, pause = json.loads(call("recipe", "only", "pink bunny", "--json").out)
    reason = ["&", ["=", "source", "gnt:user"], ["=", "reason", "pink bunny"]]
    assert (accept["action"], accept["predicates"]) == ("ACCEPT", [["reason", reason]])
    assert (pause["action"], pause["predicates"]) == ("PAUSE", [])
    assert (accept["priority"], pause["priority"]) == (30, 31)


def test_allow(call: Call) -> None:
    words = ("--allow=a", "--allow=b", "--source=gnt:x", "--allow-maintd", "--json")
    accept, _ = json.loads(call("recipe", "only", "bunny", *words).out)
    assert accept["predicates"][0][1] == [
        "|",
        ["&", ["=", "source", "gnt:x"], ["=", "reason", "a"]],
        ["&", ["=", "source", "gnt:x"], ["=", "reason", "b"]],
        ["=", "source", "gnt:daemon:maintd"],
    ]


def test_opcodes_and_priority(call: Call) -> None:
    words = ("limit", "x", "1", "--opcode=OP_INSTANCE_MIGRATE", "--priority=7", "--json")
    (rule,) = json.loads(call("recipe", *words).out)
    assert rule["predicates"] == [["opcode", ["=", "OP_ID", "OP_INSTANCE_MIGRATE"]]]
    assert (rule["priority"], rule["action"]) == (7, ["RATE_LIMIT", 1])


def test_the_reason_is_in_the_trail(call: Call, cluster: Ruled) -> None:
    call("recipe", "drain", "bunny", "--reason=racks move", "--submit")
    (rule,) = cluster.rules
    assert [one[:2] for one in rule["reason_trail"][:2]] == [
        ["gnt:user", "racks move"],
        ["gnt:client:gnt-steward", "gnt-steward:recipe:drain:bunny"],
    ]
    assert call("list", "-o", "purpose", "--no-headers").out == "recipe drain bunny\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["drain", ""], "name: words without blanks around are expected, found ''"),
        (["drain", " x"], "words without blanks around are expected, found ' x'"),
        (["drain", "a\nb"], "name: words without blanks"),
        (["drain", "J\u00fcrgen"], "name: '\\xfc' is not ASCII"),
        (["drain", "x", "--allow=\u20ac"], "--allow: '\\u20ac' is not ASCII"),
        (["drain", "x", "--allow="], "--allow: the text of a reason is expected"),
        (["limit", "x", "0"], "action: ACCEPT, PAUSE, REJECT, CONTINUE or RATE_LIMIT with"),
        (["limit", "x", "many"], "found the text 'RATE_LIMIT many'"),
        (["forbid", "x", "--opcode=op_test_delay"], "'op_test_delay' is not an opcode such as "),
        (["only", "x", "--priority=-3"], "priority: a whole number from 0"),
        (["remove", "x"], "'x' has no recipe here (names with recipes: none)"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_faults(call: Call, cluster: Ruled, words: list[str], message: str) -> None:
    done = call("recipe", *words, *(["--submit"] if words[0] != "remove" else []))
    assert (done.status, done.out, cluster.rules) == (1, "", [])
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_remove_lifts_the_rules_of_one_name_only(call: Call, cluster: Ruled) -> None:
    cluster.put(A)
    for name in ("bunny", "pony"):
        call("recipe", "drain", name, "--submit")
    call("recipe", "only", "bunny", "--submit")
    of_pony = [rule for rule in cluster.rules if "pony" in str(rule["reason_trail"])]
    done = call("recipe", "remove", "bunny")
    assert (done.status, len(done.out.split())) == (0, 3)
    assert cluster.rules[1:] == of_pony
    assert "(names with recipes: 'pony')" in call("recipe", "remove", "bunny").err


def test_remove_one_recipe(call: Call, cluster: Ruled) -> None:
    call("recipe", "limit", "bunny", "2", "--submit")
    call("recipe", "only", "bunny", "--submit")
    assert call("recipe", "remove", "bunny", "--recipe", "only").status == 0
    (rule,) = cluster.rules
    assert rule["action"] == ["RATE_LIMIT", 2]
    assert (
        "'bunny' has no recipe only here" in call("recipe", "remove", "bunny", "--recipe=only").err
    )


def test_a_recipe_by_gnt_filter_is_recognized(call: Call, cluster: Ruled) -> None:
    """Its ``--reason`` has another source."""
    (shown,) = calls(call("recipe", "drain", "bunny").out)
    cluster.put(A, reason_trail=[["gnt:user", shown["reason"], 1]])
    assert call("recipe", "remove", "bunny").out == f"{A}\n"


def test_a_name_has_a_recipe_once(call: Call, cluster: Ruled) -> None:
    """A second owner with the same name must not share the rules."""
    (uuid,) = call("recipe", "drain", "bunny", "--submit").out.split()
    done = call("recipe", "drain", "bunny", "--submit")
    assert (done.status, len(cluster.rules)) == (1, 1)
    assert f"'bunny' has the recipe drain already, in filter rule {uuid}; " in done.err


def test_all_or_none(call: Call, cluster: Ruled) -> None:
    cluster.left = {"ReplaceFilter": 1}
    done = call("recipe", "only", "bunny", "--submit")
    assert (done.status, done.out, cluster.rules) == (1, "", [])
    assert "no more changes" in done.err
    assert done.err.endswith("; no rule was created\n")


def test_what_may_be_left_is_named(call: Call, cluster: Ruled) -> None:
    cluster.left = {"ReplaceFilter": 1}
    cluster.refused = {"DeleteFilter": "it is locked"}
    done = call("recipe", "only", "bunny", "--submit")
    (rule,) = cluster.rules
    assert done.status == 1
    assert rule["uuid"] in done.err
    assert " may still exist: " in done.err
    assert "it is locked" in done.err


def test_a_removal_that_fails_lets_nothing_be_held(call: Call, cluster: Ruled) -> None:
    """The exception is deleted after the rule that it is an exception to."""
    call("recipe", "only", "bunny", "--submit")
    cluster.left = {"DeleteFilter": 1}
    done = call("recipe", "remove", "bunny")
    assert done.status == 1
    assert [rule["action"] for rule in cluster.rules] == ["ACCEPT"]


def test_rules_of_recipes_are_protected(call: Call, cluster: Ruled) -> None:
    (uuid,) = call("recipe", "drain", "bunny", "--submit").out.split()
    done = call("delete", uuid)
    assert (done.status, len(cluster.rules)) == (1, 1)
    assert "belongs to the recipe drain of 'bunny', which 'gnt-steward filter recipe" in done.err


def test_printing_needs_no_cluster(front: Front) -> None:
    assert front("filter", "recipe", "drain", "bunny").status == 0


def test_a_rule_whose_creation_is_not_confirmed_is_deleted_again(
    front: Front, cluster: Ruled, tmp_path: Path
) -> None:
    def answer(method: str, arguments: list[Any]) -> bytes | None:
        raw = cluster.luxi(method, arguments)
        # luxid does it, and goes away before it answers.
        return None if method == "ReplaceFilter" and len(cluster.rules) == 2 else raw

    with luxid(tmp_path, answer) as daemon:
        words = ("only", "bunny", "--submit", "--luxi-socket", daemon.path)
        done = front("filter", "recipe", *words)
        written = [one for one in daemon.requests if one["method"] == "ReplaceFilter"]
    assert len(written) == 2
    assert (done.status, cluster.rules) == (1, [])
    assert "the connection was closed before the answer; no rule was created" in done.err


def test_an_interrupted_recipe_leaves_nothing(
    call: Call, cluster: Ruled, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = FilterRules.write

    def interrupted(self: FilterRules, rule: FilterRule) -> str:
        uuid = write(self, rule)
        if rule.action == "PAUSE":
            raise KeyboardInterrupt
        return uuid

    monkeypatch.setattr(FilterRules, "write", interrupted)
    done = call("recipe", "only", "bunny", "--submit")
    assert (done.status, cluster.rules) == (1, [])
    assert done.err == "gnt-steward filter: interrupted; no rule was created\n"


@pytest.mark.parametrize("more", [[], ["--allow", "pony"], ["--allow-maintd"]])
@pytest.mark.parametrize("recipe", ["drain", "soft-drain", "only"])
def test_a_printed_recipe_has_no_findings_before_it_is_created(
    front: Front, tmp_path: Path, recipe: str, more: list[str]
) -> None:
    front.configure()
    file = tmp_path / "rules.json"
    options = [*more, *(["--new"] if recipe == "only" else [])]
    file.write_text(front("filter", "recipe", recipe, "bunny", *options, "--json").out)
    done = front("filter", "lint", str(file))
    assert (done.status, done.out, done.err) == (0, "", "")
