"""Gateway settings: where the gateway listens, which clients it admits, and its TLS certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeGuard

from pydantic import Field, PrivateAttr, SecretStr, ValidationInfo, model_validator

from canal_group.conf.listeners.connection_bounds import ConnectionBounds
from canal_group.conf.secret import Owner, UnreadSecret, read_secret
from canal_group.conf.value import AnchoredPath, Count, Host, ListenPort, Name, Settings, Text, unfit
from canal_group.merge.printable import is_header_text
from canal_group.merge.values.reach import is_loopback
from canal_group.merge.well_known import GATEWAY_PORT, HOST


class GatewaySslSettings(Settings):
    """TLS of the gateway."""

    #: our certificate, followed by the intermediate certificates up to its authority, and its key; both PEM
    cert: AnchoredPath
    key: AnchoredPath
    #: authorities one of which must have signed a consumer's certificate; None: consumers need no certificate
    client_ca: AnchoredPath | None = None


class ClientSettings(Settings):
    """A client that is admitted by its own token or certificate; if both are given, it must show both.

    The token appears in no repr, dump or error.
    """

    #: name in logs and refusals
    name: Name
    #: environment variable or file with the client's token
    token_env: str | None = None
    token_file: AnchoredPath | None = None
    #: the name in its certificate: the first alternative name, or the subject's common name if it has none
    certificate: Text | None = None
    #: destinations open to the client; empty: this instance's destination
    destinations: Annotated[tuple[Name, ...], Field(strict=False)] = ()
    #: client ids open to the client; empty: any
    client_ids: Annotated[tuple[Name, ...], Field(strict=False)] = ()
    #: whether a client may stop, rewind or change the destination
    operate: bool = False
    #: whether its reads may roll back other clients; `operate` includes this
    rewind: bool = False

    _token: SecretStr | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _read_token(self, info: ValidationInfo) -> ClientSettings:
        self._token = _token(self.token_env, self.token_file, info)
        if self._token is None and self.certificate is None:
            raise unfit("be given, or `token_file`, or `certificate`", key="token_env", found="is missing")
        return self

    @property
    def token(self) -> SecretStr | None:
        """Token required of the client; None: its certificate is enough."""
        return self._token


class GatewayBounds(ConnectionBounds):
    """What callers of the gateway may cost; its process gets these, and no secret."""

    #: approximate bytes of one message of a reply; a larger batch is sent in several messages
    reply_bytes_max: Count = 4 << 20
    #: concurrent calls of one client
    calls_max: Count = 512
    #: approximate bytes of rows that were fetched and are not yet lent or sent, of all clients together
    unsent_bytes_max: Count = 48 << 20
    #: bytes of shared memory for the consumers of this machine, all together
    lent_bytes_max: Count = 96 << 20


class GatewaySettings(GatewayBounds):
    """The gateway, to which consumers connect. Its tokens appear in no repr, dump or error."""

    host: Host = HOST
    port: ListenPort = GATEWAY_PORT
    #: host by which other machines reach it; None: `host`, or the machine's name if `host` is every address
    advertise: Host | None = None
    #: environment variable or file that holds a token that allows everything: reading and operating
    token_env: str | None = None
    token_file: AnchoredPath | None = None
    #: other clients. Without clients and token, every process of this machine may read, and every client with
    #: a certificate of `ssl.client_ca`
    clients: Annotated[tuple[ClientSettings, ...], Field(strict=False)] = ()
    #: names of the listed clients admitted to this destination; empty: all
    only: Annotated[tuple[Name, ...], Field(strict=False)] = ()
    #: None: the connections are not encrypted
    ssl: GatewaySslSettings | None = None

    _token: SecretStr | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _guarded(self, info: ValidationInfo) -> GatewaySettings:
        self._token = _token(self.token_env, self.token_file, info)
        requires_login = (
            self._token is not None or self.clients or (self.ssl is not None and self.ssl.client_ca)
        )
        if not requires_login and not is_loopback(self.host):
            raise unfit(
                "be a loopback address without `token_env`, `token_file`, `clients` and `ssl.client_ca`",
                key="host",
                found=f"is '{self.host}', open to other machines",
            )
        return self

    @model_validator(mode="after")
    def _distinct_clients(self) -> GatewaySettings:
        names: dict[str, int] = {}
        tokens = {} if not _is_read(self._token) else {self._token.get_secret_value(): "the gateway"}
        certificates: dict[str, str] = {}
        for index, client in enumerate(self.clients):
            path = f"clients[{index}]"
            first = names.setdefault(client.name, index)
            if first != index:
                raise unfit("be unique", key=f"{path}.name", found=f"clients[{first}] is '{client.name}' too")
            if client.certificate is not None and (self.ssl is None or self.ssl.client_ca is None):
                raise unfit(
                    "be given only with `gateway.ssl.client_ca`",
                    key=f"{path}.certificate",
                    found="that is missing",
                )
            if client.token is None:
                assert client.certificate is not None
                owner = certificates.setdefault(client.certificate, path)
                if owner != path:
                    raise unfit(
                        "be unique",
                        key=f"{path}.certificate",
                        found=f"{owner} has the same",
                    )
                continue
            if not _is_read(client.token):
                continue
            owner = tokens.setdefault(client.token.get_secret_value(), path)
            if owner != path:
                key = "token_env" if client.token_file is None else "token_file"
                raise unfit("hold a unique token", key=f"{path}.{key}", found=f"{owner} has the same")
        return self

    @model_validator(mode="after")
    def _only_clients(self) -> GatewaySettings:
        names = [client.name for client in self.clients]
        for index, name in enumerate(self.only):
            if name not in names:
                there = ", ".join(names) or "none"
                raise unfit(
                    f"name one of `gateway.clients` ({there})", key=f"only[{index}]", found=f"is '{name}'"
                )
        return self

    @property
    def admitted(self) -> tuple[ClientSettings, ...]:
        """The clients that this destination admits."""
        return tuple(client for client in self.clients if not self.only or client.name in self.only)

    @property
    def token(self) -> SecretStr | None:
        """The token for every right, or None."""
        return self._token

    @property
    def names_who(self) -> bool:
        """Whether a token or clients are configured; otherwise everyone who reaches the gateway may read."""
        return self._token is not None or bool(self.clients)


def _is_read(token: SecretStr | None) -> TypeGuard[SecretStr]:
    return token is not None and not isinstance(token, UnreadSecret)


def _token(env: str | None, file: Path | None, info: ValidationInfo) -> SecretStr | None:
    """Read a token, which is sent in the header of a request."""
    token = read_secret(Owner.GATEWAY, "token", env, file, info)
    if _is_read(token) and not is_header_text(token.get_secret_value()):
        key = "token_env" if file is None else "token_file"
        raise unfit("point to a token of printable ASCII characters", key=key, found="it has others")
    return token
