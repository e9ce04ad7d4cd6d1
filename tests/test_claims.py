"""Files that are locked as long as their host lives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import scope
from hosttrees import kept, opened

from sandbox_native import claims, state
from sandbox_native.own_file import OwnFile


@pytest.fixture
def root(w: Path) -> Iterator[int]:
    with opened(w) as fd:
        yield fd


def test_a_claim_is_left_when_its_host_is_gone(root: int) -> None:
    claim = claims.claim(root, "note-")
    found = state.look(root)
    assert found is not None
    with claims.left(found, claim.name) as file, claims.left(found, "note-2") as other:
        assert (file, other) == (-1, -1)
    claim.write(b"told")
    claim.close()
    with claims.left(found, claim.name) as file:
        assert os.read(file, 100) == b"told"
        with claims.left(found, claim.name) as other:
            assert other == -1  # somebody else settles it
    found.forget(claim.name)
    found.close()
    assert state.look(root) is None


def test_a_forked_child_ends_no_claim_of_its_parents(root: int) -> None:
    claim = claims.claim(root, "note-")
    scope.succeeds(claim.close)
    found = state.look(root)
    assert found is not None
    with claims.left(found, claim.name) as file:
        assert file == -1
    found.close()
    claim.remove()


@pytest.mark.parametrize("removed", [True, False])
def test_one_that_somebody_took_for_left_is_made_by_another_name(
    w: Path, root: int, monkeypatch: pytest.MonkeyPatch, removed: bool
) -> None:
    """Between its opening and its lock; the other removes it a moment later, or has done so."""
    lock, other = OwnFile.lock, OwnFile()

    def later(file: OwnFile) -> bool:
        monkeypatch.undo()
        (path,) = kept(w).values()
        other.open(str(path), os.O_WRONLY)
        assert lock(other)
        if removed:
            path.unlink()
            other.close()
        return lock(file)

    monkeypatch.setattr(OwnFile, "lock", later)
    claim = claims.claim(root, "note-")
    assert claim.name in kept(w) and len(kept(w)) == 2 - removed
    other.close()
    claim.remove()
    for path in kept(w).values():
        path.unlink()


def test_it_is_removed_also_when_its_file_was_closed_before(w: Path, root: int) -> None:
    """As a collector of cycles may do."""
    claim = claims.claim(root, "note-")
    claim._file.close()
    scope.succeeds(claim.remove)
    assert kept(w)
    claim.remove()
    assert not kept(w)
