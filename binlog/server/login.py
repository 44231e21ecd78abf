"""Login: what a server learns of a password, and whether the connection uses TLS.

A server chooses the authentication plugin. Some plugins reveal the password to it: in clear text, or
encrypted with a key that the server sends. An impostor, or a man in the middle, can request such a plugin. So
the password is revealed only over TLS or, encrypted, to a server on this machine; in clear text only if the
source's settings say so, to a server whose certificate was verified. Plugins that answer a challenge are
always allowed. They still let a man in the middle log in, so `canal_group.conf.listeners.admission` decides
beforehand which server may be given which password.

Layouts: "Connection Phase" in MySQL's client/server protocol; plugins: "Pluggable Authentication" in the
manuals of both.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from pymysql import _auth
from pymysql.constants import CLIENT

from canal_group.binlog.server.answers import BoundedConnection
from canal_group.merge.tls import TlsFileUnusable, client_context
from canal_group.merge.values.reach import is_loopback

#: a scramble from which anyone who sees it can compute the password; MySQL before 4.1
_BROKEN = "mysql_old_password"
#: the password in clear text; PAM, LDAP and tokens of a cloud need it
_CLEAR = {"mysql_clear_password", "dialog"}
#: as sha256_password the password as it is within TLS, else encrypted by a key that the server sends; but a
#: challenge first, which is enough for a server that has met the account before
_CHALLENGE_FIRST = "caching_sha2_password"
#: plugins that reveal nothing of the password
_CHALLENGES = {"mysql_native_password", "client_ed25519"}
_FULL = b"\x01\x04"


class LoginRefused(Exception):  # noqa: N818  it is refused by us
    """The client refuses to log in the way that the server asks for.

    Args:
        what: what the server does, as the rest of a sentence that begins with its name.
        hint: what to do about it.
    """

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def tls_context(files: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the TLS context for a connection.

    PyMySQL is not left to make its own: without a `ca` it does not check the host, and where nothing is
    verified it continues without TLS.

    Args:
        files: `ca cert key verify`.

    Raises:
        LoginRefused: a file cannot be used.
    """
    try:
        return client_context(
            files.get("ca"), files.get("cert"), files.get("key"), unverified=not files.get("verify")
        )
    except TlsFileUnusable as error:
        raise LoginRefused(
            f"cannot be reached by TLS: `ssl.{error.part}` {error}",
            "Expected PEM files: certificate authorities, and a certificate with its key.",
        ) from None


class GuardedConnection(BoundedConnection):
    """A connection that reveals a password only to a server that may see it, and whose answers are bounded.

    Args:
        tls: TLS context; TLS is then required. None: no TLS.
        clear: whether a server whose certificate was verified may ask for the password in clear text.
        options: of PyMySQL's connection.

    Raises:
        LoginRefused: the server asks for the password where it may not be revealed, or does not offer TLS.
        pymysql.Error: as PyMySQL.
    """

    def __init__(self, *, tls: ssl.SSLContext | None, clear: bool = False, **options: Any) -> None:
        self._tls = tls
        self._clear = clear
        options |= {"ssl_disabled": True} if tls is None else {"ssl": tls}
        super().__init__(**options, local_infile=False)

    def _request_authentication(self) -> None:
        driver: Any = self
        if self._tls is not None and not driver.server_capabilities & CLIENT.SSL:
            raise _no_tls()
        driver_does: Any = super()
        driver_does._request_authentication()  # noqa: SLF001 - the driver has no public way
        if self._tls is not None and not self._encrypted:
            raise _no_tls()

    def _get_auth_plugin_handler(self, plugin_name: bytes) -> _Refusing | _Challenged | None:
        """Return the handler of a plugin's packets instead of the driver; None if the driver may."""
        name = plugin_name.decode("ascii", "replace")
        if name in _CHALLENGES or not self.password:
            return None
        if name == _CHALLENGE_FIRST:
            return None if self._shows(name) else _Challenged(self)
        return None if self._shows(name) else _Refusing(self, name)

    def _shows(self, plugin: str) -> bool:
        """Return whether a plugin may reveal the password."""
        if plugin == _BROKEN:
            return False
        if plugin in _CLEAR:
            return self._clear and self._encrypted and self._verifies
        return self._encrypted or self._here

    def refusal(self, plugin: str) -> LoginRefused:
        """Return the error for a plugin that is refused."""
        if plugin == _BROKEN:
            return LoginRefused(
                f"asks for {plugin}, which lets any eavesdropper learn the password",
                "Give the account another plugin: ALTER USER ... IDENTIFIED VIA mysql_native_password.",
            )
        if plugin in _CLEAR and self._encrypted:
            return LoginRefused(
                f"asks for the password in clear text ({plugin})",
                "If the account logs in by PAM, LDAP or a token, set `clear_password: true` for the source,"
                " whose certificate has to be verified.",
            )
        return LoginRefused(
            f"asks for the password itself ({plugin}) without TLS",
            "Set `ssl` for the source: without TLS anyone in the middle could ask for the password.",
        )

    @property
    def _encrypted(self) -> bool:
        driver: Any = self
        return isinstance(driver._sock, ssl.SSLSocket)  # noqa: SLF001 - the driver's

    @property
    def _verifies(self) -> bool:
        """Whether the server's certificate is verified, and is of its host."""
        tls = self._tls
        return tls is not None and tls.verify_mode is ssl.CERT_REQUIRED and tls.check_hostname

    @property
    def _here(self) -> bool:
        driver: Any = self
        return is_loopback(str(driver._sock.getpeername()[0]))  # noqa: SLF001 - the driver's


class _Refusing:
    """Refuses a plugin when the server requests it; a name in the server's greeting is not a request."""

    def __init__(self, connection: GuardedConnection, plugin: str) -> None:
        self._connection, self._plugin = connection, plugin

    def authenticate(self, _packet: Any) -> Any:
        raise self._connection.refusal(self._plugin)


class _Challenged:
    """Answers the challenge of caching_sha2_password, and refuses to send the password itself."""

    def __init__(self, connection: GuardedConnection) -> None:
        self._connection = connection

    def authenticate(self, packet: Any) -> Any:
        driver: Any = self._connection
        if packet.is_auth_switch_request():
            driver.salt = packet.read_all().removesuffix(b"\0")
            driver.write_packet(_auth.scramble_caching_sha2(driver.password, driver.salt))
            packet = driver._read_packet()  # noqa: SLF001 - the driver has no public way
            if packet.is_ok_packet():
                return packet
        if packet.get_all_data().startswith(_FULL):
            raise self._connection.refusal(_CHALLENGE_FIRST)
        return _auth.caching_sha2_password_auth(driver, packet)


def _no_tls() -> LoginRefused:
    return LoginRefused(
        "offers no TLS, which `ssl` requires",
        "SHOW VARIABLES LIKE 'have_ssl'; on the source says why. Without `ssl` nothing is encrypted.",
    )
