"""``steward-iallocator`` as noded runs it: root, in ``/``, umask 077, almost no environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import mutation
import pytest
from messages import KINDS, Json, answer, message, put
from thorough import often

from ganeti_steward.allocators.kept_requests import entry
from ganeti_steward.core.config.values import ENVIRONMENT, History
from ganeti_steward.core.iallocator.history import names
from ganeti_steward.core.version import VERSION

PROGRAM = Path(sys.executable).with_name("steward-iallocator")
DAMAGED = often(25, 500)
SECONDS = 300


@dataclass(frozen=True)
class House:
    """Where one test keeps its files."""

    path: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def history(self) -> History:
        return History(keep=3, directory=str(self.path / "history"))

    @property
    def log(self) -> str:
        return (self.path / "steward.log").read_text()

    def configure(self, more: str = "", keep: int = 3) -> None:
        text = f'[history]\nkeep = {keep}\ndirectory = "{self.path}/history"\n'
        text += f'[log]\nfile = "{self.path}/steward.log"\n' + more
        (self.path / "steward.toml").write_text(text)

    def request(self, content: bytes | Json) -> str:
        file = self.path / "request"
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return str(file)

    def run(
        self, *arguments: str | bytes, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(PROGRAM), *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            cwd="/",
            umask=0o077,
            env={
                "LC_ALL": "C",
                "PATH": "/usr/bin:/bin",
                ENVIRONMENT: str(self.path / "steward.toml"),
                **self.environment,
            },
            timeout=SECONDS,
        )

    def answer(self, *arguments: str | bytes, stdin: bytes = b"") -> Json:
        done = self.run(*arguments, stdin=stdin)
        assert (done.returncode, done.stderr) == (0, b"")
        printed: Json = json.loads(done.stdout)
        return printed

    def error(self, *arguments: str | bytes, stdin: bytes = b"") -> str:
        """The one sentence on standard error."""
        done = self.run(*arguments, stdin=stdin)
        assert (done.returncode, done.stdout) == (1, b"")
        text = done.stderr.decode()
        assert text.startswith("Error: ")
        assert text.endswith("\n")
        assert text.strip().isprintable(), text
        return text.removeprefix("Error: ").strip()


@pytest.fixture
def house(tmp_path: Path) -> House:
    made = House(tmp_path)
    made.configure()
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_answer_is_the_one_of_the_library(house: House, kind: str) -> None:
    file = house.request(message(kind))
    assert house.answer(file) == answer(message(kind))
    assert f" INFO request type={kind} instance=" in house.log
    assert " status=0 ms=" in house.log


def test_standard_input(house: House) -> None:
    raw = json.dumps(message()).encode()
    assert house.answer("-", stdin=raw) == answer(message())
    assert house.answer("--no-capacity-checks", "-", stdin=raw)["success"] is True


def test_options_before_and_behind_the_file(house: House) -> None:
    file = house.request(message())
    option = "--restrict-allocation-to=n2.test"
    assert house.answer(option, file) == house.answer(file, option)
    assert house.answer(file, option)["result"] == ["n2.test"]


def test_unknown_options_are_noted(house: House) -> None:
    info = house.answer("--bogus", house.request(message()), "-x", "--monday=yes")["info"]
    assert info.endswith(" (options ignored: --bogus -x --monday=yes)")


def test_option_bytes_that_are_no_text(house: House) -> None:
    info = house.answer(house.request(message()), b"--x=\xff\n")["info"]
    assert info.endswith(r" (options ignored: --x=\udcff\n)")
    assert entry(house.history).call.arguments == (r"--x=\udcff\n",)


@pytest.mark.parametrize("option", ["-h", "--help", "-V", "--version"])
@pytest.mark.parametrize("broken", [False, True])
def test_help_and_version(house: House, option: str, broken: bool) -> None:
    if broken:
        house.configure("nonsense")
    done = house.run("nowhere", option)
    assert (done.returncode, done.stderr) == (0, b"")
    wanted = "usage: steward-iallocator FILE" if "h" in option else f"{VERSION}\n"
    assert wanted in done.stdout.decode()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "This program needs an input file."),
        (["--bogus"], "This program needs an input file."),
        (["/a", "/b"], "Only one argument is accepted (the input file)"),
        (["/nowhere/x"], "input file '/nowhere/x': No such file or directory"),
        (["/proc"], "input file '/proc': Is a directory"),
        (["/a\nb"], r"input file '/a\nb': No such file or directory"),
        ([b"/\xff"], r"input file '/\udcff': No such file or directory"),
        (["/dev/null"], "the message is not valid JSON: "),
        (["-"], "the message is not valid JSON: "),
        (["/dev/zero"], "input file '/dev/zero': it is longer than 268435456 bytes"),
        (["/dev/null", "--mond-data=/etc/shadow"], "option --mond-data: the cluster's options may"),
        (
            ["/dev/null", "--mond-data"],
            "option --mond-data: the cluster's options may name no file",
        ),
        (["-t", "/dev/null"], "option -t: only the message itself is read, no other cluster data"),
        (["/dev/null", "--static-kvm-node-memory=x"], "option --static-kvm-node-memory: a number"),
    ],
    ids=str,
)
def test_unusable_call(house: House, arguments: Sequence[str | bytes], sentence: str) -> None:
    assert house.error(*arguments).startswith(sentence)


def test_too_large_an_input_file(house: House) -> None:
    file = house.path / "large.json"
    with file.open("wb") as sparse:
        sparse.truncate(500 * 2**20)
    assert house.error(str(file)).endswith(": it is longer than 268435456 bytes")


def test_a_fifo_as_input_file(house: House) -> None:
    """It is read like a file, and not waited for without end."""
    fifo = house.path / "fifo"
    os.mkfifo(fifo)
    raw = json.dumps(message()).encode()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(fifo.write_bytes, raw)
        assert house.answer(str(fifo)) == answer(message())
        assert writing.result() == len(raw)
    assert house.error(str(fifo)).endswith("/fifo': nothing more came within 10 s")


@pytest.mark.parametrize("kind", ["link", "fifo", "another's"])
def test_a_log_that_others_put_there_does_not_spoil_the_answer(house: House, kind: str) -> None:
    log, victim = house.path / "steward.log", house.path / "victim"
    victim.write_text("precious")
    if kind == "link":
        log.symlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(log)
    elif os.geteuid() == 0:
        log.touch()
        os.chown(log, 12345, 12345)
    else:
        pytest.skip("only root can give a file away")
    done = house.run(house.request(message()))
    assert (done.returncode, json.loads(done.stdout)) == (0, answer(message()))
    assert done.stderr.startswith(f"Nothing is logged: {log}: it ".encode())
    assert done.stderr.count(b"\n") == 1
    assert victim.read_text() == "precious"


def test_bad_message(house: House) -> None:
    file = house.request(put(message(), "request/memory", "x" * 1000 + "\n"))
    assert house.error(file).startswith("request: key 'memory': a whole number is expected, found")
    kept = entry(house.history)
    assert (kept.call.status, kept.answer[:7]) == (1, b"Error: ")


def test_refusal_is_an_answer(house: House) -> None:
    printed = house.answer(house.request(put(message(), "request/memory", 40000)))
    assert (printed["success"], printed["result"]) == (False, [])


def test_broken_configuration_names_every_fault(house: House) -> None:
    (house.path / "steward.toml").write_text("[log]\nlevel = 1\n[history]\nkeep = 'x'\n[x]\n")
    assert house.error(house.request(message())) == (
        f"configuration {house.path}/steward.toml: x: no such section (known: allocators, "
        "reserve, shadow, plugins, aggregates, diagnose, agent, maintd, harep, rebalance, http, "
        "history, log, weigh, plugin, collector, nagios); history.keep: a whole number "
        "is expected, found the text 'x'; log.level: one of debug, info, warning, error is "
        "expected, found the number 1"
    )


def test_missing_configuration(house: House) -> None:
    (house.path / "steward.toml").unlink()
    sentence = f"configuration {house.path}/steward.toml: the file does not exist"
    assert house.error(house.request(message())) == sentence


def test_history_is_a_ring(house: House) -> None:
    for number in range(5):
        house.answer("-", f"--x={number}", stdin=json.dumps(message()).encode())
    kept = [entry(house.history, name) for name in names(house.history)]
    assert [one.call.arguments for one in kept] == [("--x=2",), ("--x=3",), ("--x=4",)]
    assert kept[-1].request == json.dumps(message()).encode()
    assert json.loads(kept[-1].answer)["success"] is True
    assert os.stat(house.history.directory).st_mode & 0o777 == 0o700


def test_no_history(house: House) -> None:
    house.configure(keep=0)
    house.answer(house.request(message()))
    assert not os.path.exists(house.history.directory)


def test_unusable_history_does_not_spoil_the_answer(house: House) -> None:
    os.mkdir(house.history.directory, 0o755)
    house.answer(house.request(message()))
    assert " WARNING history " in house.log
    assert os.listdir(house.history.directory) == []


def test_calls_at_the_same_time(house: House) -> None:
    file = house.request(message())
    with ThreadPoolExecutor(4) as pool:
        printed = list(pool.map(lambda _: house.answer(file), range(12)))
    assert printed == [answer(message())] * 12
    assert len(names(house.history)) == 3
    assert sorted(os.listdir(house.history.directory)) == names(house.history)


_PLUGIN = """
import os
from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.answer import Answer

print("imported")

@hookimpl
def steward_allocate(request, cluster, context):
    print("written")
    os.write(1, b"to standard output")
    os.system("echo by a child")
    {body}
"""


def _with_plugin(house: House, body: str) -> House:
    (house.path / "chatty.py").write_text(_PLUGIN.format(body=body))
    house.configure('[plugins]\nload = ["chatty"]\n[allocators]\nallocate = ["chatty"]\n')
    return House(house.path, {"PYTHONPATH": str(house.path)})


def test_plugin_that_prints(house: House) -> None:
    chatty = _with_plugin(house, 'return Answer(["n1.test"], "mine")')
    done = chatty.run(chatty.request(message()))
    printed = {"success": True, "info": "Request successful: mine", "result": ["n1.test"]}
    assert (done.returncode, json.loads(done.stdout)) == (0, printed)
    for output in (b"imported", b"written", b"to standard output", b"by a child"):
        assert output in done.stderr


@pytest.mark.parametrize(
    ("body", "info"),
    [
        ("1 / 0", "plugin chatty: failed: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "plugin chatty: failed: SystemExit: 3"),
        ("return 5", "plugin chatty: gave "),
        ('return Answer([{1}], "x")', "plugin chatty: gave "),
        ('return Answer(["nowhere"], "x")', "plugin chatty: gave "),
        ('return Answer(["n1.test"], chr(0xdcff))', "plugin chatty: gave "),
    ],
)
def test_plugin_that_fails(house: House, body: str, info: str) -> None:
    chatty = _with_plugin(house, body)
    done = chatty.run(chatty.request(message()))
    printed = json.loads(done.stdout)
    assert (done.returncode, printed["success"], printed["result"]) == (0, False, [])
    assert printed["info"].startswith("Request failed: " + info)
    assert b"Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "stdout", "stderr"),
    [
        ('"$1" <&- 2>&-', 0, b'{"success":true,', b""),
        ('"$1" >&-', 0, b"", b""),
        ("- <&-", 1, b"", b"Error: the message is not valid JSON: "),
        ("- 0>/dev/null", 1, b"", b"Error: standard input: "),
    ],
)
def test_standard_streams(
    house: House, arguments: str, status: int, stdout: bytes, stderr: bytes
) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" {arguments}', str(PROGRAM), house.request(message())],
        capture_output=True,
        check=False,
        env={ENVIRONMENT: str(house.path / "steward.toml")},
        timeout=SECONDS,
    )
    assert done.returncode == status
    assert done.stdout[: len(stdout) or None] == stdout
    assert done.stderr[: len(stderr) or None] == stderr


def test_answer_that_cannot_be_written(house: House) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [str(PROGRAM), house.request(message())],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env={ENVIRONMENT: str(house.path / "steward.toml")},
            timeout=SECONDS,
        )
    sentence = b"Error: the answer cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, sentence)
    assert entry(house.history).call.status == 1


@pytest.mark.parametrize("seed", range(DAMAGED))
def test_damaged_message(house: House, seed: int) -> None:
    raw, options = mutation.damaged(10_000_000 + seed)
    done = house.run(house.request(raw), *options)
    assert b"Traceback" not in done.stdout + done.stderr
    if done.returncode == 0:
        assert done.stderr == b""
        assert list(json.loads(done.stdout)) == ["success", "info", "result"]
    else:
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.startswith(b"Error: ")
        assert done.stderr.count(b"\n") == 1
        assert done.stderr.endswith(b"\n")
    assert entry(house.history).request == raw or not raw
