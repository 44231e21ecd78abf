"""The compiled part of the build; everything else stands in pyproject.toml.

    python setup.py build_ext --inplace      compile what has changed, beside its source

CANAL_GROUP_ASAN=1 compiles with the address and undefined-behaviour sanitizers, for `make asan`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError, PlatformError

_ASAN = os.environ.get("CANAL_GROUP_ASAN") == "1"
_FLAGS = (
    [
        "-O1",
        "-g",
        "-fno-omit-frame-pointer",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=undefined",
    ]
    if _ASAN
    else ["-O3", "-g0", "-fwrapv"]
)
#: the packages whose modules are compiled
_NATIVE = (
    "canal_group/binlog/native",
    "canal_group/merge/rows/native",
    "canal_group/merge/values/native",
    "canal_group/programs/output/kafka",
    "canal_group/shapes",
)


class BuildRows(build_ext):
    """Compiles on all processors, and says in one sentence what a machine lacks that cannot compile."""

    def finalize_options(self) -> None:
        """Settle the number of processors."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, ext: Any) -> None:
        """Compile one module."""
        try:
            super().build_extension(ext)
        except (CompileError, LinkError, PlatformError) as error:
            raise CompileError(
                f"{error}\ncanal-group compiles its hot loops: install a C compiler and Python's headers "
                "(Debian and Ubuntu: apt-get install gcc libc6-dev python3-dev)."
            ) from error


setup(
    ext_modules=cythonize(
        [
            Extension(
                f"{package.replace('/', '.')}.{name}",
                [f"{package}/{name}.pyx"],
                depends=sorted(str(each) for folder in _NATIVE for each in Path(folder).glob("*.pxd")),
                extra_compile_args=_FLAGS,
                extra_link_args=["-fsanitize=address,undefined"] if _ASAN else [],
            )
            for package in _NATIVE
            for name in sorted(each.stem for each in Path(package).glob("*.pyx"))
        ],
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
        },
        build_dir="build/asan" if _ASAN else "build",
    ),
    cmdclass={"build_ext": BuildRows},
)
