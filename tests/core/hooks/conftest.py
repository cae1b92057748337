"""What the tests of hooks start from."""

from site_fixtures import capture, site

__all__ = ["capture", "site"]
