#!/usr/bin/env python3
"""Print the completion of gnt-steward for a shell, made from its parsers by shtab.

    .venv/bin/python contrib/packaging/completion.py bash > completions/gnt-steward
    .venv/bin/python contrib/packaging/completion.py zsh > vendor-completions/_gnt-steward

In Debian the first belongs in /usr/share/bash-completion, the second in /usr/share/zsh.
Names of nodes, node groups and instances come from Ganeti's ssconf files where these are readable,
which is on the nodes of a cluster.  Aggregates, incidents, filter rules and tags come from luxid,
which answers root on the master.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping

import shtab
from man_pages import sub_parsers

from ganeti_steward.core.commands.main import parser as front_door
from ganeti_steward.core.model.cluster import DISK_TEMPLATES

NODES, GROUPS, INSTANCES, MEMBERS, AGGREGATES, INCIDENTS, RULES, TAGS, TEMPLATES = (
    dict.fromkeys(("bash", "zsh"), f"_gnt_steward_{what}")
    for what in (
        *("nodes", "groups", "instances", "members"),
        *("aggregates", "incidents", "rules", "tags", "templates"),
    )
)
#: Metavar, or name of an argument without one, -> what completes it.
COMPLETED: Mapping[str, Mapping[str, str]] = {
    "NODE": NODES,
    "NODE,...": NODES,
    "node": NODES,
    "GROUP": GROUPS,
    "GROUP,...": GROUPS,
    "group": GROUPS,
    "instance": INSTANCES,
    "NAME,...": INSTANCES,
    "member": MEMBERS,
    "aggregate": AGGREGATES,
    "uuid": INCIDENTS,
    "UUID": RULES,
    "TAG,...": TAGS,
    "TEMPLATE": TEMPLATES,
    "FILE": shtab.FILE,
    "FILE|COMMAND": shtab.FILE,
    "RULES": shtab.FILE,
    "JOBS": shtab.FILE,
    "OLD": shtab.FILE,
    "NEW": shtab.FILE,
    "file": shtab.FILE,
    "SOCKET": shtab.FILE,
    "DIRECTORY": shtab.DIRECTORY,
    "dir": shtab.DIRECTORY,
}

#: What luxid knows; the same for both shells.
QUERIES = f"""\
_gnt_steward_known() {{ gnt-steward "$@" --no-headers 2>/dev/null; }}
_gnt_steward_all_aggregates() {{ _gnt_steward_known aggregate list -o name; }}
_gnt_steward_all_incidents() {{ _gnt_steward_known incident list -o uuid,node --separator ' '; }}
_gnt_steward_all_rules() {{ _gnt_steward_known filter list -o uuid; }}
_gnt_steward_all_tags() {{ gnt-cluster search-tags . 2>/dev/null | cut -d' ' -f2- | sort -u; }}
_gnt_steward_all_templates() {{ echo {" ".join(sorted(DISK_TEMPLATES))}; }}
"""
#: Lists may have commas; the names before the last comma stay.
BASH = """\
_gnt_steward_data=/var/lib/ganeti
_gnt_steward_of() {
  local before="" last=$1
  [[ $1 != *,* ]] || { before=${1%,*},; last=${1##*,}; }
  compgen -P "$before" -W "$2" -- "$last"
}
_gnt_steward_read() { cat "$_gnt_steward_data/ssconf_$1" 2>/dev/null; }
_gnt_steward_group_names() { _gnt_steward_read nodegroups | cut -d' ' -f2-; }
_gnt_steward_nodes() { _gnt_steward_of "$1" "$(_gnt_steward_read node_list)"; }
_gnt_steward_groups() { _gnt_steward_of "$1" "$(_gnt_steward_group_names)"; }
_gnt_steward_instances() { _gnt_steward_of "$1" "$(_gnt_steward_read instance_list)"; }
_gnt_steward_members() {
  _gnt_steward_of "$1" "$(_gnt_steward_read node_list; _gnt_steward_group_names)"
}
_gnt_steward_aggregates() { _gnt_steward_of "$1" "$(_gnt_steward_all_aggregates)"; }
_gnt_steward_incidents() { _gnt_steward_of "$1" "$(_gnt_steward_all_incidents)"; }
_gnt_steward_rules() { _gnt_steward_of "$1" "$(_gnt_steward_all_rules)"; }
_gnt_steward_tags() { _gnt_steward_of "$1" "$(_gnt_steward_all_tags)"; }
_gnt_steward_templates() { _gnt_steward_of "$1" "$(_gnt_steward_all_templates)"; }
"""
ZSH = """\
_gnt_steward_data=/var/lib/ganeti
_gnt_steward_read() { cat $_gnt_steward_data/ssconf_$1 2>/dev/null }
_gnt_steward_group_names() { _gnt_steward_read nodegroups | cut -d' ' -f2- }
_gnt_steward_nodes() { _sequence compadd - ${(f)"$(_gnt_steward_read node_list)"} }
_gnt_steward_groups() { _sequence compadd - ${(f)"$(_gnt_steward_group_names)"} }
_gnt_steward_instances() { _sequence compadd - ${(f)"$(_gnt_steward_read instance_list)"} }
_gnt_steward_members() { _gnt_steward_nodes; _gnt_steward_groups }
_gnt_steward_aggregates() { compadd - ${=$(_gnt_steward_all_aggregates)} }
_gnt_steward_incidents() { compadd - ${=$(_gnt_steward_all_incidents)} }
_gnt_steward_rules() { compadd - ${=$(_gnt_steward_all_rules)} }
_gnt_steward_tags() { _sequence compadd - ${=$(_gnt_steward_all_tags)} }
_gnt_steward_templates() { compadd - ${=$(_gnt_steward_all_templates)} }
"""


def completion(shell: str) -> str:
    """The script for ``bash`` or ``zsh``."""
    top = front_door()
    for parser in _all_parsers(top):
        for action in parser._actions:
            word = action.metavar if isinstance(action.metavar, str) else action.dest
            if word in COMPLETED and not action.choices:
                vars(action)["complete"] = COMPLETED[word]
            elif isinstance(action.choices, dict) and action not in _sub_commands(parser):
                # shtab takes a mapping for sub-commands.
                action.choices = tuple(action.choices)
    text: str = shtab.complete(top, shell, preamble={"bash": QUERIES + BASH, "zsh": QUERIES + ZSH})
    return text


def _sub_commands(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]


def _all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for sub in sub_parsers(parser).values():
        yield from _all_parsers(sub)


if __name__ == "__main__":
    print(completion(sys.argv[1]))
