"""A browser for the tests of this folder."""

from __future__ import annotations

from support.instance.page import browser, page  # noqa: F401  fixtures
