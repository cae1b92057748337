"""Repairs by the real agent: real requests on loopback, real commands in a real whitelist."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import DISTANT, FORGER, MASTER, Agent, Answer, running
from ganeti_signing import ganeti
from programs import is_running, notes, program, wait_until
from repair_requests import BAD_TEXTS, COMMAND, KEY, RSALT, message
from whitelists import needs_root, whitelist

from ganeti_steward.core.ganeti.signing import sign, verify
from ganeti_steward.core.ganeti.this_node import this_node

pytestmark = needs_root

#: What every command of these tests notes when it is run.
NOTED = "echo run >> NOTES\n"


@pytest.fixture(scope="module")
def commands() -> Iterator[Path]:
    with whitelist() as path:
        yield path


@pytest.fixture(scope="module")
def shared(commands: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    path = tmp_path_factory.mktemp("shared")
    options = ("--repair-directory", str(commands))
    with running(
        path, *options, settings="repair = true; repair-again-after = 0", prefix=DISTANT
    ) as agent:
        yield agent


@pytest.fixture(scope="module")
def hasty(commands: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """An agent that gives a command one second."""
    path = tmp_path_factory.mktemp("hasty")
    settings = "repair = true; repair-again-after = 0; repair-time-limit = 1"
    with running(path, "--repair-directory", str(commands), settings=settings) as agent:
        yield agent


@pytest.fixture
def agent(shared: Agent) -> Agent:
    """A caller who was refused in the test before is forgiven."""
    shared.renew_key(KEY)
    wait_until(lambda: shared.ask("POST", "/1/repair/nonce").status == 200, "the end of a penalty")
    return shared


@pytest.fixture(autouse=True)
def _emptied(commands: Path) -> Iterator[None]:
    """After each test nothing is left in the whitelist."""
    yield
    for file in commands.iterdir():
        file.unlink()


@pytest.fixture
def repair(commands: Path) -> str:
    """The usual command."""
    return program(commands, COMMAND, NOTED)


def test_what_a_command_finds(agent: Agent, commands: Path) -> None:
    """No arguments, no environment, the root directory, the canonical object on stdin."""
    source = """
        import json, os, sys
        print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), sys.stdin.read()]))
    """
    program(commands, COMMAND, source, shell="/usr/bin/python3 -sS")
    answer = agent.repair(agent.request())
    reported = json.loads(verify(KEY, answer.body, RSALT))
    arguments, environment, directory, given = json.loads(reported["output"])
    assert (arguments, directory) == ([], "/")
    assert set(environment) <= {"LC_CTYPE"}, "Python sets that by itself"
    assert given == '{"command":"replace-disk","details":["sda"],"status":"live-repair"}'
    assert (reported["status"], reported["fault"], reported["node"]) == (
        0,
        "",
        this_node().identity,
    )


@pytest.mark.parametrize(
    ("source", "status", "output", "fault"),
    [
        ("echo good; echo bad >&2", 0, "good\nbad\n", ""),
        ("exit 3", 3, "", ""),
        ("kill -9 $$", -9, "", ""),
        (r"printf 'a\0\377b'", 0, "a\0�b", ""),
        ("yes | head -c 2000000; sleep 3600", None, "y\n", "more than 1048576 bytes"),
        ("yes | head -c 1000000; echo; echo end", 0, "y\n\nend\n", ""),
        ("sleep 3600 & echo early", 0, "early\n", ""),
    ],
)
def test_what_came_of_it(
    agent: Agent, commands: Path, source: str, status: int | None, output: str, fault: str
) -> None:
    """Whatever it does, there is an answer, HTTP 200."""
    program(commands, COMMAND, source)
    reported = agent.repaired()
    assert reported["status"] == status
    assert reported["output"].endswith(output)
    assert len(reported["output"]) <= 65536
    assert fault in reported["fault"]
    assert bool(reported["fault"]) is bool(fault)


@pytest.mark.parametrize("source", ["exec sleep 3600", "trap '' TERM; while :; do sleep 0.1; done"])
def test_a_command_that_hangs(hasty: Agent, commands: Path, source: str) -> None:
    path = program(commands, COMMAND, f"echo $$ > NOTES; echo so far; {source}")
    reported = hasty.repaired()
    assert (reported["status"], reported["fault"]) == (None, "killed after 1 s")
    assert reported["output"] == "so far\n"
    assert not is_running(int(notes(path)))


@pytest.mark.parametrize("rebels", ["", "; kill -9 $PPID"])
def test_a_command_that_leaves_its_group(agent: Agent, commands: Path, rebels: str) -> None:
    """What it has started ends with it; after another one kills its parent, repairs go on."""
    source = f"""
        setsid sh -c 'trap "" TERM HUP; echo $$ > NOTES; sleep 3600; sleep 3600' &
        while ! [ -s NOTES ]; do sleep 0.01; done{rebels}
    """
    path = program(commands, COMMAND, source)
    reported = agent.repaired()
    assert (reported["status"] == 0) == (not rebels)
    assert not is_running(int(notes(path)))
    program(commands, COMMAND, "true")
    assert agent.repaired()["status"] == 0


@pytest.mark.parametrize("start", [b"#!\n", b"\x7fELF broken", b""])
def test_a_file_that_is_no_program(agent: Agent, commands: Path, start: bytes) -> None:
    Path(program(commands, COMMAND, "")).write_bytes(start)
    reported = agent.repaired()
    assert reported["status"] is None
    assert reported["fault"].startswith("it could not be started: ")


def test_a_request_signed_by_ganeti(agent: Agent, repair: str) -> None:
    """And the answer is read by it: its own code from the Debian package."""
    reported = message(node=this_node().identity)
    (raw,) = ganeti(["sign", KEY.decode(), reported, agent.nonce()])
    answer = agent.repair(raw.encode())
    ((read, salt),) = ganeti(["load", KEY.decode(), answer.body.decode()])
    assert (read["purpose"], read["status"], salt) == ("repair-state", 0, RSALT)
    assert notes(repair) == "run\n"


def without_date(answer: Answer) -> tuple[int, bytes, dict[str, str]]:
    headers = {name: text for name, text in answer.headers.items() if name != "Date"}
    return answer.status, answer.body, headers


def test_refusals_are_all_the_same(agent: Agent, commands: Path, repair: str) -> None:
    """Byte by byte, the headers too, whatever the reason; and nothing is run."""
    unsafe = program(commands, "unsafe", NOTED)
    Path(unsafe).chmod(0o777)
    masters = agent.nonce(MASTER)

    # Each caller is another one, so that none is refused for what the one before did.
    callers = (f"127.0.1.{number}" for number in range(1, 255))

    def signed(text: str, caller: str) -> bytes:
        return sign(KEY, text, agent.nonce(caller))

    def named(caller: str, name: str) -> bytes:
        diagnose = {"status": "live-repair", "command": name}
        return agent.request(caller=caller, command=name, diagnose=diagnose)

    answers = [
        agent.repair(make(caller), caller)
        for make, caller in zip(
            [
                lambda _: b"",
                lambda _: b"\xff" * 1000,
                lambda caller: agent.request(KEY.strip(), caller),
                lambda _: sign(KEY, "{}", masters),
                lambda caller: named(caller, "missing"),
                lambda caller: named(caller, "unsafe"),
                *(
                    lambda caller, text=text: signed(text, caller)
                    for text in list(BAD_TEXTS.values())[::6]
                ),
            ],
            callers,
            strict=False,
        )
    ]
    # A caller that is not accepted gets the same answer.
    answers += [
        agent.repair(b"forged", "127.0.1.1"),
        agent.ask("POST", "/1/repair/nonce", caller="127.0.1.1"),
    ]
    assert len({repr(without_date(answer)) for answer in answers}) == 1
    assert without_date(answers[0])[:2] == (403, b"refused\n")
    assert notes(repair) == notes(unsafe) == ""
    assert len(agent.refusals()) >= len(answers) - 2


def test_a_forger_elsewhere_does_not_concern_the_master(agent: Agent, repair: str) -> None:
    before = len(agent.refusals())
    for number in range(30):
        assert agent.repair(b"forged", FORGER).status == 403
        if number % 10 == 0:
            assert agent.repaired()["status"] == 0
    assert notes(repair) == "run\n" * 3
    # Most were not even examined.
    assert 1 <= len(agent.refusals()) - before < 10


def test_who_calls_is_not_taken_from_headers(agent: Agent, repair: str) -> None:
    """A forger cannot have another address punished, nor escape so."""
    headers = {"X-Forwarded-For": MASTER, "Forwarded": f"for={MASTER}", "X-Real-IP": MASTER}
    caller = "127.0.0.77"
    assert agent.ask("POST", "/1/repair", b"forged", caller=caller, headers=headers).status == 403
    assert f"repair refused caller={caller} " in agent.log
    assert agent.repaired()["status"] == 0
    assert notes(repair) == "run\n"


def test_fifty_at_once(agent: Agent, repair: str) -> None:
    """The same signed request by fifty threads is run once."""
    raw = agent.request()
    start = threading.Barrier(50)
    answers: list[Answer] = []

    def ask() -> None:
        start.wait()
        try:
            answers.append(agent.repair(raw))
        except OSError:
            # One caller may have eight connections; the others are closed.
            return

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert notes(repair) == "run\n"
    assert sorted({answer.status for answer in answers}) in ([200], [200, 403])
    assert [answer.status for answer in answers].count(200) == 1


def test_one_at_a_time(agent: Agent, commands: Path) -> None:
    go_on = commands / "go-on"
    slow = program(commands, COMMAND, f"{NOTED} until [ -e {go_on} ]; do sleep 0.02; done")
    raw, second = agent.request(), agent.request()
    answers: list[Answer] = []
    first = threading.Thread(target=lambda: answers.append(agent.repair(raw)))
    first.start()
    wait_until(lambda: notes(slow) == "run\n", "the first one")
    refused = agent.repair(second)
    # Reports are served meanwhile.
    assert agent.get("/") == [1]
    go_on.touch()
    first.join()
    assert (refused.status, answers[0].status) == (403, 200)
    assert agent.refusals()[-1] == "another repair command is running"
    assert notes(slow) == "run\n"


def test_a_renewed_key(agent: Agent, repair: str) -> None:
    agent.renew_key(b"renewed0123456789\n")
    assert agent.repair(agent.request(KEY, FORGER_TOO), FORGER_TOO).status == 403
    answer = agent.repair(agent.request(b"renewed0123456789\n"))
    assert json.loads(verify(b"renewed0123456789\n", answer.body, RSALT))["status"] == 0
    assert notes(repair) == "run\n"


FORGER_TOO = "127.0.0.88"


def test_a_signed_report_is_no_request(agent: Agent, repair: str) -> None:
    """Nor can a nonce be had as the salt of a report, as the tests of reports show."""
    agent.write_report()
    salt = "0123456789abcdef"
    raw = agent.ask("GET", f"/1/report/node/diagnose?salt={salt}").body
    verify(KEY, raw, salt)
    for caller, moved in (
        ("127.0.0.91", raw),
        ("127.0.0.92", json.dumps(json.loads(raw) | {"salt": agent.nonce("127.0.0.92")}).encode()),
    ):
        assert agent.repair(moved, caller).status == 403
    assert notes(repair) == ""


@pytest.mark.parametrize("settings", ["", "repair = false"])
def test_off_by_default(tmp_path: Path, commands: Path, repair: str, settings: str) -> None:
    with running(tmp_path, "--repair-directory", str(commands), settings=settings) as agent:
        for path in ("/1/repair/nonce", "/1/repair", "/1/repair/state"):
            answer = agent.ask("POST", path, b"{}")
            assert (answer.status, answer.body) == (403, b"refused\n")
        assert notes(repair) == ""
        assert "repair commands are not run" in agent.log


def test_a_hook_of_the_master(tmp_path: Path, commands: Path, repair: str) -> None:
    """It is of another directory, and finds its node and step in its environment."""
    settings = "repair = true; repair-again-after = 0"
    given = {"status": "hook", "command": COMMAND, "node": "node2.lab", "step": "master-before"}
    given["maintenance"] = "a\0b"
    with whitelist() as hooks:
        options = ("--repair-directory", str(commands), "--hook-directory", str(hooks))
        with running(tmp_path, *options, settings=settings) as agent:
            assert agent.repair(agent.request(diagnose=given)).status == 403
            wait_until(lambda: agent.ask("POST", "/1/repair/nonce").status == 200, "forgiveness")
            program(hooks, COMMAND, 'cat; echo " $(env | grep STEWARD | sort)"; echo "$#"')
            answer = agent.repair(agent.request(diagnose=given))
            reported = json.loads(verify(KEY, answer.body, RSALT))
            assert "No such file" in agent.refusals()[0]
    sent, variables = reported["output"].split("} ", 1)
    assert json.loads(sent + "}") == given
    assert variables == "STEWARD_NODE=node2.lab\nSTEWARD_STEP=master-before\n0\n"
    assert (reported["status"], notes(repair)) == (0, "")


def test_after_a_new_start(tmp_path: Path, commands: Path, repair: str) -> None:
    """A nonce is good at the process that gave it."""
    options = ("--repair-directory", str(commands))
    with running(tmp_path, *options, settings="repair = true; repair-again-after = 0") as agent:
        raw = agent.request()
    with running(tmp_path, *options, settings="repair = true; repair-again-after = 0") as agent:
        assert agent.repair(raw).status == 403
    assert notes(repair) == ""


def test_what_is_logged(agent: Agent, repair: str) -> None:
    agent.repaired()
    lines: Any = agent.log.splitlines()[-2:]
    assert re.search(rf"INFO repair requested caller={MASTER} command={COMMAND}$", lines[0])
    assert re.search(rf"INFO repair ended command={COMMAND} status=0 fault='' output=''$", lines[1])
    assert notes(repair) == "run\n"
