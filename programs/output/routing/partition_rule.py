"""Partition rules: which columns' values choose the partition of a table's changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from canal_group.merge.errors import ConfigError
from canal_group.programs.output.routing.name_rule import NameRule

#: stands for the columns of the primary key
_PRIMARY_KEY = "$pk$"


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """An expression of `partition_hash` and what it hashes.

    `table`: the table's name. `table:$pk$`: the primary key's columns. `table:a^b`: these columns.
    """

    names: NameRule
    #: the columns; None: the primary key's; empty: no column, but the table's name
    columns: tuple[str, ...] | None

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the rule that a text says.

        Raises:
            ConfigError: it has an empty part, or no regular expression where one has to be.
        """
        expression, colon, names = (part.strip() for part in text.rpartition(":"))
        if not colon:
            return cls(NameRule(names, "partition_hash"), ())
        columns = tuple(part.strip() for part in names.split("^") if part.strip())
        if not expression or not columns:
            raise ConfigError(
                f"{text!r} in partition_hash has an empty part.",
                hint=r"Expected shop\.orders:id^buyer, shop\.orders:$pk$, or shop\.orders to hash the name.",
                setting="partition_hash",
            )
        key = None if names.lower() == _PRIMARY_KEY else columns
        return cls(NameRule(expression, "partition_hash"), key)


@dataclass(frozen=True, slots=True)
class CountRule:
    """An expression of `dynamic_topic_partitions`: how many partitions topics have."""

    names: NameRule
    count: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the rule that a text says.

        Raises:
            ConfigError: it is not `topic:number`.
        """
        expression, _, number = (part.strip() for part in text.rpartition(":"))
        if not expression or not number.isdecimal() or not int(number):
            raise ConfigError(
                f"{text!r} in dynamic_topic_partitions is not a topic and its number of partitions.",
                hint="Expected shop_orders:6, or a regular expression on topics: shop_.*:6.",
                setting="dynamic_topic_partitions",
            )
        return cls(NameRule(expression, "dynamic_topic_partitions"), int(number))
