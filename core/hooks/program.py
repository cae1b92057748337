"""A child for site plugins that is a program of its own, for a process with several threads."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import NamedTuple

from ganeti_steward.core.builtins import target
from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.core.config.written import config_text
from ganeti_steward.core.hooks.child import Serve, run_child
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.supervision.own_program import start_module
from ganeti_steward.core.typed_json import from_json, to_json


class _Given(NamedTuple):
    """What the program gets."""

    questions: int
    answers: int
    parent: int
    """process id"""
    served: str
    """a class, as ``module:name``; it is made of the configuration and the names"""
    config: str
    """the text of a file"""
    load: tuple[str, ...]
    """names of plugins"""


def program_child(serve: Serve, questions: int, answers: int, errors: int) -> int:
    """Start the program; raises OSError.

    ``serve``: a `partial` of a class with a configuration and a tuple with names of plugins.
    """
    assert isinstance(serve, partial)
    kind, (config, load) = serve.func, serve.args
    served = f"{kind.__module__}:{kind.__name__}"
    given = _Given(questions, answers, os.getpid(), served, config_text(config), load)
    raw = json.dumps(to_json(_Given, given)).encode()
    return start_module(__name__, raw, (questions, answers), output=errors, errors=errors)


def main() -> None:
    """Serve what standard input holds."""
    given = from_json(_Given, load_json(sys.stdin.buffer.read()))
    config = parse_config("of the caller", given.config.encode())
    serve = partial(target(given.served), config, given.load)
    run_child(serve, given.questions, given.answers, 2, given.parent)
