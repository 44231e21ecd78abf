"""Object store: files of an archive in what pyarrow.fs reaches: S3 and its like, or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from canal_group.binlog.archive.forms.readable import Readable
from canal_group.merge.errors import ConfigError, CorruptEvent, RetryableError, UsageError
from canal_group.merge.file_name import file_name

#: bytes that are uploaded at a time
_PART_BYTES: Final = 8 << 20
#: what a file's name ends in while it is not whole
_PART: Final = ".part"


class ObjectStore:
    """Keeps files under names that carry an epoch, so that no name is given twice.

    Args:
        uri: a URI such as `s3://bucket/prefix`, or a folder.

    Raises:
        ConfigError: it is neither.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        try:
            where = uri if "://" in uri else Path(uri).absolute().as_uri()
            self._files, self._root = fs.FileSystem.from_uri(where)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ConfigError(
                f"{uri} is not an object store: {error}.", hint="Expected s3://bucket/prefix, or a folder."
            ) from error

    def put(self, name: str, file: Path) -> None:
        """Keep a file, whole; one of the same name and length is taken for the same."""
        path, size = self._path(name), file.stat().st_size
        try:
            there = self._files.get_file_info(path)
            if there.type is not fs.FileType.NotFound:
                if there.size == size and self._same(path, file):
                    return
                raise UsageError(f"{self._uri} has another {name}.", hint="Names are never given twice.")
            if self._files.type_name == "local":
                self._files.create_dir(path.rpartition("/")[0], recursive=True)
            # Under its own name only when it is whole: a store of objects shows none before it is closed.
            written = f"{path}{_PART}" if self._files.type_name == "local" else path
            with file.open("rb") as source, self._files.open_output_stream(written) as target:
                while data := source.read(_PART_BYTES):
                    target.write(data)
            if written != path:
                self._files.move(written, path)
            if self._files.get_file_info(path).size != size or not self._same(path, file):
                raise RetryableError(f"{self._uri} has not kept all of {name}.")
        except OSError as error:
            raise self._failed(name, error) from error

    def open(self, name: str) -> Readable:
        """Return a file that is kept, to read parts of it."""
        path = self._path(name)
        try:
            if self._files.get_file_info(path).type is fs.FileType.NotFound:
                raise CorruptEvent(f"{self._uri} does not have {name}, which was moved to it.", file=name)
            return _StoredFile(self._files.open_input_file(path))
        except OSError as error:
            raise self._failed(name, error) from error

    def names(self, begin: str) -> list[str]:
        """Return the names of kept files that begin so, sorted."""
        folder, _, file = begin.rpartition("/")
        names = self._listed(folder, fs.FileType.File)
        return [f"{folder}/{name}" for name in names if name.startswith(file) and not name.endswith(_PART)]

    def folders(self, begin: str) -> list[str]:
        """Return the folders of kept files whose names begin so, sorted."""
        return [name for name in self._listed("", fs.FileType.Directory) if name.startswith(begin)]

    def _listed(self, folder: str, kind: fs.FileType) -> list[str]:
        path = self._path(folder).removesuffix("/")
        try:
            there = self._files.get_file_info(fs.FileSelector(path, allow_not_found=True))
        except OSError as error:
            raise self._failed(folder or "its folders", error) from error
        return sorted(each.base_name for each in there if each.type is kind)

    def remove(self, name: str) -> None:
        """Remove a file, if it is kept."""
        try:
            if self._files.get_file_info(self._path(name)).type is not fs.FileType.NotFound:
                self._files.delete_file(self._path(name))
        except OSError as error:
            raise self._failed(name, error) from error

    def _same(self, path: str, file: Path) -> bool:
        with file.open("rb") as source, self._files.open_input_stream(path) as kept:
            while data := source.read(_PART_BYTES):
                if kept.read(len(data)) != data:
                    return False
        return True

    def _path(self, name: str) -> str:
        """Return the path of a file or folder; raises UsageError if its name could lead out of the store."""
        path = "/".join(map(file_name, name.split("/"))) if name else ""
        return f"{self._root}/{path}" if self._root else path

    def _failed(self, name: str, error: OSError) -> RetryableError:
        return RetryableError(f"{self._uri} does not answer for {name}: {error}.", retry_after_s=5.0)


class _StoredFile:
    def __init__(self, file: Any) -> None:
        self._file = file
        self.size: int = file.size()

    def read_at(self, offset: int, size: int) -> bytes:
        data: bytes = self._file.read_at(size, offset)
        return data

    def close(self) -> None:
        self._file.close()
