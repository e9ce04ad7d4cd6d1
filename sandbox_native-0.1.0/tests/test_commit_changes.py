"""`Changes`: the caller's say, whom it belongs to, and what it holds until then."""

from __future__ import annotations

import gc
import json
import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import scope
from overlays import Layers

from sandbox_native import SandboxError, SetupError
from sandbox_native.commit.changes import Changes
from sandbox_native.commit.listing import Change


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    made = Layers.beneath(tmp_path)
    made.host("modified", "old")
    made.host("deleted", "12345")
    made.write("modified", "new")
    made.write("dir/added", "1")
    made.write(".git/hooks/pre-commit", "evil")
    made.remove("deleted")
    return made


class Pending:
    """Changes of one overlay, and how often they were released."""

    def __init__(self, layers: Layers) -> None:
        self._stack = ExitStack()
        self.released = 0
        overlay = self._stack.enter_context(layers.overlay())
        self.changes = Changes([overlay], self._release)
        self.changes.look()

    def _release(self) -> None:
        self.released += 1
        self._stack.close()


@pytest.fixture
def pending(layers: Layers) -> Iterator[Pending]:
    made = Pending(layers)
    yield made
    if hasattr(made, "changes"):
        made.changes.discard()


def test_the_lists_are_there_before_anything_is_decided(pending: Pending, layers: Layers) -> None:
    changes = pending.changes
    assert changes.state == "pending" and (layers.lower / "modified").read_text() == "old"
    assert changes.added == (
        Change(path=".git", kind="directory"),
        Change(path="dir", kind="directory"),
        Change(path="dir/added", size=1),
    )
    assert changes.modified == (Change(path="modified", size=3),) and changes.deleted == (Change(path="deleted", size=5),)
    assert [denial.name for denial in changes.refused] == ["/workspace/.git/hooks"]


def test_commit_says_what_was_refused_and_ends_it(pending: Pending, layers: Layers) -> None:
    refused = pending.changes.commit()
    assert [denial.name for denial in refused] == ["/workspace/.git/hooks"] and refused == pending.changes.refused
    assert pending.changes.state == "committed" and pending.released == 1
    assert (layers.lower / "dir" / "added").read_text() == "1" and len(pending.changes.added) == 3
    with pytest.raises(SandboxError, match="committed already"):
        pending.changes.commit()
    pending.changes.discard()
    assert pending.changes.state == "committed"


def test_discard_leaves_the_host_as_it_is(pending: Pending, layers: Layers) -> None:
    pending.changes.discard()
    pending.changes.discard()
    assert pending.changes.state == "discarded" and pending.released == 1 and len(pending.changes.added) == 3
    assert sorted(os.listdir(layers.lower)) == ["deleted", "modified"]
    with pytest.raises(SandboxError, match="discarded already"):
        pending.changes.commit()


def test_a_context_discards_what_was_not_committed(pending: Pending) -> None:
    with pending.changes:
        pass
    assert pending.changes.state == "discarded" and pending.released == 1


def test_what_is_forgotten_is_released(pending: Pending) -> None:
    del pending.changes
    gc.collect()
    assert pending.released == 1


def test_a_look_compares_with_the_host_as_it_is_now(pending: Pending, layers: Layers) -> None:
    (layers.lower / "modified").write_text("new")
    (layers.lower / "deleted").unlink()
    pending.changes.look()
    assert pending.changes.modified == pending.changes.deleted == ()


def test_a_pickled_copy_has_the_lists_and_refuses_to_decide(pending: Pending) -> None:
    copy = pickle.loads(pickle.dumps(pending.changes))
    assert (copy.added, copy.modified, copy.deleted, copy.refused, copy.state) == (
        pending.changes.added,
        pending.changes.modified,
        pending.changes.deleted,
        pending.changes.refused,
        "pending",
    )
    for decide in (copy.commit, copy.look):
        with pytest.raises(SandboxError, match="belong to the process that ran the program"):
            decide()
    copy.discard()
    pending.changes.commit()


def test_a_forked_child_cannot_decide(pending: Pending, layers: Layers) -> None:
    def child() -> None:
        with pytest.raises(SandboxError, match="belong to the process"):
            pending.changes.commit()
        pending.changes.discard()

    scope.succeeds(child)
    assert pending.changes.state == "pending"
    pending.changes.commit()
    assert (layers.lower / "modified").read_text() == "new"


def test_of_two_threads_one_commits(pending: Pending) -> None:
    outcomes: list[object] = []

    def commit() -> None:
        try:
            outcomes.append(pending.changes.commit())
        except SandboxError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=commit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(isinstance(outcome, SandboxError) for outcome in outcomes) == [False, True]


def test_what_failed_can_be_committed_again(layers: Layers) -> None:
    """One of two directories cannot be committed to: the other is, and stays so."""
    with layers.overlay() as good, ExitStack() as stack:
        fd = os.open(layers.upper, os.O_RDONLY)
        stack.callback(os.close, fd)
        file = os.open(layers.lower / "modified", os.O_RDONLY)
        broken = type(good)(**{**{name: getattr(good, name) for name in good.__dataclass_fields__}, "target": file})
        changes = Changes([good, broken], lambda: None)
        for _ in range(2):
            with pytest.raises(SetupError) as caught:
                changes.commit()
            assert caught.value.stage == "commit" and caught.value.item == str(layers.lower)
        os.close(file)
        assert changes.state == "pending" and (layers.lower / "dir" / "added").exists()
        changes.discard()


def test_it_can_be_written_as_json_whatever_the_names(layers: Layers) -> None:
    Path(os.fsdecode(bytes(layers.upper) + b"/\xff")).write_text("1")
    pending = Pending(layers)
    text = json.dumps(pending.changes.to_dict(), ensure_ascii=False)
    text.encode()
    assert "\\\\xff" in text and json.loads(text)["state"] == "pending"
    assert repr(pending.changes) == "<Changes: 4 added, 1 modified, 1 deleted, 1 refused, pending>"
    pending.changes.discard()
