"""Expiry: until when the certificates hold that an instance shows to others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from canal_group.conf.server_settings import ZookeeperSettings
from canal_group.conf.settings import InstanceSettings

#: how long before a certificate expires it is told, seconds
TOLD_BEFORE_S: Final = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Expiry:
    """Until when a certificate holds."""

    #: the setting that names its file
    setting: str
    file: Path
    #: seconds since 1970 UTC
    at_s: float
    #: the process whose start reads the file
    reader: str = "instance"

    def has_come(self, now_s: float) -> bool:
        """Return whether it has expired."""
        return now_s >= self.at_s

    def is_near(self, now_s: float) -> bool:
        """Return whether it has expired, or will within thirty days."""
        return now_s >= self.at_s - TOLD_BEFORE_S

    def sentence(self, now_s: float) -> str:
        """Return the sentence that an operator has to read, without its full stop."""
        when = datetime.fromtimestamp(self.at_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
        tells = "has expired" if self.has_come(now_s) else "expires"
        return f"{self.setting}: {self.file} {tells} on {when}. Renew it, and restart the {self.reader}"


def expiries(settings: InstanceSettings) -> list[Expiry]:
    """Return the expiry of each certificate of an instance that can be read; others are checked elsewhere."""
    return [found for setting, file in _certificates(settings) if (found := expiry_of(setting, file))]


def expiry_of(setting: str, file: Path, reader: str = "instance") -> Expiry | None:
    """Return the expiry of the certificate in a file that expires first; None without a certificate."""
    try:
        certificates = x509.load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError):
        return None
    at_s = min(each.not_valid_after_utc.timestamp() for each in certificates)
    return Expiry(setting, file, at_s, reader)


def _certificates(settings: InstanceSettings) -> Iterator[tuple[str, Path]]:
    if settings.gateway.ssl is not None:
        yield "gateway.ssl.cert", settings.gateway.ssl.cert
    if settings.canal is not None and settings.canal.ssl is not None:
        yield "canal.ssl.cert", settings.canal.ssl.cert
    coordination = settings.coordination
    if isinstance(coordination, ZookeeperSettings) and coordination.ssl and coordination.ssl.cert:
        yield "coordination.ssl.cert", coordination.ssl.cert
    for shard in settings.shards:
        if shard.ssl is not None and shard.ssl.cert is not None:
            yield f"ssl.cert of shard {shard.name}", shard.ssl.cert
