"""The interpreter of Spark's Python workers where they run on this machine: ours, or another one that fits.

Spark takes PYSPARK_PYTHON, or else `python3`, which is often another interpreter than that of a virtual
environment. Its workers then fail one after the other, with tracebacks of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Final

from pyspark import SparkContext

from canal_group.merge.errors import ConfigError

_VARIABLE: Final = "PYSPARK_PYTHON"
#: what workers import besides what Spark brings them
_NEEDED: Final = ("canal_group", "numpy", "pyarrow")
#: prints an interpreter's version, and what it lacks; runs on any Python 3
_ASK: Final = (
    "import importlib.util as u, json, sys; "
    f"print(json.dumps(['%d.%d' % sys.version_info[:2], [n for n in {_NEEDED!r} if u.find_spec(n) is None]]))"
)
#: how long an interpreter may take to answer, seconds
_ANSWER_S: Final = 30.0


def choose_interpreter() -> None:
    """Let the workers of a local Spark use this interpreter; check the one that PYSPARK_PYTHON names.

    It does nothing on a cluster, whose machines have paths of their own, and where no Spark runs in this
    process, as in the workers themselves.

    Raises:
        ConfigError: the interpreter of PYSPARK_PYTHON does not run, has another version, or lacks a package.
    """
    context: Any = SparkContext._active_spark_context  # noqa: SLF001 - the public way starts one
    if context is None or not context.master.startswith("local"):
        return
    if _VARIABLE not in os.environ:
        context.pythonExec = sys.executable
    elif context.pythonExec != sys.executable:
        _check(context.pythonExec)


def _check(program: str) -> None:
    hint = f"Unset {_VARIABLE}, or set it to {sys.executable}."
    try:
        done = subprocess.run(  # noqa: S603 - Spark runs it next
            [program, "-c", _ASK], capture_output=True, timeout=_ANSWER_S, check=True
        )
        version, missing = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ConfigError(f"Spark's workers cannot run {program}: {error}.", hint=hint) from error
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version != ours:
        raise ConfigError(f"Spark's workers run {program}, Python {version}, the driver {ours}.", hint=hint)
    if missing:
        raise ConfigError(f"Spark's workers run {program}, which lacks {', '.join(missing)}.", hint=hint)
