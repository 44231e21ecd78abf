"""The benchmarks' command line.

A benchmark is a module of this package with `measure(size: float) -> dict[str, Any]`. Size 1.0 takes at most
three minutes on two processors. The result can be written as a JSON object. A benchmark that can also measure
MySQL servers takes an `engine` as well.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import pkgutil
import sys
from typing import Any

import benchmarks
from canal_group.conf.stream_settings import PACES_S
from canal_group.malloc_tuning import tune_malloc
from playground.database.engine import Engine


def names() -> list[str]:
    """Return the names of all benchmarks: the modules without an underscore."""
    modules = pkgutil.iter_modules(benchmarks.__path__)
    return sorted(each.name for each in modules if not each.name.startswith("_") and not each.ispkg)


def main() -> None:
    """Run the chosen benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    parser.add_argument("name", choices=[*names(), "all"], help="which one")
    parser.add_argument(
        "--size", type=float, default=1.0, help="amount of work, as a multiple of the default"
    )
    parser.add_argument(
        "--engine",
        choices=[*Engine],
        default=Engine.MARIADB,
        help="kind of the database servers (parse, metadata, group)",
    )
    parser.add_argument(
        "--profile", action="store_true", help="where the processor time goes, by step (latency)"
    )
    parser.add_argument("--rate", type=int, help="transactions a second (latency)")
    parser.add_argument("--pace", choices=PACES_S, help="the instance's merge.latency (latency, group)")
    parser.add_argument("--json", action="store_true", help="the result as one line of JSON")
    options = parser.parse_args()
    tune_malloc()  # as in the actors, because this process is measured with them
    selection = names() if options.name == "all" else [options.name]
    results = {}
    for name in selection:
        measure = importlib.import_module(f"benchmarks.{name}").measure
        keywords: dict[str, Any] = {}
        if options.engine != Engine.MARIADB:
            if "engine" not in inspect.signature(measure).parameters:
                parser.error(f"{name} measures MariaDB only")
            keywords["engine"] = Engine(options.engine)
        for option in ("profile", "rate", "pace"):
            value = getattr(options, option)
            if value:
                if option not in inspect.signature(measure).parameters:
                    parser.error(f"{name} has no --{option}")
                keywords[option] = value
        print(f"{name}: measuring", file=sys.stderr, flush=True)
        results[name] = measure(options.size, **keywords)
    result = results if options.name == "all" else results[options.name]
    print(json.dumps(result, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
