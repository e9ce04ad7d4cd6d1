"""What options cost: a host directory as workspace, changes kept apart and committed, explained refusals, a root of one program.

The base of the ratios is a plain strict run of the same program.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from sandbox_native import Limits, Policy, Sandbox, Writes
from sandbox_native.bench.boxes import boxed
from sandbox_native.bench.measure import Action, Entry, Row, rows, take_turns

TRUE: Final = "what options cost, /bin/true"
WRITES: Final = "what a commit costs"
STRICT: Final = "strict"
_TRUE: Final = ("/bin/true",)
_LIMITS: Final = Limits(wall_seconds=60)
_MANY: Final = 100
_SCRIPT: Final = "i=0; while [ $i -lt $1 ]; do echo x > f$i; i=$((i + 1)); done"


@contextmanager
def _workspace() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="sandbox-native-bench-") as folder:
        yield folder


def _empty(folder: str) -> None:
    """To write over a file that is there costs an ext4 a flush."""
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))


def _shown(sandbox: Sandbox, command: tuple[str, ...], folder: str) -> Action:
    def run() -> None:
        result = sandbox.run(command, workspace=folder)
        if not result.ok:
            raise RuntimeError(f"{command[0]} ended as {result.status}: {result.stderr[-500:]!r}")

    return run


def measure_options(*, rounds: int) -> list[Row]:
    """/bin/true, which writes nothing."""
    with ExitStack() as stack:
        folder = stack.enter_context(_workspace())

        def box(policy: Policy) -> Sandbox:
            return stack.enter_context(Sandbox(policy, _LIMITS, prepared=2))

        strict, commit = box(Policy.strict()), box(Policy.strict(writes=Writes.COMMIT))
        explain, minimal = box(Policy.strict(explain=True)), box(Policy.minimal_for(_TRUE[0]))
        actions: dict[str, Action] = {
            STRICT: lambda: boxed(strict, _TRUE),
            "with a workspace of the host": _shown(strict, _TRUE, folder),
            "with one whose changes are committed": _shown(commit, _TRUE, folder),
            "with explain": lambda: boxed(explain, _TRUE),
            "minimal_for(/bin/true)": lambda: boxed(minimal, _TRUE),
        }
        return rows(TRUE, take_turns(actions, rounds=rounds, burst=5), base=STRICT)


def measure_commits(*, rounds: int) -> list[Row]:
    """A shell that writes one file, and a hundred: into the private workspace, into the host's, and by a commit."""
    taken: list[Row] = []
    with ExitStack() as stack:
        strict = stack.enter_context(Sandbox(Policy.strict(), _LIMITS, prepared=2))
        commit = stack.enter_context(Sandbox(Policy.strict(writes=Writes.COMMIT), _LIMITS, prepared=2))
        for count in (1, _MANY):
            command = ("/bin/sh", "-c", _SCRIPT, "sh", str(count))
            direct, kept = stack.enter_context(_workspace()), stack.enter_context(_workspace())
            entries: dict[str, Action | Entry] = {
                STRICT: Entry(run=partial(boxed, strict, command)),
                "direct": Entry(run=_shown(strict, command, direct), before=partial(_empty, direct)),
                "commit": Entry(run=_shown(commit, command, kept), before=partial(_empty, kept)),
            }
            taken += rows(f"{WRITES}, {count} file{'' if count == 1 else 's'}", take_turns(entries, rounds=rounds), base=STRICT)
            if len(os.listdir(kept)) != count:
                raise RuntimeError(f"{len(os.listdir(kept))} of {count} files were committed")
    return taken
