"""The codec and the line between the two boxes of function-style grading: what crosses, what does not, and what is refused."""

from __future__ import annotations

import math
import os
from collections import Counter, OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native.judge.functions.inside.changes import apply_changes, copies, put_changes, take_changes
from sandbox_native.judge.functions.inside.codec import DEPTH, Decoder, Encoder, Malformed, NotPlain, packed, unpacked
from sandbox_native.judge.functions.inside.wire import Broken, Line

MOST = 1 << 20
hashable = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
values = st.recursive(
    hashable | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=4)
        | st.tuples(inner)
    ),
    max_leaves=20,
)


def told(value: Any) -> str:
    """A text that differs where values or their types do."""
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(told, value))})"
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}({', '.join(sorted(map(told, value)))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{told(key)}: {told(item)}' for key, item in value.items())})"
    return repr(value)


@given(values)
def test_what_is_plain_comes_back_as_it_was(value: Any) -> None:
    assert told(unpacked(packed(value, MOST))) == told(value)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_value_are_malformed_and_nothing_else(data: bytes) -> None:
    try:
        unpacked(data)
    except Malformed:
        pass


@given(values, st.integers(0, 50), st.integers(1, 255))
def test_a_changed_byte_is_a_value_or_malformed(value: Any, at: int, change: int) -> None:
    data = bytearray(packed(value, MOST))
    data[at % len(data)] ^= change
    try:
        unpacked(bytes(data))
    except Malformed:
        pass


DERIVED: list[tuple[Any, Any]] = [
    (OrderedDict(a=1), {"a": 1}),
    (Counter("aab"), {"a": 2, "b": 1}),
    (namedtuple("Point", "x y")(1, 2), (1, 2)),
    (type("Int", (int,), {"__index__": lambda self: 9, "__eq__": lambda self, other: True})(7), 7),
    (type("Str", (str,), {"encode": lambda self: b"no", "__str__": lambda self: "no"})("yes"), "yes"),
    (type("Real", (float,), {"__float__": lambda self: 0.0})(2.5), 2.5),
    (type("List", (list,), {"__iter__": lambda self: iter(()), "__len__": lambda self: 0})([1]), [1]),
]


@pytest.mark.parametrize("at", range(len(DERIVED)))
def test_an_instance_of_a_derived_class_crosses_as_the_plain_value_that_it_holds(at: int) -> None:
    value, plain = DERIVED[at]
    got = unpacked(packed(value, MOST))
    assert type(got) is type(plain) and got == plain


def test_zero_keeps_its_sign_and_nan_is_nan() -> None:
    assert math.copysign(1, unpacked(packed(-0.0, MOST))) == -1
    assert math.isnan(unpacked(packed(math.nan, MOST)))


@pytest.mark.parametrize("value", [object(), iter(()), len, type, ..., range(3), bytearray(b""), {1: object()}])
def test_what_is_not_plain_is_refused_by_its_type(value: Any) -> None:
    with pytest.raises(NotPlain, match="only plain values cross"):
        packed(value, MOST)


def test_depth_and_size_are_bounded_on_both_sides() -> None:
    deep: list[Any] = []
    for _ in range(DEPTH - 1):
        deep = [deep]
    assert unpacked(packed(deep, MOST)) == deep
    with pytest.raises(NotPlain, match="100 deep"):
        packed([deep], MOST)
    with pytest.raises(Malformed, match="100 deep"):
        unpacked(b"t\1\0\0\0" * (DEPTH + 1) + b"N")
    with pytest.raises(NotPlain, match="1048576 bytes"):
        packed("x" * (MOST + 1), MOST)
    with pytest.raises(NotPlain, match="1048576 bytes"):
        packed([1] * MOST, MOST)
    with pytest.raises(Malformed, match="cut short"):
        unpacked(b"l" + b"\xff" * 4)


def test_one_object_twice_is_one_on_the_other_side_also_in_itself() -> None:
    row = [0]
    grid = unpacked(packed([row, row], MOST))
    assert grid[0] is grid[1]
    loop: list[Any] = []
    loop.append(loop)
    got = unpacked(packed(loop, MOST))
    assert got[0] is got


def test_what_a_call_changes_in_its_arguments_is_told_and_nothing_else_is() -> None:
    kept, rows, table, seen = [1], [[0], [0]], {"a": 1}, {1}
    question = Encoder(MOST)
    question.put((kept, rows, table, seen))
    there = Decoder(bytes(question.data))
    args = there.take()
    before = copies(there.objects)
    args[1][0].append(5)
    args[1].reverse()
    args[2].clear()
    args[3].add(2)
    answer = Encoder(MOST, there.objects)
    answer.put(args[1])
    put_changes(answer, before)
    here = Decoder(bytes(answer.data), known=question.objects)
    result = here.take()
    apply_changes(take_changes(here, question.objects))
    assert here.done and result is rows
    assert (kept, rows, table, seen) == ([1], [[0], [0, 5]], {}, {1, 2})


def test_content_of_another_kind_is_malformed() -> None:
    answer = Encoder(MOST)
    answer.number(1)
    answer.number(0)
    answer.content({1})
    with pytest.raises(Malformed, match="another kind"):
        take_changes(Decoder(bytes(answer.data)), [[1]])


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"", "gone"),
        (b"\1\0", "gone"),
        (b"\xff\xff\xff\xff", "more than 100 bytes at once"),
        (b"\1\0\0\0ab", "more than was asked for"),
    ],
)
def test_what_is_no_message_breaks_the_line(written: bytes, said: str) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, written)
        os.close(writing)
        with pytest.raises(Broken, match=said):
            Line(reading, -1, 100).receive()
    finally:
        os.close(reading)


def test_a_message_to_nobody_breaks_the_line() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with pytest.raises(Broken, match="gone"):
            Line(-1, writing, 100).send(b"x")
    finally:
        os.close(writing)
