"""Runs under `Writes.COMMIT` that fail: before they begin, where a commit could not be written down, or in their commit."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosttrees import kept
from running import sh

from sandbox_native import Policy, Sandbox, SetupError, Writes, notes
from sandbox_native.commit.overlay import Overlay

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns", "workspace", "changes", "opaque")]


@pytest.fixture(params=["memory", "disk"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox(Policy.strict(writes=Writes.COMMIT, changes=request.param)) as made:
        yield made


@pytest.mark.parametrize("commit", [True, False])
def test_changes_that_no_result_has_are_given_back_at_once(
    sandbox: Sandbox, w: Path, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    """Also while somebody keeps the error, with all that its traceback holds."""

    def refuse(*given: object) -> None:
        raise SetupError("commit", errno.ENOSPC, str(w))

    sandbox.run(sh("echo 1 > file"), workspace=w)
    with monkeypatch.context() as patch, pytest.raises(SetupError) as error:
        patch.setattr(Overlay, "commit" if commit else "look", refuse)
        open_before = len(os.listdir("/proc/self/fd"))
        sandbox.run(sh("echo 2 > file"), workspace=w, commit=commit)
    assert os.listdir(w.parent) == ["w"] and not kept(w)
    assert len(os.listdir("/proc/self/fd")) == open_before and error.value.errno == errno.ENOSPC


def test_a_run_whose_commit_could_not_be_written_down_does_not_begin(
    sandbox: Sandbox, w: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(root: int) -> None:
        raise SetupError("state", errno.ENOSPC)

    monkeypatch.setattr(notes, "rehearse", full)
    with pytest.raises(SetupError, match="state failed"):
        sandbox.run(sh("echo 1 > file"), workspace=w)
    assert sandbox.run(sh("echo 1 > file")).ok and os.listdir(w) == [] and os.listdir(w.parent) == ["w"]


def test_a_private_workspace_has_no_changes_on_disk() -> None:
    with Sandbox(Policy.strict(writes=Writes.COMMIT, changes="disk", explain=True)) as sandbox:
        assert sandbox.run(["true"]).ok
