"""Who may have a repair run: everything but a fresh, whole, right request is refused."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from repair_bench import FORGER, LIFE, MASTER, Bench
from repair_requests import BAD_TEXTS, COMMAND, KEY, NODE, damaged, message, request
from thorough import dice, often

from ganeti_steward.core.ganeti.hmac_key import KeyFile, NoKey
from ganeti_steward.core.ganeti.signing import BadMessage, sign
from ganeti_steward.core.node_agent.protocol import CommandEnd, RepairRequest
from ganeti_steward.core.process.trusted_program import Forbidden
from ganeti_steward.core.service.http_messages import HttpRequest
from ganeti_steward.core.service.http_server import answer_of
from ganeti_steward.diagnose.agent.http import AgentApplication
from ganeti_steward.diagnose.agent.repairs import REQUEST_LIMIT, RepairRefused, Unreadable, salt_of


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why requests were refused, from the log."""
    return [
        record.getMessage().partition(" reason=")[2]
        for record in caplog.records
        if record.getMessage().startswith("repair refused caller=")
    ]


@pytest.fixture
def log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("ganeti_steward"), "propagate", True)
    caplog.set_level(logging.INFO, "ganeti_steward")
    return caplog


def test_a_hook_and_a_repair_at_a_time(bench: Bench, log: pytest.LogCaptureFixture) -> None:
    """The repair of the master does not wait for the maintenance of another node."""
    hook = {"status": "hook", "command": COMMAND}
    ended: list[bool] = []

    def execute(run: RepairRequest) -> CommandEnd:
        bench.execute = lambda _: CommandEnd(0)
        ended.append(bench.ask(request(bench.nonce())) is not None)
        ended.append(bench.ask(request(bench.nonce(), diagnose=hook)) is not None)
        return CommandEnd(0)

    bench.execute = execute
    assert bench.ask(request(bench.nonce(), diagnose=hook)) is not None
    assert ended == [True, False]
    assert reasons(log) == ["another hook is running"]


def test_a_repair(bench: Bench) -> None:
    found = bench.ask(request(bench.nonce(), id="id-1"))
    assert found is not None
    assert found.pop("started") > 0
    assert found == {
        "purpose": "repair-state",
        "node": NODE.uuid,
        "id": "id-1",
        "state": "ended",
        "command": COMMAND,
        "status": 0,
        "output": "done\n",
        "fault": "",
    }
    (run,) = bench.run
    assert run.diagnose == b'{"command":"replace-disk","details":["sda"],"status":"live-repair"}'


def test_by_the_nodes_name(bench: Bench) -> None:
    answer = bench.ask(request(bench.nonce(), node=NODE.name))
    assert answer is not None
    assert answer["node"] == NODE.name


@pytest.mark.parametrize("status", [1, 255, -9, None])
def test_whatever_came_of_it_is_an_answer(bench: Bench, status: int | None) -> None:
    bench.execute = lambda _: CommandEnd(status, "\udcff\0ä", "why")
    answer = bench.ask(request(bench.nonce()))
    assert answer is not None
    assert (answer["status"], answer["output"], answer["fault"]) == (status, "\udcff\0ä", "why")


def test_a_request_is_good_once(bench: Bench, log: pytest.LogCaptureFixture) -> None:
    raw = request(bench.nonce())
    assert bench.ask(raw) is not None
    for _ in range(20):
        assert bench.ask(raw) is None
        bench.wait()
    assert len(bench.run) == 1
    assert set(reasons(log)) == {"its nonce is unknown, used, too old or another caller's"}


def test_a_late_request(bench: Bench) -> None:
    raw = request(bench.nonce())
    bench.wait(LIFE)
    assert bench.ask(raw) is None
    assert bench.run == []


def test_at_another_process(bench: Bench) -> None:
    """Also after the agent was restarted."""
    raw = request(bench.nonce())
    bench.repairs = bench.process()
    assert bench.ask(raw) is None
    assert bench.run == []


def test_from_another_address(bench: Bench) -> None:
    raw = request(bench.nonce())
    assert bench.ask(raw, FORGER) is None
    assert bench.ask(raw) is not None
    assert len(bench.run) == 1


@pytest.mark.parametrize("text", BAD_TEXTS.values(), ids=BAD_TEXTS.keys())
def test_signed_but_no_request(bench: Bench, text: str, log: pytest.LogCaptureFixture) -> None:
    """A caller with the key, or with another signed message, must still mean exactly this."""
    assert bench.ask(sign(KEY, text, bench.nonce())) is None
    assert bench.run == []
    assert len(reasons(log)) == 1
    assert "\n" not in reasons(log)[0]


def test_ten_thousand_bad_requests(bench: Bench) -> None:
    """Forged, cut, late, replayed, re-keyed, re-salted: none is executed, and none is answered."""
    random = dice(20261121)
    executed = Counter[str]()
    used = request(bench.nonce())
    assert bench.ask(used) is not None
    bench.run.clear()
    other = Bench.process(bench)

    def late() -> bytes:
        raw = request(bench.nonce(FORGER))
        bench.wait(LIFE + random.random())
        return raw

    ways: dict[str, Callable[[], bytes]] = {
        "damaged": lambda: damaged(request(bench.nonce(FORGER)), random),
        "re-keyed": lambda: request(bench.nonce(FORGER), random.choice(KEYS)),
        "re-salted": lambda: request("nonce." + random.randbytes(16).hex()),
        "a salt of time": lambda: request(str(1_700_000_000 + random.randrange(1000))),
        "an empty salt": lambda: request(""),
        "another caller's nonce": lambda: request(bench.nonce(MASTER)),
        "another process's nonce": lambda: request(other.nonce(FORGER)),
        "replayed": lambda: used,
        "late": late,
        "no request": lambda: sign(KEY, random.choice(SIGNED), bench.nonce(FORGER)),
    }
    kinds = list(ways)
    for number in range(often(600, 10_000)):
        kind = kinds[number % len(kinds)]
        bench.wait()
        raw = ways[kind]()
        if bench.ask(raw, FORGER) is not None:
            executed[kind] += 1
    assert executed == {}
    assert bench.run == []
    # The engine is as good as before: the very next right request is done.
    assert bench.ask(request(bench.nonce())) is not None


#: Keys that are nearly right.
KEYS: Final = [KEY.strip(), KEY + b"\n", KEY.upper(), b"\0", KEY[::-1], b"secretkey\n"]
#: Without the two that only test how deep a reader goes; they are slow, and tested above.
SIGNED: Final = [text for text in BAD_TEXTS.values() if len(text) < 10_000]


def test_too_large(bench: Bench, log: pytest.LogCaptureFixture) -> None:
    def padded(size: int) -> bytes:
        raw = request(bench.nonce())
        return b" " * (size - len(raw)) + raw

    with pytest.raises(Unreadable, match="more than 1048576 bytes"):
        bench.ask(padded(REQUEST_LIMIT + 1))
    bench.wait()
    assert bench.ask(padded(REQUEST_LIMIT)) is not None


def test_a_renewed_key(bench: Bench) -> None:
    """While the agent runs: the old one is good no more, the new one is, for the answer too."""
    old, new = bench.nonce(), bench.nonce()
    bench.key_file.with_suffix(".new").write_bytes(b"renewed0123456789\n")
    bench.key_file.with_suffix(".new").rename(bench.key_file)
    assert bench.ask(request(old)) is None
    bench.wait(1)
    assert bench.ask(request(new, b"renewed0123456789\n")) is not None


def test_without_a_key(bench: Bench, log: pytest.LogCaptureFixture) -> None:
    others = map("192.0.3.{}".format, range(200))
    sent = {caller: request(bench.nonce(caller)) for caller in (MASTER, *others)}
    bench.key_file.unlink()
    for caller, raw in sent.items():
        assert bench.ask(raw, caller) is None
    assert bench.run == []
    bench.key_file.write_bytes(KEY)
    assert bench.ask(sent[MASTER]) is not None, "that was no guess, and did not use up the nonce"
    assert reasons(log) == [f"there is no key {bench.key_file}"], "given once"


def test_a_key_that_goes_while_it_runs(bench: Bench) -> None:
    def leave(_: RepairRequest) -> CommandEnd:
        bench.key_file.unlink()
        return CommandEnd(0)

    bench.execute = leave
    with pytest.raises(NoKey):
        bench.repairs.repair(MASTER, request(bench.nonce()))
    assert len(bench.run) == 1


def test_a_command_that_must_not_be_run(bench: Bench, log: pytest.LogCaptureFixture) -> None:
    """Names of commands are not guessed any faster than keys."""

    def forbid(_: RepairRequest) -> CommandEnd:
        raise Forbidden("it is not root's")

    bench.execute = forbid
    for seconds in (1, 2, 4):
        assert bench.ask(request(bench.nonce())) is None
        with pytest.raises(RepairRefused):
            bench.nonce()
        bench.wait(seconds)
    assert reasons(log) == ["it is not root's"] * 3


def test_a_forger_is_not_listened_to_for_a_while(
    bench: Bench, log: pytest.LogCaptureFixture
) -> None:
    waited = 0.0
    for seconds in (1, 2, 4, 8, 16, 32, 60, 60):
        assert bench.ask(b"forged", FORGER) is None
        # Neither examined nor logged, whatever it is.
        for _ in range(100):
            assert bench.ask(b"forged again", FORGER) is None
            with pytest.raises(RepairRefused):
                bench.nonce(FORGER)
        # The master does not notice.
        assert bench.ask(request(bench.nonce())) is not None
        bench.wait(seconds)
        waited += seconds
    assert len(reasons(log)) == 8
    assert bench.ask(request(bench.nonce(FORGER)), FORGER) is not None, "it has the key after all"
    assert len(bench.run) == 9


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"{}", b"null", b'{"msg":"a","salt":"b"}', b'{"msg":"a","salt":"b","hmac":1}'),
        *(b'{"msg":"a","msg":"b","salt":"c"}', b'[{"msg":"a","salt":"b","hmac":"c"}]'),
        *(b'{"msg":"a","salt":"b","hmac":"c","d":"e"}', b'{"msg":"a","salt":"b","hmac":"c"} x'),
        *(b'{"msg":"a\\","salt":"b","hmac":"c"}', b'{"msg":"a","salt":"b","hmac":"c",}'),
        *(b'{"msg":"a","salt":"b\\u0063","hmac":"c"}', b'{"msg":{},"salt":"b","hmac":"c"}'),
        b'{"msg":"a","salt":"' + b"b" * 257 + b'","hmac":"c"}',
    ],
)
def test_no_signed_message(raw: bytes) -> None:
    with pytest.raises(BadMessage, match="it is not a signed message"):
        salt_of(raw)


def test_the_salt_of_a_signed_message() -> None:
    random = dice(7)
    for _ in range(often(200, 5000)):
        text = "".join(random.choice('a"\\{[,:]}\n\u00e9\U0001f600 ') for _ in range(30))
        members = list({"msg": text, "salt": "nonce.x_-1", "hmac": "0" * 40}.items())
        random.shuffle(members)
        raw = json.dumps(dict(members), indent=random.choice([None, 2]), ensure_ascii=False)
        assert salt_of(raw.encode()) == "nonce.x_-1"


def test_a_master_that_made_a_mistake_is_forgiven(bench: Bench) -> None:
    for _ in range(5):
        bench.ask(b"mistaken")
        bench.wait()
    assert bench.ask(request(bench.nonce())) is not None
    bench.ask(b"mistaken")
    bench.wait(1)
    assert bench.ask(request(bench.nonce())) is not None


def test_one_repair_at_a_time(bench: Bench, log: pytest.LogCaptureFixture) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def wait(_: RepairRequest) -> CommandEnd:
        begun.set()
        assert may_end.wait(300)
        return CommandEnd(0)

    bench.execute = wait
    raw = request(bench.nonce())
    first = threading.Thread(target=bench.ask, args=(raw,))
    first.start()
    assert begun.wait(300)
    for _ in range(3):
        assert bench.ask(request(bench.nonce())) is None, "no guess: it is listened to at once"
    may_end.set()
    first.join()
    assert reasons(log) == ["another repair command is running"] * 3
    assert bench.ask(request(bench.nonce())) is not None
    assert len(bench.run) == 2


def test_a_failing_execution_frees_the_place(bench: Bench) -> None:
    def fail(_: RepairRequest) -> CommandEnd:
        raise RuntimeError

    bench.execute = fail
    with suppress(RuntimeError):
        bench.ask(request(bench.nonce()))
    bench.execute = lambda _: CommandEnd(0)
    assert bench.ask(request(bench.nonce())) is not None


def test_fifty_threads_with_one_request(bench: Bench) -> None:
    for _ in range(10):
        bench.run.clear()
        bench.wait()
        raw = request(bench.nonce())
        start = threading.Barrier(50)
        answers: list[object] = []

        def ask(raw: bytes = raw, start: threading.Barrier = start, answers: Any = answers) -> None:
            start.wait()
            answers.append(bench.ask(raw))

        threads = [threading.Thread(target=ask) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(bench.run) == 1
        assert sum(answer is not None for answer in answers) == 1


def test_the_log_is_one_line_each(bench: Bench, log: pytest.LogCaptureFixture) -> None:
    """Nothing that a caller says can look like another line."""
    evil = "x\n2026-11-21: steward INFO repair ended"
    bench.ask(sign(KEY, json.dumps(message(node=evil)), bench.nonce()))
    bench.wait()
    bench.execute = lambda _: CommandEnd(0, evil, evil)
    bench.ask(request(bench.nonce()))
    assert len(log.records) == 3
    assert not any("\n" in record.getMessage() for record in log.records)


def test_a_failure_of_the_program_itself(bench: Bench, log: pytest.LogCaptureFixture) -> None:
    """It is an answer, and the traceback is in the log."""

    class Broken:
        def text(self) -> str:
            raise RuntimeError("broken")

    reports: Any = Broken()
    application = AgentApplication(reports, KeyFile(str(bench.key_file)), bench.repairs)
    answer = answer_of(application, HttpRequest("GET", "/1/report/all"))
    assert (answer.status, answer.body) == (500, b"failed\n")
    assert "RuntimeError: broken" in log.text
