"""Tests that every output, store and processing function passes, and plug-ins inherit; they need pytest."""
