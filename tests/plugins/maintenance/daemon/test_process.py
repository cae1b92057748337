"""The daemon as a process: it begins as the master only, repairs, and ends in time."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confd_servers import reply
from fake_agents import sends
from running import Site, site, wait_for
from worlds import node, world

from ganeti_steward.core.builtins import MAINTENANCE
from ganeti_steward.core.config.load import load_config
from ganeti_steward.plugins.maintenance.daemon.options import DaemonOptions
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.daemon.process import Daemon
from ganeti_steward.plugins.maintenance.daemon.replay import read_moments
from ganeti_steward.plugins.maintenance.daemon.wakeup import Signals, Wakeup
from ganeti_steward.plugins.maintenance.edges.audit import read_audit
from ganeti_steward.plugins.maintenance.edges.status import Status
from ganeti_steward.plugins.maintenance.queue.short_jobs import QUERY_DATA
from ganeti_steward.plugins.model.world import World


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as made:
        yield made


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors


def statuses(cluster: Site) -> list[str]:
    return [one["repair-status"] for one in cluster.get("/1/status")]


def test_an_evacuation_from_the_report_to_the_tag(cluster: Site) -> None:
    node = cluster.names[1]
    with cluster.daemon(record=str(cluster.path / "record")) as process:
        cluster.begun()
        cluster.report(node, status="evacuate", details={"disk": "sda"})
        tags = wait_for(lambda: cluster.tags(node), cluster.log.read_text)
        (incident,) = cluster.get("/1/status")
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "")
    assert tags == [f"maintd:repairready:{incident['uuid']}"]
    row = cluster.stand_in.ganeti.node(node)
    assert (row["offline"], row["drained"]) == (True, False)
    assert not any(
        node in (one["pnode"], *one["snodes"]) for one in cluster.stand_in.ganeti.instances
    )
    operations = [op for jobs in cluster.stand_in.submissions for job in jobs for op in job]
    assert len(operations) > 3
    for operation in operations:
        assert ["gnt:daemon:maintd", incident["uuid"]] in [one[:2] for one in operation["reason"]]
    _check_traces(cluster, incident)


def _check_traces(cluster: Site, incident: dict[str, Any]) -> None:
    """The audit log and the recorded moments hold the same story."""
    events = [one.after for one in read_audit(str(cluster.audit), incident=incident["uuid"])]
    assert [one for one in events if one] == ["noted", "pending", "completed"]
    moments = list(read_moments((cluster.path / "record").read_text().splitlines()))
    assert len(moments) > 4
    assert moments[0].settings.mode == "act"


def test_plan_changes_nothing(cluster: Site) -> None:
    node = cluster.names[1]
    cluster.report(node, status="evacuate")
    text = cluster.plan()
    assert "new -> noted " in text
    assert "start drain " in text
    assert f"set {node} drained" in text
    cluster.configure(mode="observe")
    assert "held (observe) " in cluster.plan()
    assert cluster.stand_in.submissions == []
    assert cluster.stand_in.filters == {}


def test_a_signal_ends_it_soon(cluster: Site) -> None:
    with cluster.daemon() as process:
        cluster.begun()
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "")
        assert time.monotonic() - began < 60
    assert "maintd ends" in cluster.log.read_text()


def test_there_is_one_daemon(cluster: Site) -> None:
    with cluster.daemon() as first:
        cluster.begun()
        with cluster.daemon() as second:
            status, errors = ended(second)
        assert status == 1
        assert f"already running as process {first.pid}" in errors


def test_another_master_in_ganetis_files(cluster: Site) -> None:
    (cluster.path / "data" / "ssconf_master_node").write_text(cluster.names[1])
    with cluster.daemon() as process:
        status, errors = ended(process)
    assert status == 11
    assert f"Ganeti's files here name {cluster.names[1]}" in errors


def test_a_vote_lost_before_the_start(cluster: Site) -> None:
    cluster.names_as_master(cluster.names[2])
    with cluster.daemon() as process:
        assert ended(process)[0] == 11


def test_a_vote_lost_later(cluster: Site) -> None:
    with cluster.daemon() as process:
        cluster.begun()
        cluster.names_as_master(cluster.names[2])
        status, errors = ended(process)
    assert status == 11
    assert errors.startswith("gnt-steward maintd: this node is not the master: 1 of 1 master")


def test_one_candidate_that_lies_does_not_end_the_daemon(cluster: Site) -> None:
    """It does nothing and says so, works when the lie is over, and ends when the others agree."""
    own, other = cluster.names[0], cluster.names[1]

    def late(raw: bytes) -> list[bytes]:
        """So that the lie is heard in each vote."""
        time.sleep(0.2)
        return [reply(raw, own, 5)]

    cluster.confd.servers[0]._answers = late
    cluster.add_candidates(2, late)
    liar = cluster.confd.servers[2]
    with cluster.daemon() as process:
        cluster.begun()
        liar._answers = lambda raw: [reply(raw, "node9.lab", 10**12)]
        cluster.report(other, status="evacuate", details={"disk": "sda"})
        text = cluster.logged("the master is undecided: 1 of 3 master candidates name node9.lab")
        assert "but 2 name this node" in text
        wait_for(lambda: not cluster.get("/healthz")["ok"], cluster.log.read_text)
        reason = cluster.get("/healthz")["reason"]
        assert reason.startswith("nothing is done, whether this node is the master is undecided")
        assert b"not healthy:</b> nothing is done, whether" in cluster.raw("/ui")
        rounds = cluster.get("/1/daemon")["round"]["number"]
        wait_for(
            lambda: cluster.get("/1/daemon")["round"]["number"] > rounds + 3, cluster.log.read_text
        )
        assert (process.poll(), cluster.stand_in.submissions) == (None, [])
        liar._answers = late
        wait_for(lambda: cluster.tags(other), cluster.log.read_text)
        assert cluster.get("/healthz") == {"ok": True, "reason": ""}
        # A failover: the two other candidates have the new configuration, this one has the old.
        for server in cluster.confd.servers[1:]:
            server._answers = lambda raw: [reply(raw, other, 9)]
        assert ended(process)[0] == 11


def test_without_an_answer_it_waits_for_the_vote(cluster: Site) -> None:
    cluster.confd.servers[0]._answers = lambda raw: []
    with cluster.daemon() as process:
        cluster.logged("is undecided: none of 1 master candidates answered")
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "")


def test_an_admin_may_answer_for_the_vote(cluster: Site) -> None:
    cluster.confd.servers[0]._answers = lambda raw: []
    with cluster.daemon(undecided_is_master=True):
        assert "taken as won because of --no-voting" in cluster.begun()


def test_the_configuration_is_read_again(cluster: Site) -> None:
    with cluster.daemon() as process:
        cluster.begun()
        cluster.configure(mode="observe", port=1)
        process.send_signal(signal.SIGHUP)
        cluster.logged("the configuration was read again")
        cluster.logged("another port is used only after a restart")
        wait_for(lambda: cluster.get("/1/daemon")["mode"] == "observe", cluster.log.read_text)
        cluster.configure(mode="nonsense")
        process.send_signal(signal.SIGHUP)
        held = wait_for(lambda: cluster.get("/1/daemon")["held"], cluster.log.read_text)
    assert [one["brake"] for one in held] == ["configuration"]
    assert "maintd.mode" in held[0]["sentence"]


def test_reloads_leave_no_thread(cluster: Site) -> None:
    with cluster.daemon() as process:
        cluster.begun()
        wait_for(lambda: cluster.get("/1/daemon")["round"]["number"], cluster.log.read_text)
        daemon = psutil.Process(process.pid)
        before = daemon.num_threads()
        for number in range(1, 11):
            process.send_signal(signal.SIGHUP)
            cluster.logged("(?s)" + number * "the configuration was read again.*")
        # Those that poll come and go; one for each reload would be ten more.
        wait_for(lambda: daemon.num_threads() < before + 5, cluster.log.read_text)


def test_healthz_goes_by_the_configuration_in_use(cluster: Site) -> None:
    cluster.configure(**{"round-interval": 60})
    wakeup = Wakeup()
    config = load_config(str(cluster.config), MAINTENANCE)
    daemon = Daemon(DaemonOptions(address="127.0.0.1", port=0), config, Signals(wakeup))
    server = daemon._server()
    try:
        application = server._application
        ended = time.time_ns() - 900 * 10**9
        application.status = Status(ended, round_ended=ended)
        assert "more than 480 s" in application._fault(application.status)
        cluster.configure(**{"round-interval": 3600})
        daemon._configured.config = load_config(str(cluster.config), MAINTENANCE)
        assert application._fault(application.status) == ""
    finally:
        server.stop()
        wakeup.close()


def test_volume_groups_are_kept_where_the_vote_is_won(cluster: Site) -> None:
    cluster.configure()
    wakeup, seen = Wakeup(), list[World]()
    config = load_config(str(cluster.config), MAINTENANCE)
    daemon: Any = Daemon(DaemonOptions(address="127.0.0.1", port=0), config, Signals(wakeup))
    daemon._groups = seen.append
    outcome = Round(0, 0, world([node("n1")]))
    for one in (outcome._replace(undecided="no reply"), Round(0, 0, fault="no luxid"), outcome):
        daemon._keep_groups(one)
    assert seen == [outcome.world]
    wakeup.close()


def test_it_goes_on_when_luxid_is_back(cluster: Site) -> None:
    socket = cluster.path / "luxi.sock"
    with cluster.daemon():
        cluster.begun()
        wait_for(lambda: cluster.get("/1/daemon")["round"]["number"], cluster.log.read_text)
        hidden = socket.rename(cluster.path / "hidden")
        assert "there is no socket" in cluster.logged("round failed: there is no socket")
        assert "there is no socket" in cluster.get("/1/daemon")["round"]["fault"]
        hidden.rename(socket)
        wait_for(lambda: not cluster.get("/1/daemon")["round"]["fault"], cluster.log.read_text)


def test_a_cancel_while_jobs_run(cluster: Site) -> None:
    node = cluster.names[1]
    cluster.stand_in.pace(3)
    with cluster.daemon():
        cluster.begun()
        cluster.report(node, status="evacuate")
        wait_for(lambda: cluster.stand_in.submissions, cluster.log.read_text)
        (uuid,) = cluster.stand_in.filters
        cluster.tags(node).append(f"maintd:cancel:{uuid}")
        wait_for(lambda: statuses(cluster) == ["canceled"], cluster.log.read_text)
        wait_for(lambda: cluster.tags(node) == [], cluster.log.read_text)
    kinds = [job[0]["OP_ID"] for jobs in cluster.stand_in.submissions for job in jobs]
    assert kinds == ["OP_NODE_SET_PARAMS", "OP_TAGS_DEL"]


def test_a_kill_loses_nothing(cluster: Site) -> None:
    node = cluster.names[1]
    cluster.stand_in.pace(0.5)
    cluster.report(node, status="evacuate")
    for _ in range(4):
        with cluster.daemon():
            wait_for(lambda: cluster.stand_in.submissions, lambda: "no job")
            time.sleep(1.3)
    with cluster.daemon():
        wait_for(lambda: cluster.tags(node), cluster.log.read_text)
    (uuid,) = cluster.stand_in.filters
    record = json.loads(cluster.stand_in.filters[uuid]["reason_trail"][0][1])
    assert record["status"] == "completed"
    submitted = [job for submission in cluster.stand_in.submissions for job in submission]
    # A job that only reads does not belong to a submission.
    jobs = [job for job in submitted if job[0]["OP_ID"] != QUERY_DATA]
    moved = [job[0]["instance_name"] for job in jobs if "instance_name" in job[0]]
    assert len(moved) == len(set(moved)) > 0
    assert len({submission_of(job) for job in jobs}) == len(jobs)


def test_the_memory_of_the_daemon(tmp_path: Path) -> None:
    """200 agents, 20 of which never answer, and callers of the page."""
    with site(tmp_path, nodes=200, instances=2000) as cluster:
        rows = cluster.stand_in.ganeti.nodes
        for row in rows[180:]:
            cluster.agents.behaviours[row["pip"]] = sends(None)
        for row in rows[1:3]:
            cluster.report(row["name"], status="evacuate")
        with cluster.daemon() as process:
            cluster.begun()
            wait_for(lambda: cluster.get("/1/daemon")["round"]["number"] > 5, cluster.log.read_text)
            wait_for(lambda: cluster.stand_in.submissions, cluster.log.read_text)
            assert cluster.raw("/ui").count(b"<tr") > 200
            used = psutil.Process(process.pid).memory_info().rss
            print(cluster.get("/1/daemon")["round"])
    assert used < 96 * 2**20


def submission_of(job: list[dict[str, Any]]) -> str:
    """The id that all operations of a job have in their reason trails."""
    (found,) = {
        reason[1]
        for operation in job
        for reason in operation["reason"]
        if reason[0] == "gnt:daemon:maintd:submission"
    }
    return str(found)
