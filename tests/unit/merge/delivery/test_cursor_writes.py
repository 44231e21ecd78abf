"""The writes of one subscription: which phases allow which event, and which version the store has."""

from itertools import product
from types import SimpleNamespace

import pytest

from canal_group.merge.delivery import write_phase
from canal_group.merge.delivery.cursor_writes import OWN_CALL, CursorWrites
from canal_group.merge.delivery.write_phase import WritePhase, WriteStep, after
from canal_group.merge.errors import RetryableError

CALL, BATCH = 7, SimpleNamespace(batch_id=1)


def stored():
    writes = CursorWrites("c")
    writes.restored()
    return writes


def following():
    writes = stored()
    writes.changed()
    assert writes.store().call == OWN_CALL
    return writes


def subscribing():
    writes = CursorWrites("c")
    writes.subscribing = CALL
    assert writes.store().call == CALL
    return writes


def acking():
    writes = stored()
    writes.acknowledge(CALL, BATCH)
    return writes


def unsure():
    writes = acking()
    writes.not_saved(CALL, retryable=True)
    return writes


def repeating():
    writes = unsure()
    writes.repeat()
    return writes


def forgetting():
    writes = stored()
    writes.forget()
    return writes


def unforgotten():
    writes = forgetting()
    writes.not_forgotten()
    return writes


#: what brings about each phase
PHASES = {
    WritePhase.IDLE: stored,
    WritePhase.FOLLOWING: following,
    WritePhase.SUBSCRIBING: subscribing,
    WritePhase.ACKING: acking,
    WritePhase.UNSURE: unsure,
    WritePhase.REPEATING: repeating,
    WritePhase.FORGETTING: forgetting,
    WritePhase.UNFORGOTTEN: unforgotten,
}
#: what tells each step that has a method of its own in every phase
STEPS = {
    WriteStep.ACK: lambda writes: writes.acknowledge(CALL, BATCH),
    WriteStep.SAVED: lambda writes: writes.saved(call_of(writes)),
    WriteStep.REFUSED: lambda writes: writes.not_saved(call_of(writes), retryable=False),
    WriteStep.LOST: lambda writes: writes.not_saved(call_of(writes), retryable=True),
    WriteStep.FORGET: lambda writes: writes.forget(),
    WriteStep.ABANDON: lambda writes: writes.abandon(),
}


def call_of(writes):
    return writes.write.call if writes.write is not None else CALL


def state_of(writes):
    return {name: list(value) if isinstance(value, list) else value for name, value in vars(writes).items()}


@pytest.mark.parametrize("phase", WritePhase)
def test_each_phase_is_reached_and_is_valid(phase):
    writes = PHASES[phase]()
    assert writes.phase is phase
    writes.validate()


@pytest.mark.parametrize(("phase", "step"), list(product(WritePhase, WriteStep)))
def test_a_pair_that_is_not_in_the_table_has_no_next_phase(phase, step):
    if (phase, step) in write_phase._NEXT:
        assert after(phase, step) in WritePhase
        return
    with pytest.raises(AssertionError, match="has no"):
        after(phase, step)


@pytest.mark.parametrize(("phase", "step"), list(product(WritePhase, STEPS)))
def test_an_event_that_the_phase_does_not_allow_raises_and_changes_nothing(phase, step):
    writes = PHASES[phase]()
    writes.changed()
    before = state_of(writes)
    # An answer about a removal comes by `not_forgotten`.
    forgets = phase is WritePhase.FORGETTING and step is WriteStep.LOST
    if (phase, step) in write_phase._NEXT and not forgets:
        STEPS[step](writes)
        assert writes.phase is write_phase._NEXT[phase, step]
        writes.validate()
        return
    with pytest.raises(AssertionError):
        STEPS[step](writes)
    assert state_of(writes) == before


@pytest.mark.parametrize("phase", sorted(write_phase.WRITING - {WritePhase.UNSURE}))
def test_an_answer_to_another_write_changes_nothing(phase):
    writes = PHASES[phase]()
    before = state_of(writes)
    with pytest.raises(AssertionError, match="another write"):
        writes.saved(call_of(writes) + 1)
    assert state_of(writes) == before


@pytest.mark.parametrize("phase", WritePhase)
def test_calls_are_refused_while_the_store_is_asked_something(phase):
    writes = PHASES[phase]()
    before = state_of(writes)
    checks = {writes.check_none: write_phase.WRITING}
    checks[writes.check_not_forgetting] = {WritePhase.FORGETTING, WritePhase.UNFORGOTTEN}
    for check, phases in checks.items():
        if phase in phases:
            with pytest.raises(RetryableError):
                check()
        else:
            check()
    assert state_of(writes) == before


@pytest.mark.parametrize("phase", sorted(write_phase.WRITING))
def test_no_write_of_the_subscription_begins_during_another(phase):
    writes = PHASES[phase]()
    writes.changed()
    writes.subscribing = CALL + 1
    assert writes.store() is None
    assert writes.phase is phase


@pytest.mark.parametrize("phase", sorted(set(WritePhase) - {WritePhase.UNSURE}))
def test_only_a_write_that_may_have_arrived_is_repeated(phase):
    writes = PHASES[phase]()
    assert writes.repeat() is None
    assert writes.phase is phase


def test_a_repeated_write_keeps_batch_and_call():
    writes = unsure()
    writes.changed()
    write = writes.repeat()
    assert (write.call, write.batch) == (CALL, BATCH)
    writes.saved(CALL)
    assert not writes.lacks_changes


@pytest.mark.parametrize("phase", sorted(write_phase.WRITING - {WritePhase.UNSURE}))
def test_a_write_has_the_changes_from_before_it_and_no_later_ones(phase):
    writes = PHASES[phase]()
    writes.saved(call_of(writes))
    assert (writes.durable, writes.lacks_changes) == (True, False)
    writes = PHASES[phase]()
    writes.changed()
    writes.saved(call_of(writes))
    assert (writes.durable, writes.lacks_changes) == (True, True)


@pytest.mark.parametrize("retryable", [False, True])
def test_a_change_that_was_not_written_is_still_missing(retryable):
    writes = following()
    writes.not_saved(OWN_CALL, retryable=retryable)
    assert (writes.phase, writes.lacks_changes) == (WritePhase.IDLE, True)
    assert writes.store().call == OWN_CALL


def test_the_changes_in_an_unsure_write_are_not_known_to_be_stored():
    writes = stored()
    writes.changed()
    writes.acknowledge(CALL, BATCH)
    assert writes.lacks_changes
    writes.not_saved(CALL, retryable=True)
    assert writes.lacks_changes
    writes.repeat()
    writes.saved(CALL)
    assert not writes.lacks_changes


def test_an_unknown_subscription_is_written_for_its_call_only():
    writes = CursorWrites("c")
    writes.changed()
    assert writes.store() is None
    writes.subscribing = CALL
    writes.store()
    writes.not_saved(CALL, retryable=False)
    assert (writes.durable, writes.store().call) == (False, CALL)


@pytest.mark.parametrize("phase", WritePhase)
def test_a_caller_counts_as_waiting_until_it_was_told(phase):
    writes = PHASES[phase]()
    writes.subscribing = None
    awaited = (WritePhase.FOLLOWING, WritePhase.SUBSCRIBING, WritePhase.ACKING)
    assert writes.answers_somebody == (phase in awaited)
    writes.subscribing = CALL
    assert writes.answers_somebody


def test_a_removal_is_repeated_until_it_is_under_way_again():
    writes = unforgotten()
    assert [writes.forget_again(), writes.forget_again()] == [True, False]
    writes.not_forgotten()
    assert writes.forget_again()
