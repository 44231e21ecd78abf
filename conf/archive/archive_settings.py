"""Archive settings: the durable copy of the sources' binlogs, and what it may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from canal_group.conf.value import AnchoredPath, Count, Settings, Text, unfit


def _always(value: Any) -> Any:
    """Return 0 for `always`: each sync is due at once."""
    return 0 if value == "always" else value


def _anchored(value: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder")
    return value if "://" in value or folder is None else str(Path(folder) / value)


#: a part of a disk
Part: TypeAlias = Annotated[float, Field(gt=0, le=1)]


class ArchiveSettings(Settings):
    """Where the archive is, how soon it is durable, and what goes when it is full; see docs/archiving.md."""

    #: folder of it on each machine that reads sources
    folder: AnchoredPath
    #: longest time between two syncs while events arrive; 0: all that has arrived at once is synced at once
    sync_s: Annotated[float, BeforeValidator(_always), Field(ge=0)] = 1.0
    #: bytes on the disk; beyond them the oldest files go, to `store` if there is one
    bytes_max: Count = 100 << 30
    #: how long a file stays after its last transaction; None: as long as `bytes_max` lets it
    hours: Annotated[float, Field(gt=0)] | None = 168.0
    #: parts of the disk that are used, by whatever, when nothing more is written, and when it goes on
    disk_high: Part = 0.9
    disk_low: Part = 0.85
    #: keys of the archive's encryption; None: not encrypted
    key_file: AnchoredPath | None = None
    #: whether columns with masks may be in it without encryption
    clear_text: bool = False
    #: where closed files go beyond `bytes_max`: `s3://bucket/prefix`, or a folder; None: they are removed
    store: Annotated[Text, AfterValidator(_anchored)] | None = None

    @model_validator(mode="after")
    def _goes_on_below(self) -> ArchiveSettings:
        if self.disk_low >= self.disk_high:
            raise unfit(
                f"be less than disk_high ({self.disk_high:g})",
                key="disk_low",
                found=f"is {self.disk_low:g}",
            )
        return self

    @property
    def in_clear(self) -> bool:
        """Whether every column is in it in clear, also those that filters mask."""
        return self.key_file is None


def _off(value: Any) -> Any:
    """Return None for `off`, which YAML reads as false unless it is quoted."""
    return None if value is False or value == "off" else value


#: an instance's archive; None: the instance writes no archive
Archiving: TypeAlias = Annotated[ArchiveSettings | None, BeforeValidator(_off)]
