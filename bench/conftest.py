"""What every scenario needs: the sandboxes, and the static program in a directory that boxes show."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest

from sandbox_native.bench.contenders import Contenders, contenders
from sandbox_native.bench.others import installed
from sandbox_native.bench.tiny import write_tiny


@pytest.fixture(scope="session")
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="sandbox-native-bench-") as path:
        yield path


@pytest.fixture(scope="session")
def tiny(folder: str) -> str:
    return write_tiny(folder)


@pytest.fixture(scope="session")
def boxes(folder: str, tiny: str) -> Iterator[Contenders]:
    with installed(folder) as (tools, _), contenders(folder, tools) as all_of_them:
        yield all_of_them
