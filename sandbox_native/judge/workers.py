"""Judge: many submissions over several workers, their judgements as they come. Host process.

One call of `many` is a batch (batch.py), whose threads borrow the workers (lending.py) and give them back after each submission.
Checking is C code and waiting is without the GIL, so threads are enough, and they share what was compiled.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from types import TracebackType
from typing import Final, Self

from sandbox_native.errors import PolicyError
from sandbox_native.judge.batch import Batch, Judged, OnCase, Work, checked
from sandbox_native.judge.lending import Worker, Workers
from sandbox_native.judge.setup import Options

__all__ = ["Judge", "Judged"]

_MOST_WORKERS: Final = 1024
_DEFAULT: Final = Options()


class Judge:
    """A context manager; safe in threads. `workers`: submissions at once (default: one for each core that this process may
    use); `pinned`: each on a core of its own, where one program runs at a time. `options` as of `judge`.

    PolicyError: a number that makes no sense; `pinned`, and several cases at once, which would share the core.
    """

    def __init__(self, workers: int | None = None, options: Options = _DEFAULT, *, pinned: bool = True) -> None:
        cores = sorted(os.sched_getaffinity(0))
        count = len(cores) if workers is None else workers
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_WORKERS:
            raise PolicyError("not a number of workers", field="workers", value=workers, remedy=f"give 1 to {_MOST_WORKERS}")
        if pinned and options.parallel > 1:
            reason = "a pinned worker has one core, and cases at once would wait for each other there"
            remedy = "leave parallel at 1, since the workers judge submissions at once, or give pinned=False"
            raise PolicyError(reason, field="parallel", value=options.parallel, remedy=remedy)
        self._workers = Workers([Worker(options, cores[at % len(cores)] if pinned else None) for at in range(count)])

    def many(
        self, works: Iterable[Work], *, ordered: bool = False, on_case: OnCase | None = None
    ) -> Generator[Judged, None, None]:
        """Judges all of them, and gives each judgement when it is there (`ordered`: in the order of the input).

        The input is read as there is room: at most 2 submissions for each worker are ahead of what the caller has got, 32 when
        `ordered`. `on_case` is called with the submission's number and each case's result, in a worker's thread; what it raises
        ends the batch. What goes wrong with one submission or problem is its JE, also when this machine lacks a compiler or
        cannot isolate programs. Calls at the same time share the workers.

        KeyboardInterrupt, also one that is thrown in, ends what runs and comes through after what is done was given. An iterator
        that is closed or forgotten ends what runs. `PolicyError`: the Judge is closed, or an item is no pair of a submission and
        a problem, found at once in a sequence and else when it is its turn.
        """
        self._workers.check()
        if isinstance(works, Sequence):
            for number, work in enumerate(works):
                checked(number, work)
        return Batch(self._workers, iter(works), ordered=ordered, on_case=on_case).outcomes()

    def close(self) -> None:
        """Ends what runs. Harmless when repeated."""
        self._workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
