"""Where a validator's box sees inputs and answers."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from sandbox_native.judge.shown import Shown


def test_files_of_the_package_stay_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "1.in").write_bytes(b"x")
    with Shown(tmp_path) as shown:
        inside, made = shown.path(tmp_path / "data" / "1.in")
        if os.geteuid() == 0 and made is not None:  # beneath a directory that is root's alone: a guest has another uid
            assert Path(made).read_bytes() == b"x"
            shown.forget(made)
        else:
            assert (inside, made) == ("/judge/package/data/1.in", None)
            assert (str(tmp_path), "/judge/package") in shown.readable


def test_everything_else_is_put_into_a_directory_that_goes_with_it(tmp_path: Path) -> None:
    (tmp_path / "1.in").write_bytes(b"file")
    (tmp_path / "1.in").chmod(0o600)
    with Shown(None) as shown:
        places = [shown.path(source) for source in (b"bytes", tmp_path / "1.in")]
        hosts = [Path(made) for _, made in places if made is not None]
        assert [host.read_bytes() for host in hosts] == [b"bytes", b"file"]
        assert len({inside for inside, _ in places}) == 2
        shown.forget(*(made for _, made in places), None)
        assert not any(host.exists() for host in hosts)
        ((directory, _),) = shown.readable
        assert os.stat(os.path.dirname(directory)).st_mode & 0o077 == 0  # nobody else of the host gets there
    assert not os.path.exists(directory)
    shown.close()


def test_what_a_killed_judge_left_is_taken_away_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "sandbox-native-judge-other").write_text("no directory of ours")
    with Shown(None) as living:
        child = os.fork()
        if child == 0:
            Shown(None).path(b"an answer")
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        left = {path for path in tmp_path.iterdir() if path.is_dir()}
        assert len(left) == 2
        with Shown(None) as next_one:
            there = {path for path in tmp_path.iterdir() if path.is_dir()}
            assert {Path(shown.readable[0][0]).parent for shown in (living, next_one)} == there
    assert [path.name for path in tmp_path.iterdir()] == ["sandbox-native-judge-other"]
