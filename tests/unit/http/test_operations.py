"""The REST API is all that an operator's commands are, and files are shown without secrets."""

from __future__ import annotations

import re

import pytest

from actors.http.app import App
from actors.http.instance_files import HIDDEN, _shown
from actors.http.recent_log import RecentLog
from merge.calls.call import CALLS, Right

BASE = "/api/instances/{destination}"
#: what answers each request of an operator over HTTP
PATHS = {
    "status": ("GET", ""),
    "locate": ("GET", "/position"),
    "trace": ("GET", "/transactions/{gtid}"),
    "trace_key": ("GET", "/changes"),
    "outstanding": ("GET", "/clients/{client_id}"),
    "rewind": ("POST", "/clients/{client_id}/rewind"),
    "client_rollback": ("POST", "/clients/{client_id}/rollback"),
    "client_unsubscribe": ("DELETE", "/clients/{client_id}"),
    "shard_policy": ("POST", "/shards/{shard}/{policy}"),
    "shard_add": ("POST", "/shards"),
    "shard_remove": ("DELETE", "/shards/{shard}"),
    "schema_show": ("GET", "/shards/{shard}/schema"),
    "schema_joined": ("GET", "/tables/{table}"),
    "schema_resolve": ("PUT", "/tables/{table}/columns/{column}/type"),
    "shard_skip_event": ("POST", "/shards/{shard}/events/skip"),
    "schema_rebuild": ("POST", "/shards/{shard}/schema/rebuild"),
}


def test_every_operator_request_has_a_path_and_changes_are_not_gets():
    operators = {name for name, kind in CALLS.items() if kind.declared.right is Right.OPERATE}
    assert PATHS.keys() == operators | {"status", "locate", "outstanding"}
    made = App(dict, None, None, RecentLog(), dict, writable=False, hosts=["*"])  # type: ignore[arg-type]
    routes = {
        (method.upper(), path) for path, methods in made.asgi.openapi()["paths"].items() for method in methods
    }
    for name, (method, path) in PATHS.items():
        assert (method, BASE + path) in routes, name
        assert (CALLS[name].declared.audited is not None) == (method != "GET"), name


@pytest.mark.parametrize(
    "line",
    [
        "password: s3cret-1",
        "  password: 's3cret-1 # and more'",
        '{name: s0, password: "s3cret-1", port: 3306}',
        "{name: s0, port: 3306, password: s3cret-1}",
        '"token": s3cret-1   # of ops',
        "password: |\n    s3cret-1\n    s3cret-1 again",
        "SALT : s3cret-1",
        "password: a,s3cret-1}",
        "password:\n    s3cret-1",
        "password: a\n    s3cret-1",
        "- password: s3cret-1\n  host: a",
    ],
)
def test_what_looks_like_a_secret_is_hidden_and_the_rest_is_not(line: str):
    text = f"destination: shop\n{line}\nshards: []\n"
    shown = _shown(text)
    assert "s3cret-1" not in shown
    assert HIDDEN in shown or "password:\n" in text
    assert re.match(r"destination: shop\n", shown)
    assert shown.endswith("shards: []\n")
    assert ("host: a" in shown) == ("host: a" in text)


def test_hiding_takes_time_in_proportion_to_the_text():
    for evil in ("password: " + "}" * 100_000 + "x", "password: '" * 20_000, 'password: "' + "\\" * 100_000):
        assert len(_shown(evil)) < 200_000


@pytest.mark.parametrize(
    "line",
    [
        "password_env: CANAL_PASSWORD",
        "{token_file: secrets/ops, operate: true}",
        "shard_add: {secrets: /etc/secrets}",
        "my-password: x",
        "password:",
    ],
)
def test_what_names_a_secret_is_shown(line: str):
    assert _shown(line + "\n") == line + "\n"
