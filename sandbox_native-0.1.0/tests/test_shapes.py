"""Where calls keep their paths (csrc/launcher/shapes.c): every call that is asked about for its path has a line there."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import bpf
import pytest

from sandbox_native import syscalls

ROOT = Path(__file__).parent.parent
NUMBERS = bpf.built_numbers()

pytestmark = pytest.mark.needs("cc")


class Place(ctypes.Structure):
    _fields_ = (("text", ctypes.c_int8), ("at", ctypes.c_int8), ("need", ctypes.c_uint8))


class Shape(ctypes.Structure):
    _fields_ = (
        *(("nr", ctypes.c_int32), ("path", Place * 2), ("word", ctypes.c_int8)),
        *(("keys", ctypes.c_uint8), ("address", ctypes.c_bool)),
    )


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Shape]:
    library = tmp_path_factory.mktemp("shapes") / "shapes.so"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{ROOT / 'csrc'}"]
    subprocess.run(["cc", *flags, str(ROOT / "csrc/launcher/shapes.c"), "-o", str(library)], check=True)
    shape_of = ctypes.CDLL(str(library)).shape_of
    shape_of.restype = ctypes.POINTER(Shape)
    found = {name: shape_of(number) for name, number in NUMBERS.items()}
    return {name: pointer.contents for name, pointer in found.items() if pointer}


def places(shape: Shape) -> list[tuple[int, int]]:
    return [(place.text, place.at) for place in shape.path if place.text >= 0]


def test_every_call_with_a_path_has_its_place(shapes: dict[str, Shape]) -> None:
    for name in set(syscalls.WITH_PATHS) & set(NUMBERS):
        assert places(shapes[name]), name
        assert any(place.need for place in shapes[name].path), name


def test_every_call_that_is_looked_at_for_its_path_is_asked_about(shapes: dict[str, Shape]) -> None:
    looked_at = {name for name, shape in shapes.items() if any(place.need for place in shape.path)}
    assert looked_at == set(syscalls.WITH_PATHS) & set(NUMBERS)


@pytest.mark.parametrize(
    "name,expected",
    [
        ("openat", [(1, 0)]),
        ("execve", [(0, -1)]),
        ("symlinkat", [(2, 1)]),
        ("renameat2", [(1, 0), (3, 2)]),
        ("linkat", [(1, 0), (3, 2)]),
        ("mount", [(1, -1), (0, -2)]),
        ("connect", [(1, -1)]),
        ("socket", []),
    ],
)
def test_places_are_the_kernels(shapes: dict[str, Shape], name: str, expected: list[tuple[int, int]]) -> None:
    assert places(shapes[name]) == expected


def test_no_call_has_two_lines(shapes: dict[str, Shape]) -> None:
    assert all(NUMBERS[name] == shape.nr for name, shape in shapes.items())
