"""The collectors that come with the program, known by name and imported when they are needed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.hooks.timed_call import sentence
from ganeti_steward.diagnose.config.source_names import COLLECTORS

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import Config

#: The hook each of them implements, and every plugin of ``[diagnose] load``.
HOOK: Final = "steward_diagnose"

_PACKAGE: Final = "ganeti_steward.diagnose.collectors"


def make_collector(name: str, settings: Mapping[str, Any]) -> Any:
    """A collector with its thresholds; raises StewardError naming every fault of them."""
    return importlib.import_module(f"{_PACKAGE}.{name}").Collector(settings)


def collector_faults(config: Config) -> list[str]:
    """What is wrong with the sections ``[collector.NAME]``, each fault with its path."""
    faults = []
    for name, settings in config.collector.items():
        if name not in COLLECTORS:
            known = ", ".join(COLLECTORS)
            faults.append(f"collector.{name}: no collector has this name (known: {known})")
            continue
        fault = collector_fault(name, settings)
        # They say themselves which key they are about.
        faults += getattr(fault, "faults", [f"collector.{name}: {fault}"] if fault else [])
    return faults


def collector_fault(name: str, settings: Mapping[str, Any]) -> StewardError | None:
    """Why a collector cannot be made; None when it can."""
    try:
        make_collector(name, settings)
    except StewardError as err:
        return err
    except Exception as err:
        return StewardError(f"cannot be used: {sentence(err)}")
    return None
