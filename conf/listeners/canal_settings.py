"""Settings of canal's protocol: where canal's clients connect, how they log in, and what they may cost."""

from __future__ import annotations

import re

from pydantic import PrivateAttr, SecretStr, ValidationInfo, model_validator

from canal_group.conf.listeners.gateway_settings import GatewaySslSettings
from canal_group.conf.secret import Owner, UnreadSecret, read_secret
from canal_group.conf.value import AnchoredPath, Count, Host, ListenPort, Seconds, Settings, Text, unfit
from canal_group.merge.values.reach import is_loopback
from canal_group.merge.well_known import CANAL_PORT, HOST

#: a password's digest as MySQL and canal write it; the asterisk tells it from a password
_DIGEST = re.compile(r"\*[0-9A-Fa-f]*")
_DIGEST_CHARS = 41


class CanalBounds(Settings):
    """What canal's clients may cost; the gateway's process gets these, and no secret."""

    #: bytes of a packet that a client sends
    frame_bytes_max: Count = 64 << 10
    #: most connections after login, and most before login
    connections_max: Count = 256
    login_max: Count = 64
    #: how long a login may take, and how long a client that has logged in may send nothing
    login_s: Seconds = 10.0
    idle_s: Seconds = 3_600.0
    #: how long a client may take to read the next part of an answer
    send_s: Seconds = 60.0
    #: approximate bytes of answers that are made and not sent, of all connections together
    unsent_bytes_max: Count = 128 << 20


class CanalSettings(CanalBounds):
    """canal's protocol, beside the gateway. The password appears in no repr, dump or error."""

    host: Host = HOST
    port: ListenPort = CANAL_PORT
    #: host by which other machines reach it; None: `host`, or the machine's name if `host` is every address
    advertise: Host | None = None
    #: whether the begin and the end of each transaction are entries
    transaction_entries: bool = True
    #: the user name that every client must give; None: any client is admitted
    user: Text | None = None
    #: environment variable or file that holds the user's password, or "*" and its digest in digits
    password_env: str | None = None
    password_file: AnchoredPath | None = None
    #: None: the connections are not encrypted
    ssl: GatewaySslSettings | None = None

    _password: SecretStr | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _guarded(self, info: ValidationInfo) -> CanalSettings:
        self._password = read_secret(Owner.GATEWAY, "password", self.password_env, self.password_file, info)
        key = "password_env" if self.password_file is None else "password_file"
        if (self.user is None) != (self._password is None):
            missing, other = ("user", key) if self.user is None else ("password_env", "user")
            raise unfit(f"be given with `{other}`", key=missing, found="is missing")
        if self._password is not None and not isinstance(self._password, UnreadSecret):
            secret = self._password.get_secret_value()
            if _DIGEST.fullmatch(secret) and len(secret) != _DIGEST_CHARS:
                raise unfit("hold 40 hexadecimal digits after the asterisk", key=key, found="it holds others")
        if self._password is None and not (self.ssl and self.ssl.client_ca) and not is_loopback(self.host):
            raise unfit(
                "be a loopback address without `user` and `ssl.client_ca`",
                key="host",
                found=f"is '{self.host}', open to other machines",
            )
        return self

    @property
    def password(self) -> SecretStr | None:
        """The user's password, or "*" and its digest; None: no password is asked for."""
        return self._password
