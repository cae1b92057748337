"""What the tests of plugins start from."""

from site_fixtures import capture, site

__all__ = ["capture", "site"]
