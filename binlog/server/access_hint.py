"""What to do when a server lets an account not in, by what its error says and leaves out.

A server answers a wrong password, a missing account, and an account for other hosts with one and the same
error, so that strangers learn nothing. The hint has the query with which its operator can tell.
"""

from __future__ import annotations

import re
from typing import Final

#: privileges that reading a source takes
_GRANTED: Final = "REPLICATION SLAVE, REPLICATION CLIENT, REFERENCES"
_REFUSED_LOGIN: Final = 1045
_TOO_MANY_ERRORS: Final = 1129
_NO_HOST: Final = 1130
#: the client does not have the account's authentication plugin
_AUTH_PLUGIN: Final = {2059, 2061}
#: the account logs in by its name in the operating system, without a password
_NO_PASSWORD: Final = 1698
#: the account as the server sees it: its host part is the address from which we came
_REFUSED: Final = re.compile(r"user '(?P<user>.*?)'@'(?P<host>[^']*)'")
_HOST: Final = re.compile(r"Host '(?P<host>[^']*)'")
#: any of the privileges that it lists will do; the last one is the least
_NEEDED: Final = re.compile(r"(?P<privilege>[A-Z_ ]+) privilege\(s\)")

#: codes with which a server refuses to select rows of a table, or some of its columns
SELECT_DENIED: Final = {1142, 1143}
#: codes with which a server or the driver refuses an account
ACCESS_CODES: Final = (
    _AUTH_PLUGIN
    | SELECT_DENIED
    | {
        1044,
        _REFUSED_LOGIN,
        1227,
        _NO_PASSWORD,
        _TOO_MANY_ERRORS,
        _NO_HOST,
    }
)


def access_hint(user: str, code: int, text: str) -> str:
    """Return the hint for an error of `ACCESS_CODES`.

    Args:
        user: as whom we logged in.
        code: of the error.
        text: of the error.
    """
    found = _REFUSED.search(text) or _HOST.search(text)
    host = found["host"] if found else "%"
    account = f"{_quoted(user)}@{_quoted(host)}"
    created = f"CREATE USER {account} IDENTIFIED BY '<password>'; GRANT {_GRANTED} ON *.* TO {account};"
    if code == _REFUSED_LOGIN:
        return _login_hint(user, host, created, sent="using password: NO" not in text)
    if code in _AUTH_PLUGIN:
        return (
            f"ALTER USER {account} IDENTIFIED WITH caching_sha2_password BY '<password>'; "
            "gives the account an authentication plugin that PyMySQL knows."
        )
    needed = _NEEDED.search(text)
    return {
        _TOO_MANY_ERRORS: "Run FLUSH HOSTS; on the source: it had too many broken connections from here.",
        _NO_HOST: f"No account of the source is for this host. {created}",
        _NO_PASSWORD: f"ALTER USER {account} IDENTIFIED BY '<password>'; lets it log in by a password.",
    }.get(code, f"GRANT {needed['privilege'].strip() if needed else _GRANTED} ON *.* TO {account};")


def _login_hint(user: str, host: str, created: str, *, sent: bool) -> str:
    if not sent:
        return f"No password was sent: set password_env or password_file of {_quoted(user)}."
    accounts = f"SELECT user, host FROM mysql.user WHERE user = {_quoted(user)};"  # noqa: S608 - to be read
    return (
        f"To tell why, ask the source: {accounts} "
        f"No row whose host matches {host}: the account is missing, or is for other hosts. {created} "
        f"A row whose host matches: the password is wrong. ALTER USER {_quoted(user)}@'<that host>' "
        "IDENTIFIED BY '<password>';"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
