"""Decides: values, rules and state machines of the merge.

Nothing in this package reads a clock, draws a random number, starts a thread, opens a socket or logs.
Time arrives inside events; what has to be done leaves as instructions. The same code runs under Ray, under
a simulator and in a unit test.
"""
