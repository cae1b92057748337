"""``gnt-steward check-config``: every fault of the configuration at once."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from ganeti_steward.core import builtins, errors
from ganeti_steward.core.commands.config_texts import reference_page, sample_config
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.config.declaration import keys
from ganeti_steward.core.config.load import config_path, load_config, read_file
from ganeti_steward.core.config.parse import read_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.hooks import timed_call
from ganeti_steward.core.hooks.calls import call
from ganeti_steward.core.hooks.checks import check_list, check_text
from ganeti_steward.core.hooks.isolation import isolated
from ganeti_steward.core.hooks.loading import Named, load_plugin, named_plugins
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.model.requests import HOOKS

_HOOK: Final = "steward_check_config"

#: The sections that say which plugins are loaded.
_LOADING: Final = ("plugins", "diagnose")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    describe(
        parser,
        {
            "gnt-steward check-config": "check the file in use and the plugins it names",
            "gnt-steward check-config new.toml": "check a file before it is copied to the nodes",
            "gnt-steward check-config --all-nodes": "also compare all nodes, plugins included",
            "gnt-steward check-config --sample": "print all keys with their defaults",
        },
        statuses={errors.EXIT_FAILURE: "there is a fault, or a node has another file or plugin"},
    )
    parser.add_argument("file", nargs="?", help="default: the file in use")
    parser.add_argument(
        "--sample", action="store_true", help="print a complete configuration with all defaults"
    )
    parser.add_argument(
        "--all-nodes",
        action="store_true",
        help="also compare the file and its plugins with those of every other node, over ssh",
    )
    parser.add_argument(
        "--reference", action="store_true", help="print the reference of all keys, in Markdown"
    )


def run(options: argparse.Namespace) -> int:
    """Print one line per fault; status 1 when there is any."""
    if options.sample or options.reference:
        sys.stdout.write(_sample() if options.sample else reference_page())
        return errors.EXIT_OK
    path = options.file or config_path()
    try:
        raw = read_file(path)
        faults = [] if raw is None else _faults(path, raw)
    except errors.BadConfig as err:
        raw, faults = b"", list(err.faults)
    for fault in faults:
        print(f"{path}: {fault}")
    if raw is None:
        print(f"{path}: there is no such file; every key has its default")
    elif not faults:
        print(f"{path}: OK")
    if options.all_nodes:
        nodes = builtins.module(builtins.COMPARED_NODES)
        plugins: Mapping[str, str] = {}
        with suppress(errors.StewardError):
            plugins = nodes.plugin_digests(load_config(path, _LOADING))
        if not nodes.print_comparison(os.path.abspath(path), raw, plugins):
            return errors.EXIT_FAILURE
    return errors.EXIT_FAILURE if faults else errors.EXIT_OK


def _faults(path: str, raw: bytes) -> list[str]:
    """Everything that is wrong with a file; raises BadConfig where it cannot be parsed."""
    config, found = read_config(path, raw)
    faults = [fault for of_section in found.values() for fault in of_section]
    # What a faulty list does not load is not missing.
    return [*faults, *config_faults(config, loads=not (found["plugins"] or found["diagnose"]))]


def _sample() -> str:
    """The sample with the sections of the plugins that the file in use loads."""
    with suppress(errors.StewardError):
        config = load_config(config_path(), _LOADING)
        names = [one.name for one in named_plugins(config) if _is_loaded(one.name, config)]
        return isolated(names, str, lambda: sample_config(_declared(names, config)))
    return sample_config({})


def _is_loaded(name: str, config: Config) -> bool:
    """Whether a plugin can be imported."""

    def load() -> bool:
        timed_call.call(name, config.plugins.time_limit, load_plugin, name=name)
        return True

    with suppress(errors.StewardError):
        return isolated([name], bool, load)
    return False


def _declared(names: Sequence[str], config: Config) -> dict[str, Any]:
    """Plugin -> the declaration of its section, of those that have one."""
    found = {name: _declaration(name, config) for name in names}
    return {name: declared for name, declared in found.items() if declared}


def _declaration(name: str, config: Config) -> Any:
    """The declaration of a plugin's section; None where it has none or cannot be loaded."""
    with suppress(errors.StewardError):
        limit = config.plugins.time_limit
        declared = getattr(timed_call.call(name, limit, load_plugin, name=name), "CONFIG", None)
        return declared if timed_call.call(name, limit, keys, section=declared) else None
    return None


def config_faults(config: Config, *, loads: bool = True) -> Iterator[str]:
    """What is wrong with the plugins and programs named, and what the plugins find wrong.

    ``loads``: whether the keys that name plugins could be read.
    """
    loading = list(_load_faults(config))
    yield from (fault for _, fault in loading)
    broken = {name for name, _ in loading}
    good = tuple(name for name in config.plugins.load if name not in broken)
    try:
        chains = isolated(
            good, list[str], lambda: _chain_faults(config, Plugins(config, good), broken)
        )
    except errors.PluginError as err:
        # Two names of one plugin, each good by itself.
        yield f"plugins.load: {err}"
    else:
        if loads:
            yield from (*chains, *_unknown_names(config))
    own = [one.name for one in builtins.BUILT_INS if _HOOK in one.hooks]
    yield from _own_faults(config, dict.fromkeys([*good, *own]))
    for one in named_plugins(config):
        if one.name not in (*broken, *good):
            yield from _own_faults(config, [one.name])


def _load_faults(config: Config) -> Iterator[tuple[str, str]]:
    """Each plugin that cannot be loaded or lacks the hook it is named for, with the fault."""

    def load(one: Named) -> None:
        plugins = Plugins(config, (one.name,))
        if one.hook:
            plugins.implementation(one.name, one.hook)
        elif fault := _misplaced(one.name, plugins.hooks(one.name)):
            raise errors.PluginError(one.name, fault)

    for one in named_plugins(config):
        try:
            isolated([one.name], None, partial(load, one))
        except errors.BadSettings as err:
            yield from ((one.name, fault) for fault in err.faults)
        except errors.PluginError as err:
            yield one.name, f"{one.key}: {err}"


def _misplaced(name: str, hooks: Sequence[str]) -> str:
    """Why a plugin of ``plugins.load`` would never be called; empty: it would be."""
    if name in builtins.COLLECTORS:
        return "is a built-in collector, which diagnose.collectors names"
    keys = {hook: key for key, hook in builtins.PLUGIN_KEYS.items() if hook}
    if len(hooks) == 1 and (key := keys.get(*hooks)):
        return f"has only the hook {hooks[0]}, which plugins of {key} are called for"
    return ""


def _chain_faults(config: Config, plugins: Plugins, broken: Collection[str]) -> list[str]:
    """What is wrong with the members of the chains and the shadows."""
    return [
        f"{section}.{kind}: {fault}"
        for section, members in (("allocators", config.chain), ("shadow", config.shadows))
        for kind, hook in HOOKS.items()
        for name in members(kind)
        if name not in broken and (fault := _member_fault(plugins, name, hook))
    ]


def _member_fault(plugins: Plugins, name: str, hook: str) -> str:
    """What is wrong with one member; empty when nothing is."""
    try:
        if name.startswith(errors.COMMAND_PREFIX):
            builtins.module(builtins.EXTERNAL_PROGRAM).check_command(name)
        else:
            plugins.implementation(name, hook)
    except errors.PluginError as err:
        return str(err)
    return ""


def _unknown_names(config: Config) -> Iterator[str]:
    """Weights and sections of plugins that nothing loads."""
    loaded = [one.name for one in named_plugins(config)]
    for section, names, known in (
        ("weigh", config.weigh, config.plugins.load),
        ("plugin", config.plugin, loaded),
    ):
        for name in names:
            if name not in known:
                yield f"{section}.{name}: no plugin of this name is loaded"


def _own_faults(config: Config, names: Iterable[str]) -> list[str]:
    """The faults that plugins find, each plugin by itself and within its time limit."""
    found = []
    for name in names:
        try:
            found += isolated([name], list[str], partial(_found, config, name))
        except errors.PluginError as err:
            found.append(str(err))
    return found


def _found(config: Config, name: str) -> list[str]:
    """The faults that one plugin finds; raises PluginError."""
    plugins = Plugins(config, (name,))
    if _HOOK not in plugins.hooks(name):
        return []
    faults = call(plugins.implementation(name, _HOOK), config.plugins.time_limit, config=config)
    check_list(name, _HOOK, faults or ())
    return [check_text(name, "a fault", fault) for fault in faults or ()]
