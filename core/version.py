"""The version of the program; the one place where it is written besides pyproject.toml."""

from typing import Final

VERSION: Final = "0.1.0"
