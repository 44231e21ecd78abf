"""A group under random reports, losses, restarts, gets, acknowledgements, failed writes, slow consumers."""

from hypothesis import settings
from support.group.group_machine import GroupMachine
from support.soak import cases

TestGroup = GroupMachine.TestCase
TestGroup.settings = settings(max_examples=cases(300), stateful_step_count=60, deadline=None)
