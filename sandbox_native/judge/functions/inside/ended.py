"""How a test ended, as a value, and what an exception says of it. Pure; in the examiner's box, and in one process with the
program."""

from __future__ import annotations

from typing import NamedTuple

TEXT = 1000  # characters of a message


class Ended(NamedTuple):
    """`kind`: passed, assertion, error (in the test), raised (by the program), not_loaded, skipped, unused (the program was not
    called), bad_test (whatever the program does), or that of a Fault."""

    kind: str
    text: str = ""


def ended_by(error: BaseException) -> Ended:
    text = text_of(error)
    line = getattr(error, "of_program", None)
    if line is not None:
        where = f" (line {line} of the program)" if line else ""
        return Ended("raised", text + where)
    return Ended("assertion" if isinstance(error, AssertionError) else "error", text + _place_in_test(error))


def text_of(error: BaseException) -> str:
    try:
        text = str(error)[:TEXT]
    except Exception as other:  # an answer's repr may be too long to make
        text = f"({other})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place_in_test(error: BaseException) -> str:
    found, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "test":
            found = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {found} of the test)" if found else ""
