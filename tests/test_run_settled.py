"""What becomes of a run with direct writes that could not be settled, or whose Result nobody got."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boxes
import pytest
from hosttrees import kept, make, opened
from running import sh
from test_run_checks import checks, needs_box

from sandbox_native import Policy, Sandbox, SetupError, notes, recover, run_checks
from sandbox_native.quarantine import quarantine
from sandbox_native.workspace import Workspace, open_workspace

pytestmark = pytest.mark.kernel


@pytest.fixture
def workspace(w: Path) -> Iterator[Workspace]:
    opened = open_workspace(str(w))
    yield opened
    opened.close()


@contextmanager
def few_descriptors() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_what_could_not_be_settled_can_be_and_stays_written_down(w: Path, workspace: Workspace, tmp_path: Path) -> None:
    make(tmp_path, "root/")
    one = checks(writable=[(tmp_path / "root", "/mnt/root")])
    before = one.begin(workspace)
    make(w, ".bashrc")
    make(tmp_path, "root/.bashrc")
    with few_descriptors(), pytest.raises(SetupError, match=f"quarantine failed on '{w}'"):
        before.settle()
    assert {denial.name for denial in before.settle()} == {"/workspace/.bashrc", "/mnt/root/.bashrc"}
    before.close()
    assert not kept(w) and not kept(tmp_path / "root")


def test_only_the_notes_of_what_was_settled_go(w: Path, workspace: Workspace, tmp_path: Path) -> None:
    make(tmp_path, "root/")
    one = checks(writable=[(tmp_path / "root", "/mnt/root")])
    before = one.begin(workspace)
    make(w, ".bashrc")
    make(tmp_path, "root/.bashrc")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_checks, "quarantine", refused_at(w))
        for _ in range(2):
            with pytest.raises(SetupError):
                before.settle()
            patch.setattr(run_checks, "quarantine", refused_at(w, tmp_path / "root"))
        before.close()
    assert kept(w) and not kept(tmp_path / "root")
    assert not (tmp_path / "root/.bashrc").exists()
    again = one.begin(None)
    assert [denial.name for denial in again.tell()] == ["/mnt/root/.bashrc"]  # which no Result told
    again.close()
    assert [denial.name for denial in recover(w).denials] == ["/workspace/.bashrc"]


def refused_at(path: Path, done: Path | None = None) -> Callable[..., Any]:
    """`done`: is not to be settled again."""

    def refused(fd: int, *given: Any, **options: Any) -> Any:
        assert done is None or not os.path.samestat(os.fstat(fd), done.stat())
        if os.path.samestat(os.fstat(fd), path.stat()):
            raise SetupError("quarantine", errno.EMFILE, str(path))
        return quarantine(fd, *given, **options)

    return refused


@needs_box
def test_a_run_that_was_not_settled_is_an_error_each_time_and_no_result(w: Path) -> None:
    with Sandbox() as sandbox, sandbox.spawn(sh("touch .bashrc ready; cat"), workspace=w) as process:
        boxes.until((w / "ready").exists, boxes.PATIENCE, "the guest's work")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_checks, "quarantine", refused_at(w))
            process.stdin.close()
            for _ in range(2):
                with pytest.raises(SetupError, match="quarantine failed"):
                    process.wait()
        assert [denial.name for denial in sandbox.run(sh("true"), workspace=w).denials] == ["/workspace/.bashrc"]
    assert not (w / ".bashrc").exists() and not kept(w)


@needs_box
def test_a_run_that_nobody_waits_for_is_settled_too(w: Path) -> None:
    with Sandbox() as sandbox, sandbox.spawn(sh("touch .bashrc ready; cat"), workspace=w):
        boxes.until((w / "ready").exists, boxes.PATIENCE, "the guest's work")
    assert os.listdir(w) == ["ready"] and not kept(w)


@pytest.mark.needs("userns", "idmap")
def test_what_a_host_left_is_told_though_the_plan_has_to_be_made_anew(w: Path, tmp_path: Path) -> None:
    with opened(w) as fd:
        notes.write(fd, frozenset([".bashrc"]), {}).close()
    make(w, ".bashrc")
    with Sandbox(Policy.strict(writable=[(w, "/mnt/w")])) as sandbox:  # settled where the plan is made
        with opened(w) as fd:
            notes.write(fd, frozenset([".profile"]), {}).close()
        make(w, ".profile", ".npmrc")  # what is protected changes too
        told = [denial.name for denial in sandbox.run(sh("true")).denials]
        assert told == ["/mnt/w/.bashrc", "/mnt/w/.profile"]
        assert sandbox.run(sh("true")).denials == ()
