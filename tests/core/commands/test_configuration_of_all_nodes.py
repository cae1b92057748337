"""``check-config --all-nodes``, with a real program in the place of ssh."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from programs import notes, program

from ganeti_steward.plugins import compared_nodes

if TYPE_CHECKING:
    from front import Front

NODES = ["node1.lab", "node2.lab", "node3.lab", "node4.lab", "node5.lab"]

#: Runs the command of the caller where the file of the node is, or fails as ssh does.
SSH = """
node=
for word; do
  case $word in root@*) node=${word#root@};; esac
  command=$word
done
echo "$@" >> NOTES
cd DIRECTORY/$node 2>/dev/null || { echo "connection to $node refused" >&2; exit 255; }
command=$(printf '%s\\n' "$command" | sed 's:ORIGINAL:./steward.toml:g; s:MODULES/:./modules/:g')
/bin/sh -c "$command" > output
status=$?
sed s:./modules/:MODULES/: output
exit $status
"""


class Others:
    """The other nodes of a cluster, each with a directory."""

    def __init__(self, front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = front.path / "nodes"
        self.data = front.path / "ganeti"
        self.data.mkdir()
        self.set("cluster_name", "cluster.lab")
        self.set("node_list", *NODES)
        self.set("online_nodes", *NODES)
        self.set("node_primary_ips", *(f"{name} 192.0.2.{at}" for at, name in enumerate(NODES)))
        source = SSH.replace("DIRECTORY", str(self._path))
        source = source.replace("MODULES", str(front.modules))
        self.ssh = program(front.path, "ssh", source.replace("ORIGINAL", str(front.config_file)))
        monkeypatch.setattr(compared_nodes, "SSH", self.ssh)
        monkeypatch.setattr("socket.gethostname", lambda: NODES[0])
        monkeypatch.setattr(compared_nodes.print_comparison, "__defaults__", (str(self.data),))

    def set(self, name: str, *lines: str) -> None:
        (self.data / f"ssconf_{name}").write_text("".join(f"{line}\n" for line in lines))

    def file(self, node: str, content: bytes | None, plugin: bytes | None = None) -> None:
        directory = self._path / node
        (directory / "modules").mkdir(parents=True)
        if plugin is not None:
            (directory / "modules" / "mysite_rules.py").write_bytes(plugin)
        if content is not None:
            (directory / "steward.toml").write_bytes(content)


@pytest.fixture
def others(front: Front, monkeypatch: pytest.MonkeyPatch) -> Others:
    front.configure('[allocators]\nallocate = ["packed"]')
    return Others(front, monkeypatch)


def test_all_agree(front: Front, others: Others) -> None:
    own = front.config_file.read_bytes()
    for name in NODES[1:]:
        # Other comments, the same values.
        others.file(name, own + b"# here\n" * (name == NODES[2]))
    done = front("check-config", "--all-nodes")
    assert (done.status, done.err) == (0, "")
    assert done.out == (f"{front.config_file}: OK\nThe same configuration: 4 of 4 other nodes.\n")
    # The key of the cluster is expected of each node, and there are no questions.
    assert notes(others.ssh).count("-oHostKeyAlias=cluster.lab") == 4
    assert notes(others.ssh).count("-oBatchMode=yes") == 4


def test_each_kind_of_difference(front: Front, others: Others) -> None:
    own = front.config_file.read_text()
    others.file(NODES[1], own.replace("packed", "balanced").encode())
    others.file(NODES[2], None)
    others.file(NODES[3], b"no TOML")
    done = front("check-config", "--all-nodes")
    assert done.status == 1
    assert done.out.splitlines()[1:] == [
        f'{NODES[1]}: allocators.allocate is ["balanced"], here ["packed"]',
        f"{NODES[2]}: there is no such file",
        f"{NODES[3]}: the file is another one, and one of the two is not valid TOML",
        f"{NODES[4]}: not compared: connection to {NODES[4]} refused",
        "The same configuration: 0 of 4 other nodes.",
        f"gnt-cluster copyfile {front.config_file} copies the file of this node to all others.",
    ]


def test_keys_of_one_node_only(front: Front, others: Others) -> None:
    own = front.config_file.read_text()
    others.set("online_nodes", *NODES[:2])
    others.set("offline_nodes", *NODES[2:])
    many = json.dumps(["x"] * 40)
    others.set("ssh_ports", f"{NODES[1]}=2222")
    others.file(NODES[1], f"{own}balance = {many}\n".encode())
    done = front("check-config", "--all-nodes")
    assert done.status == 1
    line = done.out.splitlines()[1]
    assert line.startswith(f'{NODES[1]}: allocators.balance is ["x", "x", ')
    assert line.endswith("..., here not set")
    assert f"{NODES[4]}: not compared, the node is offline\n" in done.out
    assert "The same configuration: 0 of 1 other node.\n" in done.out
    assert "-oPort=2222" in notes(others.ssh)


def test_outside_of_a_cluster(front: Front, others: Others) -> None:
    for file in Path(others.data).iterdir():
        os.unlink(file)
    done = front("check-config", "--all-nodes")
    assert (done.status, done.out) == (1, f"{front.config_file}: OK\n")
    assert "this machine is not a cluster node (" in done.err


def test_no_ssh(front: Front, others: Others, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared_nodes, "SSH", "/nonexistent/ssh")
    done = front("check-config", "--all-nodes")
    assert f"{NODES[1]}: not compared: /nonexistent/ssh: No such file or directory" in done.out


def test_plugins_of_each_node(front: Front, others: Others) -> None:
    """Their files by content, of all that the configuration names."""
    front.plugin("mysite_rules", "")
    front.configure('[plugins]\nload = ["mysite_rules"]')
    file = front.modules / "mysite_rules.py"
    here = file.read_bytes()
    plugins = {NODES[1]: here, NODES[2]: here + b"# an older one\n", NODES[4]: here}
    for name in NODES[1:]:
        others.file(name, front.config_file.read_bytes(), plugins.get(name))
    with front.imported():
        done = front("check-config", "--all-nodes")
    assert done.status == 1
    assert done.out.splitlines()[-4:] == [
        f"{NODES[2]}: {file} is another one",
        f"{NODES[3]}: {file} is missing",
        "The same configuration and plugins: 2 of 4 other nodes.",
        f"gnt-cluster copyfile {front.config_file} copies the file of this node to all others.",
    ]
