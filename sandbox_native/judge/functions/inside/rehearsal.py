"""Goes through a small grading when it is imported, so that an interpreter that is cloned afterwards has done once what every
clone does: code is specialized and caches are filled, in memory that the clones share."""

from __future__ import annotations

import sys
from typing import Any

from .program import NAME, Loaded, Server
from .remote import Remote
from .testing import Tests

_TIMES = 16
_PROGRAM = b"""
from typing import List
LIMIT = 3
class Odd(ValueError):
    pass
def total(numbers: List[int], start=0) -> int:
    if start < 0:
        raise Odd('below zero')
    numbers.append(start)
    return sum(numbers)
def parts(text):
    return {'words': text.split(), 'size': (len(text), 0.5, True, None)}
"""
_TEST = """
METADATA = {}
def check(candidate):
    given = [1, 2]
    assert candidate(given, 3) == 6, 'sum'
    assert given == [1, 2, 3]
    assert parts('a b') == {'words': ['a', 'b'], 'size': (3, 0.5, True, None)}
    try:
        candidate([], start=-1)
    except Odd:
        pass
check(total)
"""


class _Direct:
    """Both ends of a line."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def send(self, message: bytes) -> None:
        self._answer = self._server.answer(message)

    def receive(self) -> bytes:
        return self._answer


def rehearse() -> None:
    line: Any = _Direct(Server(1 << 20, Loaded(_PROGRAM), sys.stdout))
    tests = Tests(Remote(line, 1 << 20), (), None, "")
    for _ in range(_TIMES):
        ended = tests.run(_TEST)
        if ended.kind != "passed":
            raise AssertionError(ended)
    tests.run("assert total([1]) == 2")
    del sys.modules[NAME]


rehearse()
