"""Sinks: one module for each kind of output, named as the setting `output.kind` names it."""
