"""Which configuration file is used, and reading it.

Checking its content is `ganeti_steward.core.config.parse`, which is only imported where there is
a file: an allocator's start should not pay for it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Final

from ganeti_steward.core.config.values import DEFAULT_PATH, ENVIRONMENT, Config
from ganeti_steward.core.errors import BadConfig
from ganeti_steward.core.safe_files import UnsafeFile, read_trusted

#: Bytes of the file.
_LONGEST: Final = 2**24


def _start_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        # It was removed; nothing relative can be found there.
        return "/"


#: Where the program was started: a daemon changes its directory, and starts children elsewhere.
_START: Final = _start_directory()


def config_path(environment: Mapping[str, str] = os.environ) -> str:
    """The file that is read; absolute."""
    return os.path.join(_START, environment.get(ENVIRONMENT) or DEFAULT_PATH)


def load_config(path: str, needs: Collection[str] | None = None) -> Config:
    """Read a configuration file; a missing one means the defaults.  Raises BadConfig.

    ``needs``: the sections that the program uses (`ganeti_steward.core.builtins`), None: all.
    Faults in the others become `Config.warnings`.
    """
    raw = read_file(path)
    if raw is None:
        return Config()
    from ganeti_steward.core.config.parse import parse_config

    return parse_config(path, raw, needs)


def read_file(path: str) -> bytes | None:
    """The content of a configuration file; None where the default one is missing.

    Root reads no file that another user can write: it names programs and modules to run.  Raises
    BadConfig.
    """
    try:
        return read_trusted(path, _LONGEST)
    except FileNotFoundError:
        if path != DEFAULT_PATH:
            raise BadConfig(path, ["the file does not exist"]) from None
        return None
    except UnsafeFile as err:
        raise BadConfig(path, [err.reason]) from None
    except OSError as err:
        raise BadConfig(path, [f"cannot be read: {err.strerror}"]) from None
