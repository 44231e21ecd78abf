"""Gateway settings: the door that consumers come in by, who may, and how it proves who it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeGuard

from pydantic import Field, PrivateAttr, SecretStr, ValidationInfo, model_validator

from canal_group.gateway.token_text import is_header_text
from conf.reach import is_loopback
from conf.secret import Owner, UnreadSecret, read_secret
from conf.value import AnchoredPath, Count, Host, ListenPort, Name, Seconds, Settings, Text, unfit


class GatewaySslSettings(Settings):
    """TLS of the gateway."""

    #: our certificate, with those between it and its authority behind it, and its key; both PEM
    cert: AnchoredPath
    key: AnchoredPath
    #: authorities that must have signed a consumer's certificate; None: consumers need none
    client_ca: AnchoredPath | None = None


class ClientSettings(Settings):
    """One who may come in, by a token or a certificate of its own; by both, if both are named.

    The token appears in no repr, dump or error.
    """

    #: what logs and refusals call it
    name: Name
    #: environment variable or file that holds its token
    token_env: str | None = None
    token_file: AnchoredPath | None = None
    #: the name in its certificate: the first alternative name, or the subject's common name if it has none
    certificate: Text | None = None
    #: what it may read; empty: this instance's destination
    destinations: Annotated[tuple[Name, ...], Field(strict=False)] = ()
    #: under which client ids; empty: any
    client_ids: Annotated[tuple[Name, ...], Field(strict=False)] = ()
    #: whether it may change what is served
    operate: bool = False
    #: whether other clients may be rolled back for what it reads; who may operate may that as well
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
        """What it shows; None: its certificate is enough."""
        return self._token


class GatewaySettings(Settings):
    """The door that consumers come in by. Its tokens appear in no repr, dump or error."""

    host: Host = "127.0.0.1"
    port: ListenPort = 11113
    #: by which other machines reach it; None: `host`, or the machine's name where that is every address
    advertise: Host | None = None
    #: environment variable or file that holds a token by which everything may be read and operated
    token_env: str | None = None
    token_file: AnchoredPath | None = None
    #: who else may come in; without clients and token, everybody on this machine may read, and whoever has a
    #: certificate of `ssl.client_ca`
    clients: Annotated[tuple[ClientSettings, ...], Field(strict=False)] = ()
    #: None: the connections are not encrypted
    ssl: GatewaySslSettings | None = None
    #: bytes of one message of a reply, about; a larger batch leaves in several
    reply_bytes_max: Count = 4 << 20
    #: connections that brought a call which was let in; where no token is asked for, any call
    connections_max: Count = 1_024
    #: other ones, how long each may be such, and the bytes that all of them together may bring
    unauthenticated_max: Count = 64
    unauthenticated_s: Seconds = 10.0
    unauthenticated_bytes_max: Count = 2 << 20
    #: bytes of a request, about
    request_bytes_max: Count = 16 << 20
    #: calls of one client that are answered at once
    calls_max: Count = 512

    _token: SecretStr | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _guarded(self, info: ValidationInfo) -> GatewaySettings:
        self._token = _token(self.token_env, self.token_file, info)
        known = self._token is not None or self.clients or (self.ssl is not None and self.ssl.client_ca)
        if not known and not is_loopback(self.host):
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
            place = f"clients[{index}]"
            first = names.setdefault(client.name, index)
            if first != index:
                raise unfit(
                    "be unique", key=f"{place}.name", found=f"clients[{first}] is '{client.name}' too"
                )
            if client.certificate is not None and (self.ssl is None or self.ssl.client_ca is None):
                raise unfit(
                    "stand with `gateway.ssl.client_ca`", key=f"{place}.certificate", found="it is missing"
                )
            if client.token is None:
                assert client.certificate is not None
                owner = certificates.setdefault(client.certificate, place)
                if owner != place:
                    raise unfit(
                        "be a certificate of its own",
                        key=f"{place}.certificate",
                        found=f"{owner} has the same",
                    )
                continue
            if not _is_read(client.token):
                continue
            owner = tokens.setdefault(client.token.get_secret_value(), place)
            if owner != place:
                key = "token_env" if client.token_file is None else "token_file"
                raise unfit("hold a token of its own", key=f"{place}.{key}", found=f"{owner} has the same")
        return self

    @property
    def token(self) -> SecretStr | None:
        """The token by which everything is allowed; None: there is none."""
        return self._token

    @property
    def names_who(self) -> bool:
        """Whether it says who may come in, and for what; else everybody who reaches it may read."""
        return self._token is not None or bool(self.clients)


def _is_read(token: SecretStr | None) -> TypeGuard[SecretStr]:
    return token is not None and not isinstance(token, UnreadSecret)


def _token(env: str | None, file: Path | None, info: ValidationInfo) -> SecretStr | None:
    """Read a token, which travels in the header of a request."""
    token = read_secret(Owner.GATEWAY, "token", env, file, info)
    if _is_read(token) and not is_header_text(token.get_secret_value()):
        key = "token_env" if file is None else "token_file"
        raise unfit("point to a token of printable ASCII characters", key=key, found="it has others")
    return token
