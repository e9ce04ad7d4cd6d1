"""A run whose output may be larger than what a Result holds: checked as it comes, in constant memory. Host process.

Called by casework.py for problems with such an output limit. A package's own validator gets the output when the run is over, so
for it the output goes to a file without a name meanwhile.
"""

from __future__ import annotations

import contextlib
import select
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from sandbox_native.judge.attempt import HEAD_BYTES, End, Terms
from sandbox_native.judge.opinions import ACCEPTED, Check, Compared, Opinion
from sandbox_native.judge.values import Case
from sandbox_native.limits import Overflow
from sandbox_native.process import Process
from sandbox_native.result import Result
from sandbox_native.sandbox import Sandbox

_BUFFER_BYTES: Final = 1 << 20
_BLOCK: Final = 64 << 10
_LOOK_MS: Final = 1000  # for the host's own deadline, should init not keep its


@dataclass(frozen=True, kw_only=True, slots=True)
class Flowed:
    """A run that is over. `total`: bytes that it wrote; `head`, `errors`: the first of them, and of those to stderr."""

    result: Result
    end: End
    opinion: Opinion
    head: bytes
    errors: bytes
    total: int


class _Counted:
    """The guest's stdout for a checker. What is past the limit, of both streams together, ends the run."""

    def __init__(self, process: Process, most: int) -> None:
        self._process, self._most = process, most
        self._poller = select.poll()
        self._poller.register(process.fileno(), select.POLLIN)
        self.total = self.errors_total = 0
        self.head = self.errors = b""

    def overflowed(self) -> bool:
        return self.total + self.errors_total > self._most

    def read(self, size: int, /) -> bytes:
        while not self.overflowed():
            data = self._process.stdout.read_nowait(size)
            errors = self._process.stderr.read_nowait(_BLOCK) or b""
            self.total, self.head = self.total + len(data or b""), _longer(self.head, data or b"")
            self.errors_total, self.errors = self.errors_total + len(errors), _longer(self.errors, errors)
            if self.overflowed():
                self._process.kill()
            if data is not None:
                return data
            if not errors:
                self._poller.poll(_LOOK_MS)
        return b""

    def drain(self) -> None:
        """What the checker did not want to see any more: it counts all the same."""
        while self.read(_BLOCK):
            pass

    def write_to(self, file: IO[bytes]) -> None:
        while data := self.read(_BLOCK):
            file.write(data)


def flow(sandbox: Sandbox, terms: Terms, case: Case, stdin: bytes | Path, check: Check) -> Flowed:
    """Errors as of `Sandbox.spawn`; OSError when there is no room for the file."""
    limits = replace(terms.limits, on_overflow=Overflow.TRUNCATE, stdout_bytes=_BUFFER_BYTES, stderr_bytes=_BUFFER_BYTES)
    process = sandbox.spawn(terms.argv(case), stdin=stdin, limits=limits, env=terms.program.env, files=terms.placed(case))
    with process, _file(check) as file:
        output = _Counted(process, terms.output_bytes)
        found = ACCEPTED
        if file is not None:
            output.write_to(file)
        else:
            assert isinstance(check, Compared)
            found = check.stream(case, output)
        output.drain()
        result = process.wait()
        errors = output.errors + result.stderr[: HEAD_BYTES - len(output.errors)]
        late = output.total + max(output.errors_total, result.stderr_total) > terms.output_bytes
        end = terms.end(result, overflowed=output.overflowed() or late)
        if file is not None and end.verdict is None:
            file.seek(0)
            found = check(case, file)
        return Flowed(result=result, end=end, opinion=found, head=output.head, total=output.total, errors=errors)


def _longer(head: bytes, data: bytes) -> bytes:
    return head + data[: HEAD_BYTES - len(head)]


@contextlib.contextmanager
def _file(check: Check) -> Iterator[IO[bytes] | None]:
    if isinstance(check, Compared):
        yield None
        return
    with tempfile.TemporaryFile() as file:
        yield file
