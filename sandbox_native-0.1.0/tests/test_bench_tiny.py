"""The bench's smallest program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandbox_native.bench.tiny import tiny_elf, write_tiny


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_static_program_is_an_elf_of_its_machine(machine: str) -> None:
    program = tiny_elf(machine)
    assert program[:4] == b"\x7fELF" and len(program) < 256
    assert int.from_bytes(program[18:20], "little") == {"x86_64": 62, "aarch64": 183}[machine]


def test_the_static_program_ends_with_zero(tmp_path: Path) -> None:
    program = write_tiny(str(tmp_path))
    assert subprocess.run([program], check=False).returncode == 0
    assert os.stat(program).st_mode & 0o777 == 0o755
