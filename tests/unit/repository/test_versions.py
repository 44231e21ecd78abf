"""Versions of what is installed: those that security rests on, and that pins and bounds agree."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

_ROOT = Path(__file__).parents[3]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())
_PINS = {
    canonicalize_name(name): Version(version)
    for name, version in (line.split("==") for line in (_ROOT / "constraints.txt").read_text().split())
}
_REQUIRED = [
    Requirement(text)
    for group in (
        _PROJECT["build-system"]["requires"],
        _PROJECT["project"]["dependencies"],
        *_PROJECT["project"]["optional-dependencies"].values(),
    )
    for text in group
]


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        # The first Ray that asks who calls for a token.
        ("ray", "2.51.2"),
        # It is asked for a password before `canal_group.binlog.server.login` could look whether TLS is
        # spoken.
        ("pymysql", "1.2.3"),
        # Its methods that the login guards may be others.
        ("pymysql", "1.3.0"),
    ],
)
def test_a_version_that_is_not_safe_is_not_installed(name, refused):
    named = [each for each in _REQUIRED if each.name == name]
    assert named
    for each in named:
        assert refused not in each.specifier, str(each)


def test_each_plugin_of_the_table_has_its_library():
    """docs/security.md: caching_sha2_password wants RSA, client_ed25519 wants PyNaCl."""
    (driver,) = (each for each in _REQUIRED if each.name == "pymysql")
    assert driver.extras == {"rsa", "ed25519"}
    assert {"cryptography", "pynacl"} <= _PINS.keys()


@pytest.mark.parametrize("required", _REQUIRED, ids=str)
def test_what_is_pinned_is_what_is_asked_for(required):
    if required.name == _PROJECT["project"]["name"]:
        return
    assert required.specifier, "it has no minimum"
    assert _PINS[canonicalize_name(required.name)] in required.specifier
