"""What every room may use; also the one name a plugin needs: ``hookimpl``."""

from pluggy import HookimplMarker

PROJECT = "ganeti_steward"
hookimpl = HookimplMarker(PROJECT)
