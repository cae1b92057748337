"""Steward's commands on the lab's cluster, through luxid and through RAPI."""

from __future__ import annotations

import pickle
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

from ganeti_steward.core.model.cluster import Cluster

from .cluster import BIN, MASTER, PROGRAMS, Lab

STEWARD: Final = shlex.quote(str(BIN / "gnt-steward"))

#: Reads a cluster with a command's options and leaves it in a file.
_READ: Final = """\
import argparse, pickle, sys
from ganeti_steward.core.commands.cluster_options import add_source_options, read_source
template, path, *rest = sys.argv[1:]
parser = argparse.ArgumentParser()
add_source_options(parser)
source = read_source(parser.parse_args(rest), template or None)
cluster = source.cluster
parts = (cluster.groups, cluster.nodes, cluster.instances, cluster.tags, cluster.hypervisors)
with open(path, "wb") as file:
    pickle.dump(parts, file)
"""


@dataclass(frozen=True)
class Ways:
    """The options that lead to the cluster."""

    luxi: str
    rapi: str


def ways(lab: Lab) -> Ways:
    """Options of both ways; for RAPI with the cluster's own certificate."""
    certificate = lab.directory / "rapi-ca.pem"
    shutil.copy(lab.directory / "nodes" / MASTER / "var-lib-ganeti/rapi.pem", certificate)
    credentials = lab.directory / "rapi-credentials"
    credentials.write_text("lab labsecret\n")
    credentials.chmod(0o600)
    return Ways(
        "--luxi",
        f"--rapi cluster.lab --rapi-ca {certificate} --rapi-credentials {credentials}",
    )


def read(lab: Lab, options: str, template: str = "", node: int = 1) -> Cluster:
    """The snapshot a command would have."""
    path = lab.directory / "snapshot.pickle"
    script = f"{shlex.quote(sys.executable)} -c {shlex.quote(_READ)}"
    lab.ok(f"-n {node} {script} {shlex.quote(template)} {path} {options}")
    return Cluster(*pickle.loads(path.read_bytes()))


class Running:
    """A command on the master that goes on while the test does something else."""

    def __init__(self, lab: Lab, command: str) -> None:
        self._lab = lab
        shell = ["sh", "-c", f"echo $$; exec {command}"]
        self._process = subprocess.Popen(
            [str(PROGRAMS / "lab-run"), *shell],
            env=lab.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        self._lines = iter(self._process.stdout)
        self._pid = int(next(self._lines))

    def until(self, text: str) -> str:
        """What is printed up to the line that holds a text."""
        seen = ""
        for line in self._lines:
            seen += line
            if text in line:
                return seen
        raise AssertionError(f"ended without {text!r}:\n{seen}")

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._lab.ok(f"kill -INT {self._pid}")

    def end(self) -> tuple[int, str]:
        """Exit status, and what is printed until then."""
        text = "".join(self._lines)
        self._process.communicate(timeout=300)
        return self._process.returncode, text
