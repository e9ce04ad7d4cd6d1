"""A box that is lost between its choice and its guest's start costs a run nothing, whichever way that is asked for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lost import Thief

from sandbox_native import Result, Sandbox, SetupError, Status
from sandbox_native.backends.box import LinuxBox

pytestmark = pytest.mark.needs("userns")
Way = Callable[..., Result]


def by_run(box: Sandbox, argv: list[str], **options: Any) -> Result:
    return box.run(argv, **options)


def by_map(box: Sandbox, argv: list[str], **options: Any) -> Result:
    (outcome,) = box.map([{"argv": argv, **options}])
    if isinstance(outcome, Result):
        return outcome
    raise outcome


def by_run_async(box: Sandbox, argv: list[str], **options: Any) -> Result:
    return asyncio.run(box.run_async(argv, **options))


def by_spawn_async(box: Sandbox, argv: list[str], **options: Any) -> Result:
    async def main() -> Result:
        async with await box.spawn_async(argv, **options) as process:
            return await process.wait()

    return asyncio.run(main())


WAYS = pytest.mark.parametrize("way", [by_run, by_map, by_run_async, by_spawn_async])


@pytest.fixture
def thief(monkeypatch: pytest.MonkeyPatch) -> Thief:
    thief = Thief()
    monkeypatch.setattr(LinuxBox, "start", lambda box, request, body: thief.start(box, request, body))
    return thief


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox(prepared=2) as box:
        yield box


@WAYS
def test_another_box_serves(box: Sandbox, thief: Thief, way: Way, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(b"x" * 100_000)
    for stdin in (b"bytes", str(source)):
        thief.left, thief.starts = 2, 0
        result = way(box, ["/usr/bin/wc", "-c"], stdin=stdin)
        assert (result.status, int(result.text), thief.starts) == (Status.OK, 100_000 if stdin == str(source) else 5, 3)


@WAYS
def test_after_three_it_is_an_error(box: Sandbox, thief: Thief, way: Way) -> None:
    thief.left = 1000
    with pytest.raises(SetupError) as caught:
        way(box, ["/bin/true"], stdin=b"")
    assert caught.value.stage == "lost" and thief.starts == 3
    thief.left = 0
    assert way(box, ["/bin/true"], stdin=b"").ok


@WAYS
def test_what_a_descriptor_gave_is_gone(box: Sandbox, thief: Thief, way: Way) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"once")
    os.close(theirs)
    thief.left = 1
    with open(ours, "rb") as source, pytest.raises(SetupError):
        way(box, ["/bin/cat"], stdin=source)
    assert thief.starts == 1
