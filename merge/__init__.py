"""Values, rules and state machines of the merge: the part that decides.

Nothing in this package reads a clock, draws a random number, starts a thread, opens a socket or logs.
Time comes in with events; actions go out as instructions. The same code runs under Ray, in a simulator and
in a unit test.
"""
