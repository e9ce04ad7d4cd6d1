"""Cases one after the other, with the next one's guest at work while the last one's output is compared. Host process; for
judging.py.

No two guests run at once: one is started when the one before it has ended. That is before the groups know whether its case is
still wanted, so it may be in vain; then it is ended. It is not before all that is left is a moment's work of ours: nobody serves
the guest's pipes meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from sandbox_native.errors import SandboxError
from sandbox_native.judge.casework import Casework
from sandbox_native.judge.noise import Watch
from sandbox_native.judge.outcomes import CaseResult
from sandbox_native.judge.values import Case
from sandbox_native.process import Process
from sandbox_native.result import Result


class Begun:
    """A case whose guest was started, if it could be."""

    def __init__(self, casework: Casework, case: Case) -> None:
        self._casework, self.case = casework, case
        self._watch = Watch()
        self._got: Process | Result | SandboxError | OSError | None = None
        with contextlib.suppress(SandboxError, OSError):  # then it is judged as if nobody had tried
            self._got = casework.start(case)

    def wait(self) -> bool:
        """For the end of the guest. Whether the rest is a moment's work."""
        if not isinstance(self._got, Process):
            return False
        try:
            result = self._got = self._casework.result(self.case, self._got)
        except (SandboxError, OSError) as error:
            self._got = error
            return False
        self._watch.end()
        try:
            return self._casework.is_settled(self.case, result)
        except OSError:  # no answer: whoever compares will say so
            return False

    def rated(self) -> CaseResult:
        """When it has ended. Errors as of `Casework`."""
        if isinstance(self._got, Result):
            return self._casework.rated(self.case, self._got, self._watch)
        if isinstance(self._got, Exception):
            raise self._got
        return self._casework(self.case)

    def close(self) -> None:
        """Ends what runs. Harmless when repeated."""
        if isinstance(self._got, Process):
            self._got.close()


def judge_ahead(
    casework: Casework, cases: Iterator[Case], take: Callable[[Begun], bool], is_wanted: Callable[[Case], bool]
) -> None:
    """`take` is given each that has ended, in order, and tells whether it was accepted; if not, `is_wanted` is asked about the
    case that was begun meanwhile."""
    now: Begun | None = None
    following: Begun | None = None
    try:
        while True:
            if now is None:
                now = _begun(casework, cases)
            if now is None:
                return
            if now.wait():
                following = _begun(casework, cases)
            if not take(now) and following is not None and not is_wanted(following.case):
                following.close()
                following = None
            now, following = following, None
    finally:
        for begun in (now, following):
            if begun is not None:
                begun.close()


def _begun(casework: Casework, cases: Iterator[Case]) -> Begun | None:
    case = next(cases, None)
    return None if case is None else Begun(casework, case)
