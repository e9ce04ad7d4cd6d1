"""Hosts with hardly a descriptor left: errors are ours, nothing stays behind, and the next run is whole."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hosttrees import kept, opened
from overlays import Layers
from running import sh

from sandbox_native import Policy, Sandbox, SetupError, Writes, recover
from sandbox_native.commit import place
from sandbox_native.commit.listing import Listing
from sandbox_native.commit.removal import remove_tree


@contextmanager
def free_descriptors(number: int) -> Iterator[None]:
    """So many, and no more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = max(map(int, os.listdir("/proc/self/fd"))) + 1 + number
    holes = []
    try:
        while (fd := os.open("/dev/null", os.O_RDONLY)) < room - number:
            holes.append(fd)
        os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (room, limits[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in holes:
            os.close(fd)


@pytest.mark.kernel
@pytest.mark.needs("userns", "workspace", "changes", "opaque")
@pytest.mark.parametrize("fields", [{}, {"writes": Writes.COMMIT}, {"writes": Writes.COMMIT, "changes": "disk"}])
def test_a_run_is_whole_or_an_error_of_ours(w: Path, fields: dict[str, object]) -> None:
    script = sh("echo $$ > x; mkdir -p d/e; echo $$ > d/e/f")
    failed = whole = 0
    with Sandbox(Policy.strict(**fields)) as sandbox:  # type: ignore[arg-type]
        sandbox.run(script, workspace=w)
        while whole < 3:
            try:
                with free_descriptors(failed + whole):
                    assert sandbox.run(script, workspace=w).ok
                whole += 1
            except SetupError:
                failed, whole = failed + whole + 1, 0
            assert sandbox.run(script, workspace=w).ok
            assert os.listdir(w.parent) == ["w"] and not kept(w)
    assert failed > 5


def test_what_a_commit_staged_is_remembered_until_it_could_be_removed(tmp_path: Path) -> None:
    layers = Layers.beneath(tmp_path)
    layers.write("d/e/file", "1")
    failed = 0
    while True:
        try:
            with layers.overlay() as overlay, free_descriptors(failed):
                overlay.commit(Listing())
            break
        except SetupError as error:
            failed += 1
            assert "descriptors" in error.hint
        recover(layers.lower)
        assert set(os.listdir(tmp_path)) == {"host", "changes"} and not kept(layers.lower)
    assert failed > 5 and (layers.lower / "d/e/file").exists()


@pytest.mark.parametrize("number", range(4))
def test_a_tree_that_could_not_be_removed_is_removed_later(tmp_path: Path, number: int) -> None:
    (tmp_path / "tree/a/b").mkdir(parents=True)
    (tmp_path / "tree/a/file").touch()
    with opened(tmp_path) as above:
        with free_descriptors(number):
            done = remove_tree(above, "tree")
        assert done is not (tmp_path / "tree").exists()
        assert remove_tree(above, "tree") and os.listdir(tmp_path) == []


def test_a_staging_directory_is_forgotten_only_when_it_is_gone(w: Path) -> None:
    with opened(w) as root, place.locked(root) as locked:
        place.make(locked).close()
        with free_descriptors(1):
            assert locked.remove_left()
        assert len(locked.kept.names(place.NAME)) == 1 and len(os.listdir(w.parent)) == 2
        assert locked.remove_left() and not locked.remove_left()
    assert os.listdir(w.parent) == ["w"]
