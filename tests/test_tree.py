"""The guest's processes by the host's numbers."""

from __future__ import annotations

import builtins
import os
from pathlib import Path
from typing import Any

import pytest
from boxes import PATIENCE, until
from running import nap, sh

from sandbox_native import Sandbox
from sandbox_native.backends import tree


def names(pids: list[int]) -> list[str]:
    return [Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids]


def test_pids_are_the_guests_tree_and_nobody_else() -> None:
    with Sandbox() as box, box.spawn(sh(f"sleep {nap(71)} & (sleep {nap(72)}; :)"), stdin=b"") as process:
        until(lambda: names(process.pids()) == ["sh", "sleep", "sh", "sleep"], PATIENCE, "the tree")
        process.kill()
        process.wait()
        assert process.pids() == []


def test_a_kernel_without_lists_of_children_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: Any, *args: Any, **options: Any) -> Any:
        if str(path).endswith("/children"):
            raise FileNotFoundError(path)
        return builtins.open(path, *args, **options)

    exists = os.path.exists
    monkeypatch.setattr(tree, "open", opened, raising=False)
    monkeypatch.setattr(os.path, "exists", lambda path: exists(path) and not str(path).endswith("/children"))
    with Sandbox() as box, box.spawn(sh(f"sleep {nap(73)} & wait"), stdin=b"") as process:
        until(lambda: names(process.pids()) == ["sh", "sleep"], PATIENCE, "the tree")
