"""Asks a database of known faults about the versions in constraints.txt.

Exit status 1: a fault is known. Where no database is reached, it says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
#: pip-audit has its own environment: what it needs is nothing of ours
VENV = ROOT / ".cache" / "audit"
PIP_AUDIT = "2.10.1"
#: how long a database has to answer about everything, seconds
TIMEOUT_S = 180


@dataclass(frozen=True)
class Version:
    """A version of a package."""

    name: str
    #: each as "PYSEC-..., mended in ..."; None: no database knows the package
    faults: tuple[str, ...] | None

    @classmethod
    def of(cls, told: dict[str, Any]) -> Self:
        """Return pip-audit's findings of a version."""
        if "vulns" not in told:
            return cls(str(told["name"]), None)
        faults = (
            f"{fault['id']}, mended in {', '.join(fault['fix_versions']) or 'no version'}"
            for fault in told["vulns"]
        )
        return cls(f"{told['name']} {told['version']}", tuple(faults))


def main(home: Path = VENV) -> int:
    """Ask, and tell what is known; `home` is the environment that has pip-audit, or is to have it."""
    try:
        versions = asked(installed(home))
    except (OSError, subprocess.SubprocessError) as error:
        print(f"audit: pip-audit cannot be installed or run ({error}). {by_hand()}")
        return 0
    known = [one for one in versions if one.faults is not None]
    faults = [f"{one.name} has {fault}" for one in known for fault in one.faults or ()]
    for fault in faults:
        print(f"audit: {fault}")
    if not known:
        print(f"audit: no database of known faults was reached. {by_hand()}")
    else:
        print(f"audit: {len(faults)} known faults in {len(known)} of {len(versions)} versions")
    return 1 if faults else 0


def installed(home: Path) -> Path:
    """Return pip-audit, installed."""
    program = home / "bin" / "pip-audit"
    if not program.exists():
        venv.create(home, with_pip=True)
        pip = [home / "bin" / "pip", "install", "--quiet", f"pip-audit=={PIP_AUDIT}"]
        subprocess.run(pip, check=True, capture_output=True, timeout=TIMEOUT_S)
    return program


def asked(program: Path) -> list[Version]:
    """Return the findings of each version; nothing, if what pip-audit prints is not understood."""
    options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    command = [program, "--requirement", ROOT / "constraints.txt", *options]
    told = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    try:
        return [Version.of(one) for one in json.loads(told.stdout)["dependencies"]]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return []


def by_hand() -> str:
    """Return the hint for a missing database."""
    return "docs/security.md says which dependencies to look up by hand."


if __name__ == "__main__":
    sys.exit(main())
