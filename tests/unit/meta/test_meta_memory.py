"""The store in memory."""

import itertools

import pytest

from canal_group.actors.meta.memory import MemoryStore
from canal_group.programs.conformance.store import StoreConformance


class TestMemory(StoreConformance):
    @pytest.fixture
    def store(self):
        return MemoryStore()

    @pytest.fixture
    def elect(self):
        return itertools.count(1).__next__
