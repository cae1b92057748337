"""An agent and its attackers on one machine, its caller on another: run in a network of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from agents import running

HERE, THERE = "192.0.2.11", "192.0.2.12"

#: Makes the other machine: a namespace of its own, held by a process that sleeps.
OTHER = f"""
ip link set lo up
ip link add here type veth peer name there
ip link set there netns $1
ip addr add {HERE}/24 dev here
ip addr add 192.0.2.13/24 dev here
ip link set here up
nsenter --target $1 --net sh -c "ip addr add {THERE}/24 dev there; ip link set there up"
"""

#: Requests a report on the other machine.
ASK = """
import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=300)
connection.request("GET", "/1/report/node/diagnose?salt=0123456789abcdef")
answer = connection.getresponse()
assert answer.status == 200 and b"hmac" in answer.read()
"""


def main() -> None:
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 600"], stdout=-1)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        subprocess.run(["sh", "-ec", OTHER, "sh", str(holder.pid)], check=True)
        path = Path(tempfile.mkdtemp())
        with running(path, address=HERE, settings="max-age = 604800") as agent, ExitStack() as held:
            agent.write_report()
            for number in range(120):
                own = (HERE, "192.0.2.13")[number % 2]
                place = (HERE, agent.port)
                held.enter_context(socket.create_connection(place, 60, (own, 0)))
            ask = ["python3", "-c", ASK, HERE, str(agent.port)]
            os.environ.pop("PYTHONPATH", None)
            for _ in range(3):
                subprocess.run(["nsenter", "-t", str(holder.pid), "--net", *ask], check=True)
            assert len(agent.client().report(600_000)) > 3
        print("served")
    finally:
        holder.kill()
        holder.wait()


if __name__ == "__main__":
    main()
