"""What real servers log of statements on accounts, and that no consumer gets it unless a filter keeps it."""

from __future__ import annotations

from support.deadline import await_true
from support.sources.recorder import reading

from canal_group.actors.sink.processing import Processing
from canal_group.actors.sink.sink import Sink
from canal_group.actors.sink.table_rule import KEPT, TableRule

PASSWORD = "Kept-from-Consumers-1"
ACCOUNTS = (
    f"CREATE USER teller@'%' IDENTIFIED BY '{PASSWORD}'",
    f"ALTER USER teller@'%' IDENTIFIED BY '{PASSWORD}2'",
    "SET PASSWORD FOR teller@'%' = {password}",
    "CREATE ROLE counter",
    "GRANT SELECT ON app.* TO counter",
    "GRANT counter TO teller@'%'",
    "SET DEFAULT ROLE counter {to} teller@'%'",
    "REVOKE SELECT ON app.* FROM counter",
    "RENAME USER teller@'%' TO clerk@'%'",
    "DROP USER clerk@'%'",
    "DROP ROLE counter",
)
OTHERS = (
    "CREATE VIEW app.v AS SELECT 1 AS one",
    "CREATE TABLE app.t (id INT PRIMARY KEY)",
    "FLUSH PRIVILEGES",
)


def check(server, address, password, to):
    """1. The server runs all statements. 2. Those on accounts are known by their text, and no others. 3. By
    default these are left out and the others kept, and nothing of a password is left.
    """
    with reading(address(server), select=Sink().select) as recorder:
        server.execute(*(each.format(password=password, to=to) for each in ACCOUNTS), *OTHERS)
        await_true(lambda: any("FLUSH" in each["sql"] for each in recorder.statements), "all is read")
    kinds = [source.kind for chunk in recorder.chunks for source in chunk.statement_sources]
    assert kinds == ["dcl"] * len(ACCOUNTS) + ["query", "ddl", "query"]
    kept = [Processing().apply(chunk) for chunk in recorder.chunks]
    texts = [row["sql"] for chunk in kept if chunk.statements for row in chunk.statements.to_pylist()]
    assert [text.split()[0] for text in texts] == ["CREATE", "CREATE", "FLUSH"]
    assert not any("IDENTIFIED" in text for text in texts)
    whole = Processing([TableRule(".*", kinds=KEPT | {"dcl"})])
    assert all(whole.apply(chunk) is chunk for chunk in recorder.chunks), (
        "nothing is left out if it is asked for"
    )
    return [each["sql"] for each in recorder.statements]


def test_statements_on_accounts_of_mariadb(own_mariadb, source_address):
    logged = check(own_mariadb, source_address, f"PASSWORD('{PASSWORD}3')", "FOR")
    assert PASSWORD in logged[0], "this is what docs/security.md warns of"


def test_statements_on_accounts_of_mysql(mysql, source_address):
    logged = check(mysql, source_address, f"'{PASSWORD}3'", "TO")
    assert not any(PASSWORD in each for each in logged)
    assert "AS '$A$00" in logged[0], "this is what docs/security.md warns of"
