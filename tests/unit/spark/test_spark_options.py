"""docs/spark.md names every option of the source, with the default that it has."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path

from canal_group.spark.options import _READ, Options

TEXT = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()


def test_every_option_is_explained_with_its_default():
    explained = dict(re.findall(r"^\| `([a-z]\w+)` \|([^|]*)\|", TEXT, re.MULTILINE))
    assert explained.keys() == {option for option, _ in _READ.values()}
    for field in fields(Options):
        option, _ = _READ[field.name]
        default = explained[option].strip().strip("`")
        if isinstance(field.default, bool):
            assert default == str(field.default).lower()
        elif isinstance(field.default, int | float):
            assert float(default) == field.default
        elif field.default is MISSING and field.name != "format":
            assert default == "required"
