"""The Sandboxes that a judge keeps."""

from __future__ import annotations

import pytest

from sandbox_native import Policy, PolicyError
from sandbox_native.judge import boxes as module
from sandbox_native.judge.boxes import Boxes


def test_equal_policies_share_a_sandbox_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    first, second, third = (Policy.strict(hostname=name) for name in ("a", "b", "c"))
    with Boxes() as boxes:
        kept = boxes.of(first)
        assert boxes.of(Policy.strict(hostname="a")) is kept
        other = boxes.of(second)
        assert boxes.of(first) is kept  # used since
        boxes.of(third)
        assert boxes.of(first) is kept
        assert boxes.of(second) is not other


def test_closed_it_gives_none_and_has_ended_all() -> None:
    boxes = Boxes()
    sandbox = boxes.of(Policy.strict())
    boxes.close()
    boxes.close()
    for use in (lambda: boxes.of(Policy.strict()), lambda: sandbox.run(["/bin/true"])):
        with pytest.raises(PolicyError, match="closed"):
            use()
