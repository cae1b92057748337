"""Runs recorded moments through the step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TextIO, get_type_hints

from ganeti_steward.core.config.declaration import keys, read_section
from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.typed_json import from_json, to_json
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.engine.decision import Decision, Inputs
from ganeti_steward.plugins.maintenance.engine.routine import RoutinePlanner, no_routine
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.engine.tasks import Planner
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.world import World


class Replayed(NamedTuple):
    """A moment and what is decided in it."""

    moment: Moment
    decision: Decision


def replay(
    moments: Iterable[Moment],
    planner_for: Callable[[Maintd], Planner],
    routine_for: Callable[[Maintd], RoutinePlanner] = lambda settings: no_routine,
) -> Iterator[Replayed]:
    """Decide in each moment; one without incidents goes on with those of the one before."""
    incidents: Mapping[str, Incident] = {}
    for given in moments:
        moment = continued(given, incidents)
        settings = moment.settings
        decision = step(moment.inputs, settings, planner_for(settings), routine_for(settings))
        incidents = incidents_after(moment.inputs.world.incidents, decision)
        yield Replayed(moment, decision)


def incidents_after(
    incidents: Mapping[str, Incident], decision: Decision
) -> Mapping[str, Incident]:
    """The incidents, by uuid, once a decision is recorded."""
    changed = {incident.uuid: incident for incident in decision.records}
    return {
        uuid: incident
        for uuid, incident in {**incidents, **changed}.items()
        if uuid not in decision.removed
    }


#: The version of the format, the member ``format`` of the first line.
FORMAT: Final = 1

_CONFIGURATION: Final = "configuration"
_WORLD: Final = "world"
_INCIDENTS: Final = "incidents"
#: Members of a world of the versions before.
_BESIDE: Final = ("nodes", "instances", "groups", "cluster_tags")


class Moment(NamedTuple):
    """What one step got."""

    settings: Maintd
    inputs: Inputs
    continued: bool
    """whether the incidents are those that the step before has left"""


class Recorder:
    """Writes a line for each step."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._before: dict[str, Any] = {}

    def __call__(self, inputs: Inputs, settings: Maintd) -> None:
        """Write one moment, without what is as in the one before."""
        whole = {_CONFIGURATION: _configuration(settings), **_ordered(Inputs, inputs)}
        # With defaults, too: what is missing would be as in the line before.
        types = get_type_hints(World)
        whole[_WORLD] = {
            name: _ordered(types[name], one) for name, one in inputs.world._asdict().items()
        }
        line = {**whole, _WORLD: self._changed(_WORLD, whole), "format": FORMAT}
        line[_CONFIGURATION] = self._changed(_CONFIGURATION, whole)
        self._before = whole
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
        self._file.flush()

    def _changed(self, name: str, whole: Mapping[str, Any]) -> dict[str, Any]:
        before = self._before.get(name, {})
        return {
            key: value
            for key, value in whole[name].items()
            if key == _INCIDENTS or key not in before or before[key] != value
        }


_ordered: Final = partial(to_json, ordered=True)


def _configuration(settings: Maintd) -> dict[str, Any]:
    values = ((key.name, getattr(settings, key.field)) for key in keys(Maintd))
    return {name: list(one) if isinstance(one, tuple) else one for name, one in values}


def read_moments(lines: Iterable[str]) -> Iterator[Moment]:
    """The moments of a file; raises StewardError naming the line that cannot be used."""
    before: dict[str, Any] = {_CONFIGURATION: {}, _WORLD: {}}
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                before, moment = _moment(before, line)
            except (ValueError, RecursionError) as err:
                raise StewardError(f"line {number}: {err}") from None
            yield moment


def _moment(before: Mapping[str, Any], line: str) -> tuple[dict[str, Any], Moment]:
    """What the next line builds on, and the moment; raises ValueError."""
    data = load_json(line)
    if not isinstance(data, dict) or not isinstance(data.get(_WORLD), dict):
        raise ValueError("an object with the object world is expected")
    if not isinstance(data.setdefault(_CONFIGURATION, {}), dict):
        raise ValueError(f"{_CONFIGURATION} must be an object")
    version = data.pop("format", FORMAT)
    if version != FORMAT:
        raise ValueError(f"its format is {version!r}, this program reads format {FORMAT}")
    data[_CONFIGURATION] = {**before[_CONFIGURATION], **data[_CONFIGURATION]}
    continued = _INCIDENTS not in data[_WORLD]
    data[_WORLD] = {**before[_WORLD], **data[_WORLD]}
    given = {name: one for name, one in data.items() if name != _CONFIGURATION}
    given[_WORLD] = _upgraded(data[_WORLD])
    if isinstance(since := given.get("since"), dict):
        given["since"] = _by_plugin(since)
    return data, Moment(_settings(data[_CONFIGURATION]), from_json(Inputs, given), continued)


def _upgraded(world: Mapping[str, Any]) -> dict[str, Any]:
    """A world of the versions before, which had what is not for allocators beside the cluster."""
    found = {name: one for name, one in world.items() if name not in _BESIDE}
    if not isinstance(cluster := found.get("cluster"), dict) or len(found) == len(world):
        return found
    nodes = {one["name"]: one for one in world.get("nodes", {}).values()}
    instances = world.get("instances", {})
    found["cluster"] = {
        **cluster,
        "tags": world.get("cluster_tags", []),
        "nodes": [_node(one, nodes.get(one["name"], {})) for one in cluster["nodes"]],
        "instances": [
            _with_sent(one, status=instances.get(one["name"], {}).get("status", ""))
            for one in cluster["instances"]
        ],
    }
    return found


def _by_plugin(since: Mapping[str, Any]) -> dict[str, Any]:
    """`Inputs.since`; keys of versions before: ``plugin subject``, ``plugin subject #mark``."""
    if not all(isinstance(start, int) for start in since.values()):
        return dict(since)
    found: dict[str, Any] = {}
    for key, start in since.items():
        plugin, _, rest = key.partition(" ")
        subject, _, mark = rest.partition(" #")
        lasting = found.setdefault(plugin, {"since": {}, "marked": {}})
        starts = lasting["marked"].setdefault(subject, {}) if mark else lasting["since"]
        starts[mark or subject] = start
    return found


def _node(node: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
    return _with_sent(
        node,
        uuid=beside.get("uuid", ""),
        primary_ip=beside.get("address", ""),
        master=beside.get("master", False),
        master_candidate=beside.get("master_candidate", False),
        master_capable=beside.get("master_capable", True),
    )


def _with_sent(one: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {**one, "sent": {**one.get("sent", {}), **more}}


def _settings(given: Any) -> Maintd:
    faults: list[str] = []
    settings = read_section(Maintd, _CONFIGURATION, given, faults)
    if settings is None:
        raise ValueError(join_faults(faults))
    return settings


def continued(moment: Moment, incidents: Mapping[str, Incident]) -> Moment:
    """A moment with the incidents that the step before has left, where it has none itself."""
    if not moment.continued:
        return moment
    world = moment.inputs.world._replace(incidents=incidents)
    return moment._replace(inputs=moment.inputs._replace(world=world))
