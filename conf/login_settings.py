"""Login settings: how to log in to a server, and how the connection to it is encrypted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, PrivateAttr, SecretStr, ValidationInfo, model_validator

from canal_group.conf.secret import Owner, read_secret
from canal_group.conf.value import AnchoredPath, Seconds, Settings, Text, unfit


class SslSettings(Settings):
    """TLS of the connection to a source."""

    #: authorities that may have signed the source's certificate; None: those of the system
    ca: AnchoredPath | None = None
    #: our certificate and its key, if the source asks for one
    cert: AnchoredPath | None = None
    key: AnchoredPath | None = None
    #: whether the source's certificate is verified
    verify: bool = True

    @model_validator(mode="after")
    def _pair(self) -> SslSettings:
        if (self.cert is None) != (self.key is None):
            lacking, other = ("key", "cert") if self.key is None else ("cert", "key")
            raise unfit(f"be given together with `{other}`", key=lacking, found="is missing")
        return self


class LoginSettings(Settings):
    """The password of an account, and TLS. A password is in no repr, dump or error."""

    #: environment variable or file that holds the password; neither, and no command: the password is empty
    password_env: str | None = None
    password_file: AnchoredPath | None = None
    #: program and arguments, run without a shell, whose first line is the password; None: no command
    password_command: Annotated[tuple[Text, ...], Field(strict=False, min_length=1)] | None = None
    #: how long the command may take
    password_timeout_s: Seconds = 10.0
    #: how long what the command printed, or the file holds, is used again; 0: it is read for each connection.
    #: None: of a command as 0, and a file is read once, with the settings
    password_lifetime_s: Annotated[float, Field(ge=0)] | None = None
    #: whether the server may ask for the password in clear text
    clear_password: bool = False
    #: None: the connection is not encrypted
    ssl: SslSettings | None = None

    _password: SecretStr = PrivateAttr(default=SecretStr(""))

    @model_validator(mode="after")
    def _read_password(self, info: ValidationInfo) -> LoginSettings:
        command = self.password_command
        if command is not None:
            for name in ("password_env", "password_file"):
                if getattr(self, name) is not None:
                    raise unfit(
                        "be the only source of the password",
                        key="password_command",
                        found=f"`{name}` is given too",
                    )
            if "/" in command[0] and not Path(command[0]).is_absolute():
                raise unfit(
                    "begin with the full path of a program, or one that PATH has",
                    key="password_command",
                    found=f"begins with '{command[0]}'",
                )
        elif "password_timeout_s" in self.model_fields_set:
            raise unfit(
                "be given only with `password_command`", key="password_timeout_s", found="that is missing"
            )
        if self.password_lifetime_s is not None and command is None and self.password_file is None:
            raise unfit(
                "be given only with `password_command` or `password_file`",
                key="password_lifetime_s",
                found="both are missing",
            )
        password = read_secret(Owner.SOURCE, "password", self.password_env, self.password_file, info)
        self._password = SecretStr("") if password is None else password
        return self

    @model_validator(mode="after")
    def _shows_it_to_the_right_server(self) -> LoginSettings:
        key = "clear_password" if self.clear_password else None
        if self.renews_password:
            key = "password_command" if self.password_command is not None else "password_lifetime_s"
        if key is not None and (self.ssl is None or not self.ssl.verify):
            found = "`ssl` is missing" if self.ssl is None else "`ssl.verify` is false"
            raise unfit("be given only with `ssl` that verifies the server", key=key, found=found)
        return self

    @property
    def renews_password(self) -> bool:
        """Whether the password is read when a connection is opened, and not with the settings."""
        return self.password_command is not None or self.password_lifetime_s is not None

    @property
    def password(self) -> SecretStr:
        """The password as it was read with the settings; empty if none is configured."""
        return self._password
