"""Name rules: which names an expression of canal's topic and partition rules is for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Self

from canal_group.merge.errors import ConfigError
from canal_group.merge.rows.pattern import PatternList
from canal_group.merge.rows.pattern_syntax import PatternSyntax
from canal_group.merge.rows.table_filter import refused

#: what stands before the first colon of a rule is a topic if it looks like one: `(?:a|b)` has a colon as well
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
#: an expression without any of these is a name
_SPECIAL = frozenset("*?+|(){}[]\\$^")


@dataclass(frozen=True, slots=True)
class NameRule:
    """One expression: a name, or a regular expression on the whole name; either in any case.

    Raises:
        ConfigError: it is not a valid regular expression; it names the setting.
    """

    text: str
    #: the setting that it comes from
    setting: str
    _patterns: PatternList | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            patterns = None if self.is_name else PatternList([self.text])
        except PatternSyntax as error:
            raise refused(self.text, self.setting, error) from None
        object.__setattr__(self, "_patterns", patterns)

    @property
    def is_name(self) -> bool:
        """Whether it is a name, and no regular expression."""
        return not _SPECIAL & set(self.text)

    def matches(self, name: str) -> bool:
        """Return whether the expression is for a name."""
        if self._patterns is None:
            return self.text.lower() == name.lower()
        return self._patterns.matches(name)


@dataclass(frozen=True, slots=True)
class TopicRule:
    """An expression of `dynamic_topic`: for tables, or for all tables of a schema.

    A name is for whichever it equals. A regular expression is for tables if it has an escaped dot.
    """

    #: the topic that the rule names; empty: the topic is called as the table or schema
    topic: str
    names: NameRule

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the rule `expression`, or `topic:expression`.

        Raises:
            ConfigError: it has nothing after the topic, or no regular expression where one has to be.
        """
        topic, colon, expression = (part.strip() for part in text.partition(":"))
        if not colon or not _TOPIC.fullmatch(topic):
            return cls("", NameRule(text, "dynamic_topic"))
        if not expression:
            raise ConfigError(
                f"{text!r} in dynamic_topic has nothing after the topic.",
                hint=r"Expected an expression, or a topic and an expression: orders:shop\.orders_\d+.",
                setting="dynamic_topic",
            )
        return cls(topic, NameRule(expression, "dynamic_topic"))

    def matches(self, name: str, *, is_table: bool) -> bool:
        """Return whether the rule is for a table's full name, or for a schema's name."""
        if not self.names.is_name and ("\\." in self.names.text) != is_table:
            return False
        return self.names.matches(name)


def split_rules(text: str) -> list[str]:
    """Return the rules of a setting, which commas and semicolons separate."""
    return [rule.strip() for rule in re.split("[,;]", text) if rule.strip()]
