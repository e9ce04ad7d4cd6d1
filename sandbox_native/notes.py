"""What was absent when a run with direct writes began, written down for when the host is killed before it can settle. Linux,
host process; called by run_checks.py and showing.py, and by commit/recovery.py for whoever asks.

A note is a claim (claims.py): one whose host is gone is settled like a run that ends, what was absent is moved away. What was
there was a mount point then, and needs nothing. A note without its last byte was never finished, and its host had no guest yet.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping
from typing import Final

from sandbox_native import claims, state
from sandbox_native.claims import Claim
from sandbox_native.denials import Denial
from sandbox_native.environment import WORKSPACE
from sandbox_native.errors import SetupError
from sandbox_native.mandatory import join
from sandbox_native.policy import Policy
from sandbox_native.protection import Protection
from sandbox_native.quarantine import quarantine
from sandbox_native.snapshots import State, UnreadError, look_softly, trie
from sandbox_native.state import Kept

PREFIX: Final = "note-"
_END: Final = b"\n"
_ROOM: Final = 16 << 10  # bytes of a journal with some hundred changes
_TURNED: Final = "a link that leads elsewhere since a run whose host was killed: look at it before you trust it"
_UNREADABLE: Final = "it says what a killed host's guest may have made: look for that in the directory, then remove the file"

UNTOLD: Final[dict[tuple[int, int], tuple[Denial, ...]]] = {}
"""By device and inode, what was settled and stands in no Result yet: the next run with that directory tells it."""


def keep_untold(key: tuple[int, int], found: tuple[Denial, ...]) -> None:
    if found:
        UNTOLD[key] = (*UNTOLD.get(key, ()), *found)


def new() -> Claim:
    """A note that is still to be written."""
    return Claim(PREFIX)


def write(root: int, absent: frozenset[str], before: Mapping[str, State], note: Claim | None = None) -> Claim:
    """Of a run that begins in the directory `root`. SetupError where it cannot be written. `note`: a new one, of a caller who has
    it before it is written, so that an interrupt leaves none that nobody removes."""
    there = {path: [state.kind, state.text] for path, state in before.items() if path not in absent}
    told = {"root": state.identity(root), "absent": sorted(absent), "there": there}
    note = note or new()
    try:
        note.take(root)
        note.write(json.dumps(told).encode("ascii") + _END)
    except BaseException:
        note.remove()
        raise
    return note


def rehearse(root: int) -> None:
    """SetupError where there is no room to write down what a commit to the directory `root` does."""
    note = new()
    try:
        note.take(root)
        note.write(bytes(_ROOM))
    finally:
        note.remove()


def settle(root: int, policy: Policy, inside: str) -> tuple[Denial, ...]:
    """What is left of hosts that are gone. SetupError where a note cannot be read: it stays."""
    kept = state.look(root)
    return () if kept is None else settle_kept(root, kept, policy, inside)[1]


def settle_kept(root: int, kept: Kept, policy: Policy | None = None, inside: str = WORKSPACE) -> tuple[bool, tuple[Denial, ...]]:
    """Whether there were any, whatever policy their hosts had; closes `kept`."""
    found, denials = False, list[Denial]()
    try:
        for name in kept.names(PREFIX):
            with claims.left(kept, name) as file:
                if file >= 0:
                    found = True
                    denials += _settled(root, _read(file, kept.path(name)), policy or Policy.strict(), inside)
                    kept.forget(name)
    finally:
        kept.close()
    return found, tuple(denials)


_Told = tuple[list[int], frozenset[str], dict[str, State]]


def _read(file: int, path: str) -> _Told | None:
    """None for what was never finished. SetupError for what cannot be understood."""
    try:
        with open(file, "rb", closefd=False) as reading:
            data = reading.read()
        if not data.endswith(_END):
            return None
        told = json.loads(data)
        absent = frozenset(map(str, told["absent"]))
        there = {str(path): State(kind, 0, 0, text) for path, (kind, text) in told["there"].items()}
        trie((*absent, *there))
        return told["root"], absent, there
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UnreadError, OSError) as error:
        code = error.errno if isinstance(error, OSError) else None
        raise SetupError("state", code or errno.EINVAL, path, _UNREADABLE) from error


def _settled(root: int, told: _Told | None, policy: Policy, inside: str) -> Iterator[Denial]:
    if told is None or told[0] != state.identity(root):
        return  # of a directory that is gone, whose numbers this one has
    _, absent, there = told
    before: dict[str, State] = {}
    for path, was in there.items():
        now = look_softly(root, path)
        if now is not None and was.kind == "link":
            before[path] = now  # nobody puts a link where a file says so
            if (now.kind, now.text) != (was.kind, was.text):
                yield Denial(kind="quarantine", name=join(inside, path), arguments="", reason=_TURNED)
        elif now is not None:
            before[path] = now if now.kind == was.kind else was
    protection = Protection(names=absent, denied=absent, before=before, guards=(), watched=False)
    yield from quarantine(root, protection, policy, inside=inside)
