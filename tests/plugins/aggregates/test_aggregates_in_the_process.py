"""The real program, and that nothing is loaded where nothing speaks of aggregates."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from message_tags import ask_for, put

if TYPE_CHECKING:
    from sites import Capture, Message, Site


def test_real_process(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    put(message, "ssd", "node4.lab", "node6.lab")
    ask_for(message, "steward:member-of:ssd")
    assert set(site.run(message)["result"]) == {"node4.lab", "node6.lab"}
    ask_for(message, "steward:member-of:ssd\n", "steward:member-of:\u00e4")
    answer = site.run(message)
    assert (answer["success"], answer["result"]) == (False, [])
    name = message["request"]["name"]
    head = f"Request failed: instance {name}: tag 'steward:member-of:ssd\\n': 'ssd\\n' is not an "
    assert answer["info"].startswith(head)
    assert f"; instance {name}: tag 'steward:member-of:\\xe4': " in answer["info"]


LOADED = """
import sys
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.model.options import Options
raw = open(sys.argv[1], "rb").read()
answer_message(raw, Options(), load_config(config_path()))
# Each manager of plugins knows the hooks.
known = {"ganeti_steward.plugins", "ganeti_steward.plugins.hookspecs"}
print(sum(name.startswith("ganeti_steward.plugins") for name in sys.modules.keys() - known))
"""


def test_not_even_imported_where_nothing_speaks_of_it(site: Site, capture: Capture) -> None:
    file = site.path / "message.json"

    def loaded(message: Message) -> int:
        file.write_text(json.dumps(message))
        environment = {"GNT_STEWARD_CONFIG": str(site.config_file)}
        command = [sys.executable, "-c", LOADED, str(file)]
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        return int(done.stdout)

    message = capture("allocate-drbd")
    message["nodes"]["node1.lab"]["tags"] = [
        "stewards",
        "rack:steward:aggregate:x",
        "steward:reserve:memory:1g",
    ]
    for instance in message["instances"].values():
        instance["tags"] = ["steward:member-of:a"]
    assert loaded(message) == 0
    put(message, "a", "node2.lab")
    assert loaded(message) > 0
    message = capture("allocate-drbd")
    ask_for(message, "steward:member-of:a")
    assert loaded(message) > 0
    message = capture("allocate-drbd")
    site.configure(more="[aggregates]\nunclaimable = ['a']\n")
    assert loaded(message) > 0
