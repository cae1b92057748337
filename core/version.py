"""The version of the program; the only place with it apart from pyproject.toml."""

from typing import Final

VERSION: Final = "0.1.0"
