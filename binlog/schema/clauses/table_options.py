"""Options of a table: none but the engine, the charset and the versioning has a meaning for rows."""

from __future__ import annotations

from canal_group.binlog.schema.clauses.words import Words

#: options that may come without an equals sign
_OPTIONS = {
    "AUTO_INCREMENT",
    "AUTOEXTEND_SIZE",
    "AVG_ROW_LENGTH",
    "CHECKSUM",
    "COMMENT",
    "COMPRESSION",
    "CONNECTION",
    "DELAY_KEY_WRITE",
    "ENCRYPTION",
    "ENGINE_ATTRIBUTE",
    "INSERT_METHOD",
    "KEY_BLOCK_SIZE",
    "MAX_ROWS",
    "MIN_ROWS",
    "PACK_KEYS",
    "PAGE_CHECKSUM",
    "PASSWORD",
    "ROW_FORMAT",
    "SECONDARY_ENGINE",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "SEQUENCE",
    "STATS_AUTO_RECALC",
    "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES",
    "STORAGE",
    "TABLESPACE",
    "TRANSACTIONAL",
    "TYPE",
}
#: options of MariaDB's engines, which come with an equals sign
_ENGINE_OPTIONS = {"ENCRYPTED", "ENCRYPTION_KEY_ID", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL"}
#: other names of engines
_ENGINES = {"HEAP": "MEMORY", "MARIA": "ARIA"}


def read_engine(words: Words) -> str:
    """Read the option ENGINE; return the engine's name in upper case, HEAP as MEMORY and MARIA as ARIA."""
    words.expect("ENGINE")
    words.skip("=")
    name = words.take().text.upper()
    return _ENGINES.get(name, name)


def skip_table_option(words: Words) -> bool:
    """Take an option without a meaning for rows; return whether one came.

    Any name with an equals sign is an option; an unknown one is recorded.
    """
    if words.skip_option(_OPTIONS | _ENGINE_OPTIONS):
        return True
    if words.skip("UNION"):
        words.skip_group()
        return True
    if words.skip("DATA", "DIRECTORY") or words.skip("INDEX", "DIRECTORY"):
        words.skip("=")
    elif not words.skip_any(*_OPTIONS):
        return False
    words.take()
    return True
