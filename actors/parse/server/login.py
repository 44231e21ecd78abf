"""Login: what a server gets to see of a password, and whether TLS comes about.

A server chooses the plugin by which it is logged in to, and some plugins show it the password itself: in
clear, or encrypted by a key that it sends. Whoever answers in a server's place, or stands on the way to it,
can ask for such a one. So the password is shown only to a server that is reached by TLS, or, encrypted, to
one on this machine. Plugins that answer a challenge are free; but who is challenged by somebody in the middle
lets that one in, so which server has which password is decided before (`conf.admission`).

Layouts: "Connection Phase" in MySQL's client/server protocol; plugins: "Pluggable Authentication" in the
manuals of both.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql import _auth
from pymysql.constants import CLIENT

from conf.reach import is_loopback

if TYPE_CHECKING:
    _Driver = pymysql.Connection[Any]
else:
    _Driver = pymysql.Connection

#: a scramble that anybody who sees it turns into the password; MySQL before 4.1
_BROKEN = "mysql_old_password"
#: the password as it is; PAM and LDAP need it
_CLEAR = {"mysql_clear_password", "dialog"}
#: as sha256_password the password as it is within TLS, else encrypted by a key that the server sends; but a
#: challenge first, which is enough for a server that has met the account before
_CHALLENGE_FIRST = "caching_sha2_password"
#: plugins that show nothing of the password
_CHALLENGES = {"mysql_native_password", "client_ed25519"}
_FULL = b"\x01\x04"


class LoginRefused(Exception):  # noqa: N818  it is refused by us
    """We do not log in, as the server would have it.

    Args:
        what: it does, as a sentence goes on that begins with its name.
        hint: what to do about it.
    """

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def tls_context(files: Mapping[str, Any]) -> ssl.SSLContext:
    """Return how to speak TLS.

    Args:
        files: `ca cert key verify_cert verify_identity`, as PyMySQL has them. What it makes of them itself
            does not look at the host without a `ca`, and goes on without TLS where nothing is verified.

    Raises:
        LoginRefused: a file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=files.get("ca"))
        if files.get("cert") is not None:
            # An empty passphrase, or OpenSSL would ask for one at the terminal.
            context.load_cert_chain(files["cert"], files.get("key"), "")
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or "no PEM"
        raise LoginRefused(
            f"cannot be reached by TLS: a file of `ssl` cannot be used ({str(reason).lower()})",
            "Expected PEM: authorities, and a certificate with the key that belongs to it.",
        ) from None
    # Certificates that MySQL makes for itself are not strictly what RFC 5280 says.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = bool(files.get("verify_identity"))
    context.verify_mode = ssl.CERT_REQUIRED if files.get("verify_cert") else ssl.CERT_NONE
    return context


class GuardedConnection(_Driver):
    """A connection that shows a password only to whom it may be shown.

    Args:
        tls: how to speak TLS, which is spoken then or nothing; None: it is not spoken.
        options: of PyMySQL's connection.

    Raises:
        LoginRefused: the server asks for the password where it may not be shown, or does not speak TLS.
        pymysql.Error: as PyMySQL.
    """

    def __init__(self, *, tls: ssl.SSLContext | None, **options: Any) -> None:
        self._tls = tls
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
        """Return what answers a plugin's packets in the driver's place; None: the driver may."""
        name = plugin_name.decode("ascii", "replace")
        if name in _CHALLENGES or not self.password:
            return None
        if name == _CHALLENGE_FIRST:
            return None if self._shows(name) else _Challenged(self)
        return None if self._shows(name) else _Refusing(self, name)

    def _shows(self, plugin: str) -> bool:
        """Return whether the password may be shown by a plugin."""
        if plugin == _BROKEN:
            return False
        return self._encrypted or (plugin not in _CLEAR and self._here)

    def refusal(self, plugin: str) -> LoginRefused:
        """Return why a plugin is not played."""
        if plugin == _BROKEN:
            return LoginRefused(
                f"asks for {plugin}, by which anybody who listens learns the password",
                "Give the account another plugin: ALTER USER ... IDENTIFIED VIA mysql_native_password.",
            )
        return LoginRefused(
            f"asks for the password itself ({plugin}) without TLS",
            "Set `ssl` for it: anybody on the way to it could ask the same.",
        )

    @property
    def _encrypted(self) -> bool:
        driver: Any = self
        return isinstance(driver._sock, ssl.SSLSocket)  # noqa: SLF001 - the driver's

    @property
    def _here(self) -> bool:
        """Whether the server is on this machine."""
        driver: Any = self
        return is_loopback(str(driver._sock.getpeername()[0]))  # noqa: SLF001 - the driver's


class _Refusing:
    """Refuses a plugin when the server asks for it; that its greeting names it is not enough."""

    def __init__(self, connection: GuardedConnection, plugin: str) -> None:
        self._connection, self._plugin = connection, plugin

    def authenticate(self, _packet: Any) -> Any:
        raise self._connection.refusal(self._plugin)


class _Challenged:
    """Answers the challenge of caching_sha2_password, and nothing that goes beyond it."""

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
        "offers no TLS, which `ssl` asks for",
        "SHOW VARIABLES LIKE 'have_ssl'; on the source says why. Without `ssl` nothing is encrypted.",
    )
