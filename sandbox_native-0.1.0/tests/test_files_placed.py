"""`files=` in a real box: whatever their sizes, names and number."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from running import sh

from sandbox_native import Limits, Sandbox

pytestmark = pytest.mark.needs("userns")


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.mark.parametrize("name", ["p", "main.py"])
def test_a_file_of_any_size_arrives_whole(sandbox: Sandbox, name: str) -> None:
    for size in (*range(17), 30, 100_006, 100_014):
        data = b"x" * size
        result = sandbox.run(["/bin/cat", name], files={name: data})
        assert (size, result.ok, result.stdout) == (size, True, data)


def test_many_files_of_all_sizes_arrive_whole(sandbox: Sandbox) -> None:
    files = {f"d{n % 7}/{'n' * (n % 9 + 1)}{n}": bytes([n % 251]) * n for n in range(200)}
    result = sandbox.run(sh("find . -type f | wc -l"), files=files, collect=["**"])
    assert (result.text.strip(), result.files) == ("200", files)


@pytest.mark.parametrize("number", [3, 4, 5, 10])
def test_few_descriptors_are_the_guests_own_affair(sandbox: Sandbox, number: int) -> None:
    result = sandbox.run(["/bin/sh", "-c", "ulimit -n"], limits=Limits(open_files=number))
    small = b"error while loading shared libraries" in result.stderr
    assert small or (result.ok and int(result.text) == number)
