"""Fault injection into real processes: a seed is a schedule of faults, and an audit checks the streams."""
