"""What `stdin=` may be, and what is said of everything else."""

from __future__ import annotations

import gc
import io
import os
from pathlib import Path

import pytest

from sandbox_native import PolicyError, Sandbox
from sandbox_native.stdin import Input, open_source


def test_a_text_that_names_no_file_is_told_how_to_be_one() -> None:
    for text in ("1 + 1\n", "x" * 5000, "a\0b"):
        with pytest.raises(PolicyError) as caught:
            open_source(text)
        assert "text? use .encode()" in str(caught.value)
    with pytest.raises(PolicyError) as caught:
        open_source(Path("/nowhere"))
    assert "encode" not in str(caught.value)


@pytest.mark.parametrize("value", [io.BytesIO(b"x"), io.StringIO("x"), True, 1.5], ids=repr)
def test_what_has_no_descriptor_is_refused(value: Input) -> None:
    with pytest.raises(PolicyError, match="give None, bytes, a path"):
        open_source(value)


def test_a_closed_file_is_refused(tmp_path: Path) -> None:
    with open(os.devnull, "rb") as file:
        pass
    with pytest.raises(PolicyError, match="no descriptor"):
        open_source(file)


def test_an_open_file_stays_the_callers() -> None:
    with open(os.devnull, "rb") as file:
        source = open_source(file)
        source.close()
        assert source.fd == file.fileno() and os.fstat(file.fileno())


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_an_open_file_is_relayed_also_when_the_caller_forgets_it(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"from a file")
    with Sandbox() as sandbox:
        with open(tmp_path / "in", "rb") as file:
            assert sandbox.run(["/bin/cat"], stdin=file).stdout == b"from a file"
        with sandbox.spawn(["/bin/cat"], stdin=_Forgotten(tmp_path / "in")) as process:
            gc.collect()
            assert process.wait().stdout == b"from a file"


class _Forgotten:
    """Closes its descriptor when nobody knows it any more, as an open file does (which would warn)."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._fd

    def __del__(self) -> None:
        os.close(self._fd)
