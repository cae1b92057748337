"""What follows from measured CPU load, and reports that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages import answer, message, wanted
from monitoring import node_report, xen_report

from ganeti_steward.allocators.loads.load_reports import (
    NODE_COLLECTOR,
    XEN_COLLECTOR,
    NoLoads,
    nodes_to_query,
    read_reports,
    with_reports,
)
from ganeti_steward.core.errors import BadInput
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.cluster import Cluster

Json = dict[str, Any]


def _message() -> Json:
    """n1 has two reserved CPUs and all kinds of instances, n2 one, n3 and n4 are not live."""
    nodes_to_query = message()
    nodes = nodes_to_query["nodes"]
    template = nodes["n1.test"]
    nodes_to_query["nodes"] = {
        f"n{i}.test": {**template, "reserved_cpus": i % 2 * 2, "free_disk": 0, "total_disk": 0}
        for i in range(1, 5)
    }
    nodes_to_query["nodes"]["n3.test"]["offline"] = True
    nodes_to_query["nodes"]["n4.test"]["vm_capable"] = False
    nodes_to_query["instances"] = {
        "up": _instance("n1.test", 1),
        "big": _instance("n1.test", 3),
        "down": _instance("n1.test", 4, admin_state="down"),
        "offline": _instance("n1.test", 1, admin_state="offline"),
        "announced": _instance("n1.test", 8, forthcoming=True),
        "alone": _instance("n2.test", 2),
        "lost": _instance("n3.test", 1),
    }
    return nodes_to_query


def _instance(node: str, vcpus: int, **more: object) -> Json:
    body = {**wanted("x"), "disk_template": "diskless", "vcpus": vcpus, "nodes": [node]}
    return {**body, "disks": [], "disk_space_total": 0, **more}


def _cluster(change: Callable[[Json], object] = lambda _: None) -> Cluster:
    built = _message()
    change(built)
    cluster, _ = read_message(json.dumps(built).encode())
    return cluster


def _loads(cluster: Cluster) -> dict[str, float]:
    nodes = {node.name: node.own_load for node in cluster.nodes}
    return nodes | {instance.name: instance.cpu_load for instance in cluster.instances}


def test_without_measurements() -> None:
    loads = _loads(_cluster())
    assert loads == {name: 0.0 if name.endswith(".test") else 1.0 for name in loads}


def test_only_live_nodes_are_queried() -> None:
    def drain(built: Json) -> None:
        built["nodes"]["n2.test"]["drained"] = True

    assert nodes_to_query(_cluster()) == ("n1.test", "n2.test")
    assert nodes_to_query(_cluster(drain)) == ("n1.test", "n2.test")


def test_load_of_nodes() -> None:
    reports = {"n1.test": node_report(5.0), "n2.test": node_report(0)}
    # 2 reserved, 1 + 3 + 4 in use: half a load for each CPU.
    assert _loads(with_reports(_cluster(), reports, NODE_COLLECTOR)) == {
        "n1.test": 0.5,
        "n2.test": 0.0,
        "n3.test": 0.0,
        "n4.test": 0.0,
        "up": 0.5,
        "big": 1.5,
        "down": 2.0,
        "offline": 0.5,
        "announced": 4.0,
        "alone": 0.0,
        "lost": 1.0,
    }


def test_load_of_a_node_whose_cpus_are_unused() -> None:
    def stop(built: Json) -> None:
        built["instances"]["alone"]["admin_state"] = "offline"

    reports = {"n1.test": node_report(5.0), "n2.test": node_report(3.0)}
    loads = _loads(with_reports(_cluster(stop), reports, NODE_COLLECTOR))
    assert (loads["n2.test"], loads["alone"]) == (3.0, 0.0)


LOADS = {"up": 0.25, "big": 2, "Domain-0": 9.0, "alone": 7.0}


def test_load_of_xen_instances() -> None:
    reports = {"n1.test": xen_report(LOADS), "n2.test": xen_report({"alone": 0.5, "up": 7.0})}
    assert _loads(with_reports(_cluster(), reports, XEN_COLLECTOR)) == {
        "n1.test": 0.0,
        "n2.test": 0.0,
        "n3.test": 0.0,
        "n4.test": 0.0,
        "up": 0.25,
        "big": 2.0,
        "down": 0.0,
        "offline": 0.0,
        "announced": 0.0,
        "alone": 0.5,
        "lost": 1.0,
    }


def test_running_instance_that_is_not_reported() -> None:
    reports = {"n1.test": xen_report(LOADS), "n2.test": xen_report({})}
    with pytest.raises(NoLoads) as caught:
        with_reports(_cluster(), reports, XEN_COLLECTOR)
    assert str(caught.value) == "node 'n2.test': it reports no load of instance 'alone'"


@pytest.mark.parametrize(
    ("report", "fault"),
    [
        ([], "its report is a list, not an object"),
        (None, "its report is null, not an object"),
        ({}, "its report has null as its name, not 'cpu-avg-load'"),
        (xen_report({}), "its report has the text 'xen-cpu-avg-load' as its name"),
        ({"name": NODE_COLLECTOR}, "the load 'cpu_total' in its report is null, not a number"),
        (node_report("1.5"), "the load 'cpu_total' in its report is the text '1.5', not a"),
        (node_report(True), "the load 'cpu_total' in its report is true, not a number"),
        (node_report(-0.1), "the load 'cpu_total' in its report is -0.1, which is out of"),
        (node_report(1e7), "the load 'cpu_total' in its report is 10000000.0, which is out"),
        (
            {"name": NODE_COLLECTOR, "data": {"error": "Time covered by data is not"}},
            "its report contains an error: 'Time covered by data is not'",
        ),
        ({"name": NODE_COLLECTOR, "data": []}, "the load 'cpu_total' in its report is a list"),
    ],
    ids=str,
)
def test_report_of_a_node_at_fault(report: object, fault: str) -> None:
    reports = {"n1.test": node_report(5.0), "n2.test": report}
    with pytest.raises(NoLoads) as caught:
        with_reports(_cluster(), reports, NODE_COLLECTOR)
    assert str(caught.value).startswith(f"node 'n2.test': {fault}")


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ([], "its report's data is a list, not an object"),
        ({"alone": "much"}, "the load 'alone' in its report is the text 'much', not a number"),
        ({"alone": 1.0, "other": -1}, "the load 'other' in its report is -1, which is out of"),
    ],
    ids=str,
)
def test_faulty_report_of_instances(data: object, fault: str) -> None:
    reports = {"n1.test": xen_report(LOADS), "n2.test": xen_report(data)}
    with pytest.raises(NoLoads) as caught:
        with_reports(_cluster(), reports, XEN_COLLECTOR)
    assert str(caught.value).startswith(f"node 'n2.test': {fault}")


def _write(tmp_path: Path, content: object) -> str:
    file = tmp_path / "reports.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(file)


def _entry(node: str, *reports: object) -> Json:
    return {"node": node, "reports": list(reports)}


def test_file_of_reports(tmp_path: Path) -> None:
    one, two = node_report(1.5), node_report(0.5)
    other = {"name": "diskstats", "data": None}
    content = [_entry("b", other, two), _entry("a", one, two), _entry("elsewhere", "broken")]
    file = _write(tmp_path, content)
    assert read_reports(file, ("a", "b"), NODE_COLLECTOR) == {"a": one, "b": two}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[", "file '{file}': not valid JSON: "),
        ({}, "file '{file}': a list is expected, found an object"),
        ([[]], "file '{file}': entry 0: an object is expected, found a list"),
        ([{"node": "a"}], "file '{file}': entry 0: key 'reports' is missing"),
        ([{"reports": []}], "file '{file}': entry 0: key 'node' is missing"),
        (
            [_entry("a"), {"node": 7, "reports": {}}],
            "file '{file}': entry 1: key 'node': a text is expected, found the number 7; "
            "entry 1: key 'reports': a list is expected, found an object",
        ),
        ([_entry("a"), _entry("a")], "file '{file}': entry 1: key 'node': node 'a' is there alre"),
        ([_entry("a", 7, node_report(1))], "node 'b': not in file '{file}'"),
        (
            [_entry("a", node_report(1)), _entry("b", 7, xen_report({}))],
            "node 'b': no cpu-avg-load report in file '{file}'",
        ),
    ],
    ids=str,
)
def test_file_at_fault(content: object, fault: str, tmp_path: Path) -> None:
    file = _write(tmp_path, content)
    with pytest.raises(NoLoads) as caught:
        read_reports(file, ("a", "b"), NODE_COLLECTOR)
    shown = file if len(file) <= 80 else file[:77] + "..."
    assert str(caught.value).startswith(fault.format(file=shown))


@pytest.mark.parametrize(
    ("file", "reason"),
    [("", "Is a directory"), ("/none", "No such file or directory"), ("/\0", "embedded null")],
    ids=["directory", "none", "no name"],
)
def test_file_that_cannot_be_read(file: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(NoLoads, match=reason):
        read_reports(f"{tmp_path}{file}", (), NODE_COLLECTOR)


def test_missing_data_is_noted_in_the_answer(tmp_path: Path) -> None:
    file = _write(tmp_path, [_entry("n1.test", node_report(1))])
    plain, noted = answer(message()), answer(message(), f"--mond-data={file}", "--bogus")
    note = " (CPU load not used: node 'n2.test': not in file '/"
    assert noted["result"] == plain["result"]
    assert noted["info"].startswith(plain["info"] + note)
    assert noted["info"].endswith(") (options ignored: --bogus)")


def test_refusals_note_it_too(tmp_path: Path) -> None:
    nodes_to_query = message()
    nodes_to_query["request"]["memory"] = 2**30
    plain = answer(nodes_to_query)
    noted = answer(nodes_to_query, f"--mond-data={tmp_path}/none")
    assert plain["success"] is noted["success"] is False
    assert noted["info"].startswith(plain["info"] + " (CPU load not used: file ")


@pytest.mark.parametrize("off", ["--ignore-dynu", "--mond=no"])
def test_no_measurement_wanted(off: str, tmp_path: Path) -> None:
    assert answer(message(), f"--mond-data={tmp_path}/none", off) == answer(message())


def test_no_file_is_no_reason_to_ask_the_nodes() -> None:
    with pytest.raises(BadInput):
        answer(message(), "--mond-data=")
