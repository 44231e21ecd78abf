"""What `serve` says before the slow part of its start, which is to import and to start Ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: as if Ray took for ever to import
CODE = """
import sys
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "ray":
            sys.exit("ray is imported")
sys.meta_path.insert(0, Slow())
sys.argv = ["canal-group", "serve", "-c", {file!r}]
from canal_group.programs.console_script import main
main()
"""


def test_serve_says_what_it_reads_and_waits_for_before_ray_is_imported(tmp_path: Path):
    file = tmp_path / "shop.yaml"
    file.write_text(
        "preset: memory\ndestination: shop\nshards: [{name: s0, host: 127.0.0.1, port: 1, user: canal}]\n"
    )
    code = CODE.format(file=str(file))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    first, second, last = done.stderr.splitlines()
    assert first.endswith(f": reads {file}")
    assert second.endswith(": waits for Ray: it starts on this machine")
    assert last == "ray is imported"
