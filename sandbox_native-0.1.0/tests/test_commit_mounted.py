"""Commits of what real overlays hold: afterwards the host has what the guest saw. Random trees and deeds."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from overlays import Layers, in_a_namespace, mounted, paths, refused, snapshot, tmpfs

pytestmark = [pytest.mark.kernel, pytest.mark.needs("overlay", "opaque")]


def _operations(random: random.Random) -> Iterator[Callable[[Path], object]]:
    def path(top: Path) -> Path:
        return top.joinpath(*(random.choice("abc") for _ in range(random.randint(1, 3))))

    yield lambda top: path(top).write_text(random.choice(("", "same", "other" * 100)))
    yield lambda top: path(top).mkdir()
    yield lambda top: shutil.rmtree(path(top))
    yield lambda top: path(top).unlink()
    yield lambda top: path(top).chmod(random.choice((0o600, 0o644, 0o755)))
    yield lambda top: os.rename(path(top), path(top))
    yield lambda top: shutil.move(path(top), path(top))
    yield lambda top: os.link(path(top), path(top))
    yield lambda top: os.symlink(random.choice(("a", "b/c", "nowhere")), path(top))
    yield lambda top: os.truncate(path(top), random.randint(0, 9000))
    yield lambda top: os.utime(path(top), ns=(1, random.randint(1, 10**18)))


def _play(top: Path, chance: random.Random, times: int) -> None:
    operations = list(_operations(chance))
    for _ in range(times):
        try:
            chance.choice(operations)(top)
        except (OSError, shutil.Error):
            pass


@pytest.mark.parametrize("seed", range(3))
def test_after_a_commit_the_host_has_what_the_guest_saw(tmp_path: Path, seed: int) -> None:
    def one(number: int) -> None:
        layers = Layers.beneath(tmp_path / str(number))
        chance = random.Random(f"{seed} {number}")
        _play(layers.lower, chance, 40)
        with mounted(layers, tmp_path / str(number) / "merged") as merged:
            _play(merged, chance, 40)
            seen = snapshot(merged)
        listing = layers.commit()
        found = snapshot(layers.lower)
        assert not refused(listing), (number, refused(listing))
        assert _without_times(found) == _without_times(seen), (number, paths(listing))
        again = Layers(layers.lower, layers.upper).look()
        assert paths(again) == {"added": [], "modified": [], "deleted": []}, (number, paths(again))

    def all_of_them() -> None:
        tmpfs(tmp_path)
        for number in range(10):
            (tmp_path / str(number)).mkdir()
            one(number)

    in_a_namespace(all_of_them)


def _without_times(found: dict[str, object]) -> dict[str, object]:
    """Of files: one that the guest only touched keeps the time that the host has. Links among names that did not change are the
    host's, so groups may differ."""
    return {name: facts[:2] for name, facts in found.items()}  # type: ignore[index]


def test_files_go_from_memory_to_disk(tmp_path: Path) -> None:
    """Between file systems, a large file and links with it."""

    def work() -> None:
        tmpfs(tmp_path / "memory")
        layers = Layers(tmp_path / "host", tmp_path / "memory" / "upper")
        for path in (layers.lower, layers.upper):
            path.mkdir()
        layers.host("big", "old")
        with mounted(layers, tmp_path / "merged") as merged:
            (merged / "big").write_bytes(os.urandom(1 << 20) * 70)
            os.link(merged / "big", merged / "second")
            seen = snapshot(merged)
        layers.commit()
        assert _without_times(snapshot(layers.lower)) == _without_times(seen)
        assert (layers.lower / "big").stat().st_nlink == 2

    in_a_namespace(work)
