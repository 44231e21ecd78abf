"""What a token allows, and what it does not."""

import dataclasses
import pickle

import pytest

from canal_group.actors.admission.access import READER, Grant, Grants, token_digest
from canal_group.merge.errors import AccessDenied

BILLING = Grant("billing", frozenset({"shop"}), frozenset({"1001", "mirror"}))


@pytest.mark.parametrize(
    ("destination", "client_id", "operation", "sentence"),
    [
        ("stock", "1001", "", "The token of billing does not allow destination stock. "),
        ("shop", "1002", "", "The token of billing does not allow client id 1002 of shop. "),
        ("shop", None, "shard_add", "The token of billing does not allow the operation shard_add on shop. "),
        ("stock", None, "shard_add", "The token of billing does not allow destination stock. "),
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
    READER.check("shop", "1")


def test_a_token_finds_its_grant_and_no_other():
    other = Grant("other")
    grants = pickle.loads(pickle.dumps(Grants.of([("sesame", BILLING), ("ésame", other)])))
    assert grants.find("sesame") == BILLING
    assert grants.find("ésame") == other
    for wrong in ("", "sesam", "sesame ", "Sesame", token_digest("sesame").hex()):
        assert grants.find(wrong) is None
    assert b"sesame" not in pickle.dumps(grants)
    assert "digest" not in repr(grants)


def test_a_caller_without_credentials_has_at_most_the_public_grant():
    assert Grants().find("") is None
    everybody = Grants.of([("sesame", Grant("ops", operate=True))])
    everybody = dataclasses.replace(everybody, anybody=READER)
    for shown in ("", "wrong"):
        assert everybody.find(shown) is READER
    assert everybody.find("sesame").operate
    with pytest.raises(AccessDenied, match=r"^A token is needed for the operation") as caught:
        READER.check("shop", operation="shard_add")
    assert "~/.cache/canal-group" in caught.value.hint


@pytest.mark.parametrize(
    ("token", "certificate", "expected"),
    [
        ("both", "paired", "both"),
        ("both", "", None),
        ("both", "alone", None),
        ("", "alone", "alone"),
        ("", "paired", None),
        ("wrong", "alone", None),
        ("", "", None),
    ],
)
def test_a_certificate_counts_alone_or_with_the_token_of_its_client(token, certificate, expected):
    grants = Grants(
        tokens=((token_digest("both"), "paired", Grant("both")),), certificates=(("alone", Grant("alone")),)
    )
    grant = grants.find(token, certificate)
    assert (grant and grant.name) == expected
    if expected:
        assert grants.may_come_in(token), "the door opens before the certificate is known"
    assert not grants.may_come_in("wrong")
