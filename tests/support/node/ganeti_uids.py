"""Ganeti's own code for user id pools, run by the Python it is installed for.

Usage: ganeti_uids.py LOCKS parse TEXT SEPARATOR | take ID... | release ID

``take`` prints the id and holds its lock until its input ends.
"""

from __future__ import annotations

import json
import sys
from typing import Any

sys.path.insert(0, "/usr/share/ganeti/default")


def main(locks: str, what: str, *given: str) -> Any:
    from ganeti import errors, pathutils, uidpool  # type: ignore[import-not-found]

    pathutils.UIDPOOL_LOCKDIR = locks
    try:
        if what == "parse":
            pool = uidpool.ParseUidPool(given[0], separator=given[1])
            uidpool.CheckUidPool(pool)
            return [pool, uidpool.FormatUidPool(pool)]
        if what == "release":
            return uidpool.ReleaseUid(int(given[0]))
        taken = uidpool.RequestUnusedUid({int(uid) for uid in given})
    except (errors.GenericError, errors.LockError) as err:
        return str(err)
    print(json.dumps(taken.GetUid()), flush=True)
    sys.stdin.read()
    return None


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
