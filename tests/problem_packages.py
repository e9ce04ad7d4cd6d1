"""Small problem packages for tests: the ones in tests/data/problems, and ones made on the spot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PROBLEMS = Path(__file__).parent / "data" / "problems"

LEAST: Mapping[str, str] = {
    "problem.yaml": "name: Small\n",
    "data/secret/1.in": "1\n",
    "data/secret/1.ans": "1\n",
    "submissions/accepted/echo.py": "print(input())\n",
}
CURRENT = "problem_format_version: 2025-09\nname: Small\n"


def package(place: Path, files: Mapping[str, str | bytes | None] | None = None) -> Path:
    """A package in `place`/small: the least one that is good, changed by `files` (None: without that file)."""
    root = place / "small"
    for name, content in {**LEAST, **(files or {})}.items():
        if content is None:
            continue
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root
