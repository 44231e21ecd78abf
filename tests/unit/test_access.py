"""What a token allows, and what it does not."""

import pickle

import pytest

from merge.access import EVERYBODY, Grant, Grants, token_digest
from merge.errors import AccessDenied

BILLING = Grant("billing", frozenset({"shop"}), frozenset({"1001", "mirror"}))


@pytest.mark.parametrize(
    ("destination", "client_id", "operation", "sentence"),
    [
        ("stock", "1001", "", "The token of billing is not for stock. "),
        ("shop", "1002", "", "The token of billing is not for client id 1002 of shop. "),
        ("shop", None, "shard_add", "The token of billing is not for the operation shard_add on shop. "),
        ("stock", None, "shard_add", "The token of billing is not for stock. "),
    ],
)
def test_what_is_not_granted_is_denied_by_name(destination, client_id, operation, sentence):
    with pytest.raises(AccessDenied) as caught:
        BILLING.check(destination, client_id, operation=operation)
    assert str(caught.value).startswith(sentence)
    assert "gateway.clients" in caught.value.hint


def test_what_is_granted_passes():
    BILLING.check("shop", "mirror")
    BILLING.check("shop")
    Grant("any").check("whatever", "whoever")
    Grant("operator", operate=True).check("shop", operation="shard_add")
    EVERYBODY.check("shop", "1", operation="shard_add")


def test_a_token_finds_its_grant_and_no_other():
    other = Grant("other")
    grants = pickle.loads(pickle.dumps(Grants.of([("sesame", BILLING), ("ésame", other)])))
    assert grants.find("sesame") == BILLING
    assert grants.find("ésame") == other
    for wrong in ("", "sesam", "sesame ", "Sesame", token_digest("sesame").hex()):
        assert grants.find(wrong) is None
    assert b"sesame" not in pickle.dumps(grants)
    assert "digest" not in repr(grants)


def test_without_tokens_everybody_comes_in():
    assert Grants().find("") is EVERYBODY
