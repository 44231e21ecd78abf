"""A stored history and what was added to it."""

from __future__ import annotations


def continued(stored, news):
    """Return the stored text after news."""
    if news is None:
        return stored
    return news.text if news.whole else stored + news.text
