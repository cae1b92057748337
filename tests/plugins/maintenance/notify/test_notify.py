"""Notifications: all plugins, none in the way of another one, none in the way of the daemon."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from programs import ended_at_last, is_running, notes, program, wait_until
from statuses import DONE, INCIDENT

from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.errors import BadConfig, PluginError
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.status import incident_json
from ganeti_steward.plugins.maintenance.engine.decision import Change
from ganeti_steward.plugins.maintenance.notify.notify import Background, Notifier
from ganeti_steward.plugins.maintenance.notify.notify_command import NotifyCommand
from ganeti_steward.plugins.maintenance.notify.webhook import PAUSES, Webhook

if TYPE_CHECKING:
    from sites import Site

CHANGE: Final = Change(None, INCIDENT, "new report", "the node reports evacuate")
CONTENT: Final = {
    "incident": INCIDENT.uuid,
    "node": "uuid-1",
    "node-name": "node1.lab",
    "from": "new",
    "to": "pending",
    "event": "new report",
    "reason": "the node reports evacuate",
    "before": None,
    "after": incident_json(INCIDENT),
}


def notifier(site: Site, *load: str, more: str = "", limit: float = 10) -> Notifier:
    site.configure(*load, more=more, limit=limit)
    return Notifier(load_config(str(site.config_file)))


def finish(one: Notifier) -> None:
    """Wait until all is delivered."""
    begun = time.monotonic()
    one.finish(60)
    assert time.monotonic() - begun < 50


NOTING: Final = """
    @hookimpl
    def steward_incident_changed(before, after, event, reason):
        with open({file!r}, "a") as file:
            print(before and before.uuid, after and after.status, event, reason, file=file)
"""


def test_plugins_are_called_in_order(site: Site, tmp_path: Path) -> None:
    file = str(tmp_path / "notes")
    site.plugin("noting", NOTING.format(file=file))
    one = notifier(site, "noting")
    one.notify([CHANGE, Change(INCIDENT, None, "left", "it is gone")])
    one.notify([Change(INCIDENT, DONE, "failed", "no disk")])
    finish(one)
    assert Path(file).read_text().splitlines() == [
        "None pending new report the node reports evacuate",
        f"{INCIDENT.uuid} None left it is gone",
        f"{INCIDENT.uuid} failed failed no disk",
    ]


@pytest.mark.parametrize(
    ("body", "fault", "limit"),
    [
        ("raise ValueError('oops')", "ValueError: oops", 60),
        ("os._exit(3)", "exit status 3", 60),
        ("while True: pass", "took longer than its 6 s", 6),
    ],
)
def test_a_failing_plugin_delays_no_other(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, body: str, fault: str, limit: int
) -> None:
    """The limit is that of each plugin, so a busy machine must not make the other one late."""
    file = str(tmp_path / "notes")
    site.plugin(
        "broken",
        f"@hookimpl\ndef steward_incident_changed(before, after, event, reason):\n    {body}",
    )
    site.plugin("noting", NOTING.format(file=file))
    one = notifier(site, "broken", "noting", limit=limit)
    one.notify([CHANGE, CHANGE])
    finish(one)
    assert len(Path(file).read_text().splitlines()) == 2
    (failure,) = (text for text in caplog.messages if "plugin broken: " in text)
    assert fault in failure
    (problem,) = one.problems
    assert problem.sentence.startswith(f"{failure} (failed 2 times since ")


def test_the_child_is_no_copy_of_the_daemon(site: Site, tmp_path: Path) -> None:
    """A process with several threads must not fork."""
    file = tmp_path / "notes"
    site.plugin(
        "looking",
        f"""
        @hookimpl
        def steward_incident_changed(reason):
            with open({str(file)!r}, "w") as file:
                file.write(str("notified_by" in sys.modules))
        """,
    )
    sys.modules["notified_by"] = sys
    try:
        one = notifier(site, "looking")
        one.notify([CHANGE])
        finish(one)
    finally:
        del sys.modules["notified_by"]
    assert file.read_text() == "False"


def test_plugins_without_the_hook_are_left_alone(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.plugin("other", "@hookimpl\ndef steward_weigh(instance): pass")
    one = notifier(site, "other")
    one.notify([CHANGE, CHANGE])
    finish(one)
    assert caplog.messages == []


def test_a_plugin_that_cannot_be_loaded(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The daemon starts without it."""
    one = notifier(site, "nosuch_plugin")
    one.notify([CHANGE])
    finish(one)
    assert ["plugin nosuch_plugin: is neither a module" in text for text in caplog.messages] == [
        True
    ]


def test_the_queue_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    may_go, done = threading.Event(), list[int]()

    def work(item: int) -> None:
        assert may_go.wait(300)
        done.append(item)

    one = Background("work", work, 5)
    one.put(0)
    wait_until(lambda: not one._waiting, "the start of the first one")
    # None of them waits: the first one still does.
    for item in range(1, 100):
        one.put(item)
    assert not one.finish(0.05)
    may_go.set()
    assert one.finish(60)
    assert done == [0, 1, 2, 3, 4, 5]
    assert caplog.messages == ["notifying work waits: 5 wait already, one is dropped"]
    assert "notifying work" not in [thread.name for thread in threading.enumerate()]


def test_work_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    def work(item: int) -> None:
        done.append(1 // item)

    one = Background("work", work)
    one.put(0)
    one.put(1)
    assert one.finish(60)
    assert done == [1]
    assert caplog.messages == [
        "notifying work fails: ZeroDivisionError: integer division or modulo by zero"
    ]
    assert one.problems == ()


def change(plugin: NotifyCommand | Webhook, settings: Maintd) -> str:
    """What is wrong with a notification; empty: nothing."""
    plugin.configure(settings)
    try:
        plugin.steward_incident_changed(*CHANGE)
    except PluginError as err:
        return str(err)
    return ""


def test_the_command_is_built_in(site: Site, tmp_path: Path) -> None:
    path = program(tmp_path, "notified", 'cat > NOTES; echo " $#" >> NOTES')
    one = notifier(site, more=f'[maintd]\nnotify-command = "{path}"')
    one.notify([CHANGE])
    finish(one)
    content, _, arguments = notes(path).rpartition(" ")
    assert json.loads(content) == CONTENT
    assert arguments == "0\n"


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("echo no\\ mail >&2; exit 3", "ended with exit status 3: no mail"),
        ("kill -9 $$", "was ended by SIGKILL"),
        ("sleep 60 & echo $! >> NOTES; echo $$ >> NOTES; wait", "was killed after 0.5 s"),
    ],
)
def test_a_command_that_fails(tmp_path: Path, source: str, fault: str) -> None:
    path = program(tmp_path, "notified", source)
    with ended_at_last(path):
        found = change(NotifyCommand(0.5), Maintd(notify_command=path))
        for pid in map(int, notes(path).split()):
            wait_until(lambda pid=pid: not is_running(pid), "the end of its process")
    assert found == f"plugin notify-command: {path} {fault}"


def test_no_such_command() -> None:
    assert change(NotifyCommand(), Maintd(notify_command="/no/such")) == (
        "plugin notify-command: /no/such is not run: /no cannot be opened: "
        "No such file or directory"
    )


def test_a_command_that_fails_is_a_problem_until_it_works(site: Site, tmp_path: Path) -> None:
    path = program(tmp_path, "notified", f"test -e {tmp_path}/good")
    one = notifier(site, more=f'[maintd]\nnotify-command = "{path}"')
    one.notify([CHANGE])
    finish(one)
    (problem,) = one.problems
    assert (problem.subject, problem.brake) == ("cluster", "reporting")
    assert f"plugin notify-command: {path} ended with exit status 1" in problem.sentence
    (tmp_path / "good").touch()
    one.notify([CHANGE])
    finish(one)
    assert one.problems == ()


class Receiver:
    """A web server that answers with some statuses, then with 200; 0: it hangs up."""

    def __init__(self, statuses: list[int]) -> None:
        self.statuses, self.received = statuses, list[tuple[str, str, Any]]()
        self.port = 0

    def status(self) -> int:
        return self.statuses.pop(0) if self.statuses else 200


@contextmanager
def receiving(*statuses: int) -> Iterator[Receiver]:
    receiver = Receiver(list(statuses))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.received.append((self.path, self.headers["Content-Type"], json.loads(body)))
            status = receiver.status()
            if status:
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_webhook_is_built_in(site: Site) -> None:
    with receiving() as receiver:
        address = f"http://127.0.0.1:{receiver.port}/hook?token=x"
        one = notifier(site, more=f'[maintd]\nwebhook = "{address}"')
        one.notify([CHANGE])
        finish(one)
    assert receiver.received == [("/hook?token=x", "application/json", CONTENT)]


@pytest.mark.parametrize(
    ("statuses", "attempts", "fault"),
    [
        ([], 1, ""),
        ([204], 1, ""),
        ([500, 503], 3, ""),
        ([0, 429, 408, 599], 5, ""),
        ([500] * 5, 5, "HTTP 500"),
        ([0] * 5, 5, "ConnectionError"),
        ([404], 1, "HTTP 404"),
        ([302], 1, "HTTP 302"),
        ([500, 401], 2, "HTTP 401"),
    ],
)
def test_attempts(statuses: list[int], attempts: int, fault: str) -> None:
    slept: list[float] = []
    with receiving(*statuses) as receiver:
        address = f"http://127.0.0.1:{receiver.port}/hook?token=secret"
        found = change(Webhook(slept.append), Maintd(webhook=address))
    assert len(receiver.received) == attempts
    assert slept == list(PAUSES[: attempts - 1])
    assert found == (fault and f"plugin webhook: 127.0.0.1 was not notified: {fault}")


def test_no_receiver() -> None:
    slept: list[float] = []
    with receiving() as receiver:
        pass
    found = change(Webhook(slept.append), Maintd(webhook=f"http://127.0.0.1:{receiver.port}/"))
    assert found == "plugin webhook: 127.0.0.1 was not notified: ConnectionError"
    assert slept == list(PAUSES)


@pytest.mark.parametrize("address", ["example.org", "ftp://example.org/", "https://", "http:///x"])
def test_an_address_that_is_none(site: Site, address: str) -> None:
    with pytest.raises(BadConfig, match=r"maintd.webhook: .* is not a web address"):
        notifier(site, more=f'[maintd]\nwebhook = "{address}"')


def test_nothing_configured() -> None:
    """Neither a program nor an address: nothing happens."""
    assert change(NotifyCommand(), Maintd()) == ""
    assert change(Webhook(), Maintd()) == ""


def test_an_incident_that_is_forgotten() -> None:
    with receiving() as receiver:
        plugin = Webhook()
        plugin.configure(Maintd(webhook=f"http://127.0.0.1:{receiver.port}/"))
        plugin.steward_incident_changed(DONE, None, "tag removed", "acknowledged")
    ((_, _, content),) = receiver.received
    states = [content[key] for key in ("incident", "from", "to", "after")]
    assert states == [DONE.uuid, "failed", "forgotten", None]
    assert content["before"] == incident_json(DONE)
