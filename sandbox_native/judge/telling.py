"""The one line of many that tells a person what went wrong: of what a compiler said, and of what a program wrote before it died.
Pure; used by judging.py and summary.py.
"""

from __future__ import annotations

import re
from typing import Final

_ERROR: Final = re.compile(r"error", re.IGNORECASE)
_PYTHON: Final = "Traceback (most recent call last):"
# How run-times begin the line with which they give up; what follows it is where.
_GIVES_UP: Final = re.compile(
    r"Exception in thread|Uncaught |panic: |fatal error: |thread '.*' panicked|terminate called|.*: Assertion .* failed"
    r"|.*runtime error|(?:[\w$.:]+\.)?[A-Z]\w*(?:Error|Exception)\b"
)


def of_compiler(said: str) -> str:
    """The first line with the word error in it, else the first one; empty when it said nothing."""
    lines = _lines(said)
    return next((line for line in lines if _ERROR.search(line)), next((line for line in lines if line[0] != "#"), ""))


def of_crash(written: str) -> str:
    """Where a run-time tells why it gives up: of Python the end of the last traceback, of others the first line that begins so;
    else the last line. Empty when nothing was written."""
    lines = _lines(written)
    if _PYTHON in lines:
        behind = lines[len(lines) - lines[::-1].index(_PYTHON) :]
        return next((line for line in behind if not line[0].isspace()), lines[-1])
    return next((line for line in lines if _GIVES_UP.match(line)), lines[-1] if lines else "")


def _lines(text: str) -> list[str]:
    """Those with something in them."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]
