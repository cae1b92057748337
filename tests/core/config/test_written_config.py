"""The text of a configuration reads as the same configuration."""

from __future__ import annotations

import math
import tomllib
from datetime import UTC, date, datetime, time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.config.written import config_text, toml

TEXT = b"""
    [allocators]
    allocate = ["mysite.rules", "balanced"]
    relocate = []
    time-limit = 3
    [shadow]
    allocate = ["packed"]
    [plugins]
    load = ["mysite.rules"]
    [maintd]
    mode = "act"
    windows = ["Mon-Fri 22:00-06:00"]
    plan-time-limit = 0.5
    [history]
    keep = 0
    [log]
    level = "debug"
    [weigh]
    "mysite.rules" = 1.5
    [plugin."mysite.rules"]
    since = 2024-02-29T12:00:00.5+01:00
    days = [2024-02-29, 2024-03-01]
    at = 23:59:59
    racks = [{ name = "a b", height = 42, share = 1e-7 }, { "" = true }]
    most = inf
    text = "\\"quoted\\" \\u007f\\n\\U0001f600 \\\\"
    [plugin."mysite.rules".nested]
    deep.er = -0.0
    [collector.smart]
    anything = 5
    [nagios."a.b"]
    command = ["/bin/true"]
    """


def test_a_whole_file() -> None:
    config = parse_config("x", TEXT)
    assert set(config.sections) == {"shadow", "maintd", "nagios.a.b"}
    assert parse_config("x", config_text(config).encode()) == config


def test_the_defaults() -> None:
    assert parse_config("x", config_text(Config()).encode()) == Config()


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"))
    | st.dates(min_value=date(1, 1, 1))
    | st.times(min_value=time(0))
    | st.datetimes(timezones=st.none() | st.just(UTC)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_every_value(value: Any) -> None:
    found = tomllib.loads(f"value = {toml(value)}\n")["value"]
    assert found == value
    assert type(found) is type(value)


def test_numbers_that_are_none() -> None:
    assert math.isnan(tomllib.loads(f"value = {toml(math.nan)}\n")["value"])
    assert toml(datetime(2024, 2, 29, tzinfo=UTC)) == "2024-02-29T00:00:00+00:00"
