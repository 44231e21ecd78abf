"""Marks: what consumers are told in the stream that no source logged."""
