"""Exceptions of a signal's handler, one run for each place where one can come.

The interpreter looks for signals when a function begins (or a generator goes on), after a call, and where a loop goes round.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

_LOOKS: Final = ("CALL", "RESUME", "JUMP_BACKWARD")


class Interrupt(KeyboardInterrupt):
    """Ours."""


def places(work: Callable[[], object], *modules: ModuleType) -> Iterator[str]:
    """Runs `work` again and again, each time interrupted at the next place in `modules`, until it comes to its end: the place,
    after each time. What else it raises comes through."""
    for number in count(1):
        look = _Look(number, {str(module.__file__) for module in modules})
        before = sys.gettrace()
        sys.settrace(look.trace)
        try:
            work()
        except KeyboardInterrupt as error:
            if not isinstance(error, Interrupt):
                raise
        finally:
            sys.settrace(before)
        if look.left:
            return
        yield look.where


class _Look:
    """Raises at the `left`th look for signals of this thread."""

    def __init__(self, left: int, files: set[str]) -> None:
        self.left, self.where = left, ""
        self._files = files
        self._last: dict[int, int] = {}  # frame, which is not to live longer for that: the instruction before

    def trace(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if not self.left or frame.f_code.co_filename not in self._files or frame.f_code.co_name == "__del__":
            return None  # what is raised in a finalizer is printed and forgotten
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        last = self._last.get(id(frame))
        if event in ("call", "opcode"):
            self._last[id(frame)] = frame.f_lasti
        if event == "opcode" and last in _looks(frame.f_code):
            self.left -= 1
            if not self.left:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"
                raise Interrupt
        return self.trace


@cache
def _looks(code: CodeType) -> frozenset[int]:
    """The offsets after which the interpreter looks."""
    return frozenset(one.offset for one in dis.get_instructions(code) if one.opname.startswith(_LOOKS))
