"""Connection settings: login and TLS of the connection to a broker, which outputs share."""

from __future__ import annotations

from pydantic import PrivateAttr, SecretStr, ValidationInfo, model_validator

from canal_group.conf.secret import Owner, read_secret
from canal_group.conf.value import AnchoredPath, Settings, Text, unfit


class ConnectionSettings(Settings):
    """How a broker knows us, and we know it. The password appears in no repr, dump or error."""

    #: login; None: none
    username: Text | None = None
    #: environment variable or file with the password
    password_env: str | None = None
    password_file: AnchoredPath | None = None
    #: authorities that may have signed the broker's certificate; None: no TLS
    ca: AnchoredPath | None = None
    #: our certificate and its key, if the broker asks for one
    cert: AnchoredPath | None = None
    key: AnchoredPath | None = None

    _password: SecretStr | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _login(self, info: ValidationInfo) -> ConnectionSettings:
        self._password = read_secret(Owner.OUTPUT, "password", self.password_env, self.password_file, info)
        if (self.username is None) != (self._password is None):
            missing = "username" if self.username is None else "password_file"
            raise unfit("be given together with the login's other part", key=missing, found="is missing")
        return self

    @model_validator(mode="after")
    def _certificate(self) -> ConnectionSettings:
        if (self.cert is None) != (self.key is None):
            lacking, other = ("key", "cert") if self.key is None else ("cert", "key")
            raise unfit(f"be given together with `{other}`", key=lacking, found="is missing")
        if self.cert is not None and self.ca is None:
            raise unfit("be given together with `cert`: it turns on TLS", key="ca", found="is missing")
        return self

    @property
    def password(self) -> str | None:
        """The login's password."""
        return None if self._password is None else self._password.get_secret_value()
