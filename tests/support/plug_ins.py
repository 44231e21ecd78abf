"""Packages with plug-ins, as pip leaves them in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def put_package(
    folder: Path, name: str, entry_points: Mapping[str, Mapping[str, str]], **modules: str
) -> None:
    """Install a package into a folder.

    Args:
        folder: of packages.
        name: of the package.
        entry_points: group -> name -> module.
        modules: module -> its text.
    """
    described = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    text = ""
    for group, entries in entry_points.items():
        text += f"[{group}]\n" + "".join(f"{entry} = {module}\n" for entry, module in entries.items())
    (described / "entry_points.txt").write_text(text)
    for module, code in modules.items():
        (folder / f"{module}.py").write_text(code)
