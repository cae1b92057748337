"""A real Ganeti cluster with Steward as its allocator, and what tests ask of it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from interrupts import at_interrupt
from paths import ROOT

from ganeti_steward.core.ganeti.luxi import Luxi

PROGRAMS: Final = ROOT / "contrib/lab"
# Not resolved: within a virtual environment the interpreter is a link out of it.
BIN: Final = Path(sys.executable).parent

NODED_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NODES: Final = 7
MASTER: Final = "node1.lab"
#: Takes no instances during the whole run; the pretended ones leave this node free.
NOT_VM_CAPABLE: Final = "node4.lab"
DEFAULT_GROUP: Final = ("node1.lab", "node2.lab", "node3.lab")
RACK2: Final = ("node5.lab", "node6.lab", "node7.lab")
#: The instances that exist in the configuration only: name -> primary and secondary.
DRBD: Final = {
    "drbd1.lab": ["node1.lab", "node2.lab"],
    "drbd2.lab": ["node5.lab", "node6.lab"],
    "drbd3.lab": ["node2.lab", "node3.lab"],
    "drbd4.lab": ["node6.lab", "node7.lab"],
}
PLAIN: Final = {"drbd5.lab": ["node3.lab"]}

ADD: Final = "gnt-instance add --no-ip-check --no-name-check -o noop -B memory=512,vcpus=1"


def op(name: str, /, **parameters: Any) -> dict[str, Any]:
    """An opcode of Ganeti."""
    return {"OP_ID": f"OP_{name}", "reason": [["test", "", 0]], **parameters}


def tagged(kind: str, name: str, *tags: str) -> dict[str, Any]:
    """The opcode that adds tags to an object."""
    return op("TAGS_SET", kind=kind, name=name, tags=tags)


REMOVE: Final = op("INSTANCE_REMOVE", ignore_failures=False, shutdown_timeout=0)


def until(holds: Callable[[], bool], seconds: float = 300, *, every: float = 0.8) -> None:
    """Wait until something holds; most questions cost luxid some work, so they are few."""
    last = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < last, f"not within {seconds} s: {_callers()}"
        time.sleep(every)


def _callers() -> str:
    """Who waits, for the last line of a run."""
    frames = reversed(traceback.extract_stack(limit=4)[:-2])
    return "; ".join(f"line {one.lineno} of {one.name}: {one.line}" for one in frames)


@dataclass(frozen=True)
class Call:
    """One call of the allocator, as Steward kept it."""

    arguments: list[str]
    status: int
    message: dict[str, Any]
    """what Ganeti sent"""
    answer: dict[str, Any]

    @property
    def request(self) -> dict[str, Any]:
        request: dict[str, Any] = self.message["request"]
        return request

    @property
    def info(self) -> str:
        info: str = self.answer["info"]
        return info

    @property
    def nodes(self) -> list[str]:
        """The nodes of a successful answer."""
        assert self.answer["success"] is True, self.info
        nodes: list[str] = self.answer["result"]
        return nodes


@dataclass(frozen=True)
class Done:
    """One command that has ended, with the allocator calls made meanwhile."""

    command: str
    status: int
    text: str
    """standard output and error"""
    calls: list[Call]

    @property
    def call(self) -> Call:
        assert len(self.calls) == 1, f"{len(self.calls)} calls of the allocator by: {self}"
        return self.calls[0]

    def __str__(self) -> str:
        return f"{self.command}\nexit status {self.status}\n{self.text}"


class Lab:
    """The cluster; `contrib/lab` does the work."""

    def __init__(self, kind: str) -> None:
        # What `contrib/test` has started it can also end, by its own number in the name.
        name = f"ganetisteward{kind}-{os.environ.get('STEWARD_RUN', os.getpid())}-{os.getpid()}"
        self.directory = Path("/var/lib") / name
        self.environment = {
            **os.environ,
            "LAB_NS": name,
            "LAB_DIR": str(self.directory),
        }
        # A configuration of the person who runs the tests must not reach into the lab.
        self.environment.pop("GNT_STEWARD_CONFIG", None)
        at_interrupt.append(self.down)

    def make(self, archive: Path | None = None) -> None:
        """Bring up a new lab, and write its state into an archive for others if one is named.

        Each change of the configuration is copied to all master candidates: there is only the
        master, unless a test needs more.
        """
        sizes = ["--nodes", str(NODES), "--candidates", "1"]
        self._program("lab-up", *sizes, "--pretend-drbd", str(len(DRBD | PLAIN)))
        if archive:
            self._program("lab-save", str(archive))

    def start(self, archive: Path) -> None:
        """Bring up a lab from an archive."""
        self._program("lab-up", "--from", str(archive))

    def down(self) -> None:
        self._program("lab-down")

    def _program(self, name: str, *arguments: str) -> None:
        done = self._run([str(PROGRAMS / name), *arguments], timeout=900)
        if done.returncode != 0:
            raise RuntimeError(f"{name} failed:\n{done.stdout}")

    def restart_noded(self) -> None:
        """Start the master's noded as systemd does, with next to no environment.

        What started it in the lab, start-stop-daemon, gives it a HOME.
        """
        address = self.ok("hostname -i").text.strip()
        self.ok("/usr/lib/ganeti/daemon-util stop ganeti-noded")
        self.ok(f"env -i PATH={NODED_PATH} /usr/sbin/ganeti-noded --no-mlock -b {address}")

    def install_steward(self) -> None:
        self.programs.mkdir()
        for name in ("gnt-steward", "steward-iallocator"):
            shutil.copy(BIN / name, self.programs / name)
        link = ["install-iallocator", "--dir", str(self.iallocators)]
        done = self._run([str(self.programs / "gnt-steward"), *link])
        if done.returncode != 0:
            raise RuntimeError(f"install-iallocator failed:\n{done.stdout}")

    @property
    def luxi(self) -> Luxi:
        """The master's luxid; its socket can be reached from outside."""
        return Luxi(str(self.directory / "nodes" / MASTER / "run/ganeti/socket/ganeti-query"))

    @property
    def programs(self) -> Path:
        """Copies of the scripts; the checkout may lie where Ganeti's users cannot see it."""
        return self.directory / "steward"

    @property
    def iallocators(self) -> Path:
        """Found by all nodes, as the first directory of Ganeti's search path."""
        return self.directory / "iallocators"

    @property
    def configuration(self) -> Path:
        """The master's /etc/ganeti/steward.toml."""
        return self.directory / "nodes" / MASTER / "etc-ganeti/steward.toml"

    @property
    def log(self) -> Path:
        """The master's /var/log/ganeti/steward.log."""
        return self.directory / "nodes" / MASTER / "var-log-ganeti/steward.log"

    @property
    def history(self) -> Path:
        return self.directory / "history"

    def configure(self, more: str = "") -> None:
        self.configuration.write_text(f'[history]\ndirectory = "{self.history}"\nkeep = 50\n{more}')

    def run(self, command: str) -> Done:
        """Run a command on the master, whatever its exit status."""
        before = self._kept()
        done = self._run([str(PROGRAMS / "lab-run"), *shlex.split(command)])
        calls = [self._call(name) for name in sorted(self._kept() - before)]
        return Done(command, done.returncode, done.stdout, calls)

    def ok(self, command: str) -> Done:
        """Run a command that must succeed."""
        done = self.run(command)
        assert done.status == 0, str(done)
        return done

    def fails(self, command: str) -> Done:
        """Run a command that must fail."""
        done = self.run(command)
        assert done.status == 1, str(done)
        return done

    def add(self, options: str, name: str) -> Done:
        """Create an instance that must come to be where Steward put it."""
        done = self.ok(f"{ADD} {options} {name}")
        assert done.call.request["type"] == "allocate"
        assert done.call.request["name"] == name
        assert self.nodes_of(name) == done.call.nodes, str(done)
        return done

    def rows(self, what: str, *fields: str) -> list[list[Any]]:
        """The fields of all objects of one kind, as luxid has them."""
        found = self.luxi.call("Query", what, fields, None)["data"]
        return [[value for _, value in row] for row in found]

    def instances(self) -> list[str]:
        return [name for (name,) in self.rows("instance", "name")]

    def nodes_of(self, instance: str) -> list[str]:
        """Primary and secondaries, as Ganeti has them."""
        found = {name: [p, *s] for name, p, s in self.rows("instance", "name", "pnode", "snodes")}
        return found[instance]

    def job(self, number: int | str) -> str:
        """The status of a job."""
        (state,) = self.luxi.states([int(number)])
        return state.status

    def jobs(self) -> dict[int, str]:
        """Number -> status of all jobs."""
        return {int(number): status for number, status in self.rows("job", "id", "status")}

    def do(self, *opcodes: dict[str, Any]) -> None:
        """Have Ganeti carry out these opcodes in one job, which must succeed."""
        if not opcodes:
            return
        number = int(self.luxi.call("SubmitJob", opcodes))
        until(lambda: self.luxi.states([number])[0].ended, every=0.2)
        (state,) = self.luxi.states([number])
        assert state.status == "success", f"{opcodes}: {state}"

    def create(self, name: str, node: str, template: str, **more: Any) -> dict[str, Any]:
        """The opcode of an instance that is created on a named node, without an allocator."""
        usual = {
            "mode": "create",
            "os_type": "noop",
            "hypervisor": "fake",
            "beparams": {"memory": 512, "vcpus": 1},
            "disks": [] if template == "diskless" else [{"size": 512}],
            "nics": [],
            "ip_check": False,
            "name_check": False,
        }
        where = {"instance_name": name, "pnode": node, "disk_template": template}
        return op("INSTANCE_CREATE", **usual | where | more)

    def remove(self, *instances: str) -> None:
        self.do(*(REMOVE | {"instance_name": name} for name in instances))

    def bring_back(self, node: str, *instances: str) -> None:
        """Migrate those of the instances to a node that are not there."""
        self.do(
            *(
                op("INSTANCE_MIGRATE", instance_name=name, target_node=node)
                for name in instances
                if self.nodes_of(name) != [node]
            )
        )

    def clean(self) -> None:
        """Remove every instance but the pretended ones, and all tags of ours."""
        added = [name for name in self.instances() if name not in DRBD | PLAIN]
        found = [("cluster", "", self.luxi.call("QueryTags", "cluster", ""))]
        for what, kind in (("group", "nodegroup"), ("node", "node")):
            found += [(kind, name, tags) for name, tags in self.rows(what, "name", "tags")]
        self.do(
            *(REMOVE | {"instance_name": name} for name in added),
            *(
                op("TAGS_DEL", kind=kind, name=name, tags=ours)
                for kind, name, tags in found
                if (ours := [tag for tag in tags if tag.startswith("steward:")])
            ),
        )

    def query(self, command: str) -> list[str]:
        """The lines of a list command."""
        program, subcommand, rest = command.split(" ", 2)
        options = "--no-headers --separator='|'"
        return self.ok(f"{program} {subcommand} {options} {rest}").text.splitlines()

    def _kept(self) -> set[str]:
        return {path.name for path in self.history.glob("[0-9]*")}

    def _call(self, name: str) -> Call:
        def content(file: str) -> dict[str, Any]:
            value: dict[str, Any] = json.loads((self.history / name / file).read_bytes())
            return value

        call = content("call.json")
        if call["status"] == 0:
            answer = content("answer.json")
        else:
            # Refused before there could be an answer in Ganeti's form.
            text = (self.history / name / "answer.json").read_text()
            answer = {"success": False, "info": text, "result": []}
        return Call(call["arguments"], call["status"], content("request.json"), answer)

    def _run(self, command: list[str], timeout: int = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
