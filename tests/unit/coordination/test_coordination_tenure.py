import pytest

from canal_group.merge.errors import CoordinatorUnavailable, FencedError
from canal_group.merge.values.epoch import Tenure, refuse_older


def test_serves_until_the_lease_of_the_last_question_runs_out():
    tenure = Tenure(3, serves_until_s=10.0).confirmed(asked_at_s=5.0, lease_s=8.0)
    tenure.check(12.999)
    with pytest.raises(CoordinatorUnavailable):
        tenure.check(13.0)


def test_a_late_answer_to_an_early_question_does_not_shorten_the_tenure():
    tenure = Tenure(3, serves_until_s=20.0).confirmed(asked_at_s=5.0, lease_s=8.0)
    assert tenure.serves_until_s == 20.0


def test_an_answer_after_the_deadline_lets_it_serve_again():
    tenure = Tenure(3, serves_until_s=10.0)
    with pytest.raises(CoordinatorUnavailable):
        tenure.check(11.0)
    tenure.confirmed(asked_at_s=11.0, lease_s=8.0).check(11.0)


def test_a_newer_epoch_fences_for_good():
    over = Tenure(3, serves_until_s=10.0).saw(5)
    tenure = over.saw(3).confirmed(1.0, 100.0)
    assert tenure == over
    with pytest.raises(FencedError) as refusal:
        tenure.check(0.0)
    assert refusal.value.details == {"our_epoch": 3, "current_epoch": 5}


@pytest.mark.parametrize("current", [None, 0, 2])
def test_an_epoch_that_went_back_or_away_fences(current):
    with pytest.raises(FencedError) as refusal:
        Tenure(3, serves_until_s=10.0).saw(current).check(0.0)
    assert refusal.value.details == {"our_epoch": 3, "current_epoch": current}


def test_its_own_epoch_changes_nothing():
    tenure = Tenure(3, serves_until_s=10.0)
    assert tenure.saw(3) == tenure


def test_the_first_reason_stays_and_the_newest_epoch_is_told():
    tenure = Tenure(3, serves_until_s=10.0).ended("The session has ended.").saw(4)
    with pytest.raises(FencedError, match="The session has ended") as refusal:
        tenure.check(0.0)
    assert refusal.value.details["current_epoch"] == 4


def test_it_says_for_how_long_it_may_serve():
    assert Tenure(3, serves_until_s=10.0).check(7.5) == 2.5


@pytest.mark.parametrize(("current", "why"), [(None, "removed"), (2, "removed"), (4, "4 was elected after")])
def test_it_says_why_it_is_over(current, why):
    with pytest.raises(FencedError, match=why):
        Tenure(3, serves_until_s=10.0).saw(current).check(0.0)


def test_older_epochs_are_refused_with_both_epochs():
    refuse_older(4, 4, "it")
    refuse_older(5, 4, "it")
    with pytest.raises(FencedError) as refusal:
        refuse_older(3, 4, "it")
    assert refusal.value.details == {"our_epoch": 3, "current_epoch": 4}
