"""What the tests of WarmPython share."""

from __future__ import annotations

import subprocess
from pathlib import Path

from running import PYTHON

from sandbox_native import Result, Status


def told(result: Result) -> str:
    assert result.status is Status.OK, (result.status, result.signal, result.hint, result.stderr)
    return result.text.strip()


def module(tmp_path: Path, name: str, text: str) -> dict[str, object]:
    """Options of a WarmPython that imports a module of the caller's own."""
    venv = tmp_path / "venv"
    if not venv.exists():
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / f"{name}.py").write_text(text)
    return {"python": venv / "bin/python", "imports": [name]}
