"""The client of the remote API, against a server that answers as Ganeti does."""

from __future__ import annotations

import base64
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from daemons import Rapid, rapi

from ganeti_steward.allocators.jobs.operations import migrate, replace_secondary
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti import rapi_access
from ganeti_steward.core.ganeti.jobs import Submitted
from ganeti_steward.core.ganeti.rapi import Rapi
from ganeti_steward.core.ganeti.rapi_access import (
    Credentials,
    base_url,
    read_credentials,
)
from ganeti_steward.plugins.model.operations import remove_tags, set_tags

LAB = Credentials("lab", "secret")


def client(daemon: Rapid, credentials: Credentials | None = LAB, **more: Any) -> Rapi:
    return Rapi(daemon.host, credentials, verify=False, **more)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("cluster.lab", "https://cluster.lab:5080"),
        ("cluster.lab:5999", "https://cluster.lab:5999"),
        ("10.0.0.1", "https://10.0.0.1:5080"),
        ("[fe80::1]", "https://[fe80::1]:5080"),
        ("[fe80::1]:7", "https://[fe80::1]:7"),
        ("https://cluster.lab:5080/", "https://cluster.lab:5080"),
    ],
)
def test_addresses(host: str, url: str) -> None:
    assert base_url(host) == url


@pytest.mark.parametrize(
    ("host", "fault"),
    [
        ("", "HOST or HOST:PORT is expected"),
        ("cluster:port", "HOST or HOST:PORT is expected"),
        ("cluster:99999", "HOST or HOST:PORT is expected"),
        ("ftp://cluster", "HOST or HOST:PORT is expected"),
        ("cluster/2/info", "HOST or HOST:PORT is expected"),
        ("https://lab:secret@cluster", "every user of this machine can read user and password"),
        ("lab@cluster", "every user of this machine can read user and password"),
    ],
)
def test_no_addresses(host: str, fault: str) -> None:
    with pytest.raises(StewardError, match=fault) as caught:
        base_url(host)
    assert "secret" not in str(caught.value)


def test_an_answer_that_never_ends() -> None:
    """Each byte comes in time; the whole answer does not."""
    done = threading.Event()

    def drip() -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not done.wait(0.05):
                connection.sendall(b"1")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip)
        thread.start()
        host = f"http://127.0.0.1:{server.getsockname()[1]}"
        one, started = Rapi(host, verify=False, time_limit=0.5), time.monotonic()
        with pytest.raises(StewardError, match=r"no answer within 0\.5 s"):
            one.info()
        assert time.monotonic() - started < 60
        done.set()
        thread.join()


def test_plain_http_must_be_meant() -> None:
    with pytest.raises(StewardError, match="without https anyone on the way can read"):
        Rapi("http://127.0.0.1:1", LAB)


def test_a_call() -> None:
    with rapi(lambda method, path: (200, {"name": "cluster.lab"})) as daemon:
        assert client(daemon).info() == {"name": "cluster.lab"}
        client(daemon, None).info()
    first, second = daemon.requests
    assert (first.method, first.path) == ("GET", "/2/info")
    assert first.authorization == "Basic " + base64.b64encode(b"lab:secret").decode()
    assert second.authorization is None


def test_environment_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No proxy comes between, and no password of another tool is sent."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password thing\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with rapi(lambda method, path: (200, {})) as daemon:
        client(daemon, None).info()
    assert daemon.requests[0].authorization is None


@pytest.mark.parametrize(
    ("status", "answer", "fault"),
    [
        (
            502,
            {"code": 502, "message": "Bad Gateway", "explain": "Can&#x27;t &quot;do&quot;\n it"},
            'info: Can\'t "do" it (status 502)',
        ),
        (
            504,
            {"code": 504, "explain": "The gateway server did not receive a timely response"},
            "info: RAPI answers, but luxid on the master does not (504): check ganeti-luxid there",
        ),
        (500, {"code": 500, "message": "Queue drained"}, "info: Queue drained (status 500)"),
        (500, b"<html>", "info: Internal Server Error (status 500)"),
        (500, [], "info: Internal Server Error (status 500)"),
        (401, {"explain": "No permission"}, "info: user and password are wrong"),
        (
            403,
            {},
            "info: the user may not do that (no write access in ganeti-rapi's users file)",
        ),
        (302, {}, "info: Found (status 302)"),
        (200, b"no JSON", "info: the answer is not JSON"),
        (200, b"[" * 100_000, "info: the answer is not JSON"),
        (500, b"[" * 100_000, "info: Internal Server Error (status 500)"),
    ],
)
def test_errors_are_sentences(status: int, answer: Any, fault: str) -> None:
    with (
        rapi(lambda method, path: (status, answer)) as daemon,
        pytest.raises(StewardError) as caught,
    ):
        client(daemon).info()
    assert str(caught.value) == f"RAPI at {daemon.host}, {fault}"


def test_credentials_are_required() -> None:
    with (
        rapi(lambda method, path: (401, {})) as daemon,
        pytest.raises(StewardError, match=r"are needed \(--rapi-credentials FILE\)"),
    ):
        client(daemon, None).info()


def test_no_listener() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(StewardError) as caught:
            Rapi(host, verify=False).info()
    assert str(caught.value) == (
        f"RAPI at {host}: RAPI is stopped: nothing listens there; start ganeti-rapi on the master"
    )


def test_credentials_that_this_user_may_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*arguments: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    file = tmp_path / "credentials"
    file.write_text("a b")
    monkeypatch.setattr("ganeti_steward.core.ganeti.rapi_access.read_in_time", denied)
    with pytest.raises(StewardError) as caught:
        read_credentials(str(file), {})
    assert str(caught.value) == (
        f"{file}: permission denied; run the command as root or as the owner of this file"
    )


def test_no_answer() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        host = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(StewardError, match=r"no answer within 0\.05 s"):
            Rapi(host, verify=False, time_limit=0.05).info()


def test_fields_missing_in_plain_resources_are_queried() -> None:
    answers = {
        "/2/instances?bulk=1": [{"name": "i1", "tags": []}, {"name": "i2", "tags": ["x"]}],
        "/2/query/instance?fields=name%2Cforthcoming": {
            "data": [[[0, "i2"], [0, True]], [[0, "i1"], [1, None]]]
        },
    }
    with rapi(lambda method, path: (200, answers[path])) as daemon:
        rows = client(daemon).rows("instance", ("name", "tags", "forthcoming"))
        alone = client(daemon, None).rows("instance", ("name", "forthcoming"))
    assert rows == [
        {"name": "i1", "tags": [], "forthcoming": None},
        {"name": "i2", "tags": ["x"], "forthcoming": True},
    ]
    assert [row["forthcoming"] for row in alone] == [None, None]
    assert len(daemon.requests) == 3


def test_a_user_who_may_not_query() -> None:
    def answer(method: str, path: str) -> tuple[int, Any]:
        return (403, {}) if path.startswith("/2/query") else (200, [{"name": "i1"}])

    with rapi(answer) as daemon:
        assert client(daemon).rows("instance", ("name", "forthcoming")) == [
            {"name": "i1", "forthcoming": None}
        ]


def test_submit() -> None:
    """Each operation is a job that waits for the one before it."""
    numbers = iter(["11", "12", "13", "14"])
    with rapi(lambda method, path: (200, next(numbers))) as daemon:
        job = [
            replace_secondary("i1.lab", "n3.lab"),
            migrate("i1.lab"),
            replace_secondary("i1.lab", "n4.lab"),
        ]
        done = client(daemon).submit([job, [migrate("i2.lab", "n4.lab")]], "tidy up")
    assert done == [Submitted((11, 12, 13)), Submitted((14,))]
    assert [(one.method, one.path) for one in daemon.requests] == [
        ("POST", "/2/instances/i1.lab/replace-disks?reason=tidy+up"),
        ("PUT", "/2/instances/i1.lab/migrate?reason=tidy+up"),
        ("POST", "/2/instances/i1.lab/replace-disks?reason=tidy+up"),
        ("PUT", "/2/instances/i2.lab/migrate?reason=tidy+up"),
    ]
    first, second, again, third = (one.body for one in daemon.requests)
    assert first["remote_node"] == "n3.lab"
    assert "depends" not in first
    assert second["depends"] == [[11, ["success"]]]
    assert again["depends"] == [[12, ["success"]]]
    assert third["target_node"] == "n4.lab"
    assert "OP_ID" not in third
    assert "instance_name" not in third


def test_other_text_than_ascii() -> None:
    """In a reason it is escaped, in anything else the job is not sent."""
    with rapi(lambda method, path: (200, "11")) as daemon:
        jobs = [[migrate("i1.lab")], [set_tags("node", "n1.lab", ["caf\u00e9"])]]
        first, second = client(daemon).submit(jobs, "na\u00efve")
    assert (first, second.numbers) == (Submitted((11,)), ())
    assert second.error.startswith("OP_TAGS_SET: only ASCII may be in a job")
    assert [one.path for one in daemon.requests] == [
        "/2/instances/i1.lab/migrate?reason=na%5Cxefve"
    ]


def test_tags() -> None:
    """Tags go into the address; a following job still waits for the one before it."""
    numbers = iter(range(11, 15))
    jobs = [
        [set_tags("node", "n1.lab", ["a:b", "c+d"]), remove_tags("nodegroup", "my group", ["e"])],
        [set_tags("cluster", "", ["f"])],
        [remove_tags("instance", "i1.lab", ["g"])],
    ]
    with rapi(lambda method, path: (200, str(next(numbers)))) as daemon:
        assert [client(daemon).refusal(job) for job in jobs] == ["", "", ""]
        done = client(daemon).submit(jobs, "tidy up")
    assert done == [Submitted((11, 12)), Submitted((13,)), Submitted((14,))]
    assert [(one.method, one.path, one.body) for one in daemon.requests] == [
        ("PUT", "/2/nodes/n1.lab/tags?tag=a%3Ab&tag=c%2Bd&reason=tidy+up", None),
        (
            "DELETE",
            "/2/groups/my%20group/tags?tag=e&reason=tidy+up",
            {"depends": [[11, ["success"]]]},
        ),
        ("PUT", "/2/tags?tag=f&reason=tidy+up", None),
        ("DELETE", "/2/instances/i1.lab/tags?tag=g&reason=tidy+up", None),
    ]


def test_a_job_taken_in_part() -> None:
    answers = iter([(200, "5"), (500, {"explain": "Queue drained"})])
    with rapi(lambda method, path: next(answers)) as daemon:
        (done,) = client(daemon).submit([[migrate("a"), migrate("a"), migrate("a")]], "x")
    assert done.numbers == (5,)
    assert done.error.endswith("instances/a/migrate: Queue drained (status 500)")
    assert len(daemon.requests) == 2


def test_what_cannot_be_done() -> None:
    api = Rapi("cluster.lab")
    assert api.refusal([migrate("i")]) == ""
    fault = api.refusal([migrate("i"), {"OP_ID": "OP_TEST_DELAY"}])
    assert fault == "RAPI offers no OP_TEST_DELAY; luxid on the master does"


def test_states_and_cancel() -> None:
    nulls: dict[str, Any] = {"status": None, "opstatus": None, "opresult": None}
    failed = [["OpExecError", ["no disk"]]]
    answers = {
        "/2/jobs/1": (200, {"status": "running", "opstatus": ["running"], "opresult": [None]}),
        "/2/jobs/2": (200, {"status": "error", "opstatus": ["error"], "opresult": failed}),
        "/2/jobs/3": (200, nulls),
        "/2/jobs/4": (404, {}),
    }
    with rapi(lambda method, path: answers[path] if method == "GET" else (200, [True, "ok"])) as d:
        states = client(d).states([1, 2, 3, 4])
        assert client(d).cancel(1) == "ok"
    assert [(state.number, state.status) for state in states] == [
        (1, "running"),
        (2, "error"),
        (3, "lost"),
        (4, "lost"),
    ]
    assert states[1].error == "no disk"
    assert d.requests[-1].method == "DELETE"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lab secret\n", LAB),
        ("# of the lab\n\nlab:secret", LAB),
        ("lab a b:c\n", Credentials("lab", "a b:c")),
        ("lab:a b:c\n", Credentials("lab", "a b:c")),
    ],
)
def test_credentials_in_a_file(tmp_path: Path, text: str, found: Credentials) -> None:
    file = tmp_path / "credentials"
    file.write_text(text)
    file.chmod(0o600)
    assert read_credentials(str(file), {}) == found


@pytest.mark.parametrize("text", ["", "lab\n", "lab a\nother b\n"])
def test_no_credentials_in_a_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "credentials"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(StewardError, match="one line with user and password is expected"):
        read_credentials(str(file), {})


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o644])
def test_a_file_open_to_others(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "credentials"
    file.write_text("lab secret")
    file.chmod(mode)
    with pytest.raises(StewardError, match=rf"open to others \(mode {mode:04o}\); chmod 600"):
        read_credentials(str(file), {})


def test_credentials_in_the_environment() -> None:
    user, password = "GNT_STEWARD_RAPI_USER", "GNT_STEWARD_RAPI_PASSWORD"
    assert read_credentials(None, {user: "lab", password: "secret"}) == LAB
    assert read_credentials(None, {}) is None
    with pytest.raises(StewardError, match="belong together"):
        read_credentials(None, {user: "lab"})
    with pytest.raises(StewardError, match="No such file"):
        read_credentials("/nosuch/file", {})


def test_credentials_that_never_come_or_never_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rapi_access, "_WAIT", 0.1)
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(StewardError, match=r"fifo: nothing more came within 0\.1 s"):
        read_credentials(str(tmp_path / "fifo"), {})
    with pytest.raises(StewardError, match="/dev/zero: it is longer than 65536 bytes"):
        read_credentials("/dev/zero", {})


def test_credentials_from_a_pipe() -> None:
    """As the shell passes the output of a command."""
    reader, writer = os.pipe()
    os.write(writer, b"lab secret\n")
    os.close(writer)
    try:
        assert read_credentials(f"/dev/fd/{reader}", {}) == LAB
    finally:
        os.close(reader)


def test_a_file_without_certificates(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    with pytest.raises(StewardError, match=r"ca\.pem: no certificates: "):
        Rapi("cluster.lab", verify=str(file))
