"""Path strings: what is refused, what is made of the rest, and what a collect pattern means."""

from __future__ import annotations

import os
import posixpath
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native import paths
from sandbox_native.errors import PolicyError

NAMES = st.text(alphabet="ab.*~\\ é\udcff", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
PARTS = st.lists(NAMES, min_size=1, max_size=5)
MESSY = st.lists(NAMES | st.sampled_from(["", "."]), max_size=6)


def refusal(check: Any, *arguments: object) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        check(*arguments)
    error = caught.value
    assert error.field.startswith("f")
    assert error.value
    assert error.reason
    assert error.remedy
    return error


class TestAbsolute:
    @pytest.mark.parametrize(
        ("given_path", "normal"),
        [
            ("/", "/"),
            ("//", "/"),
            ("/a", "/a"),
            ("/a/", "/a"),
            ("//a", "/a"),
            ("/a//b/./c/", "/a/b/c"),
            ("/.", "/"),
            ("/...", "/..."),
            ("/..a/b..", "/..a/b.."),
            (PurePosixPath("/a/b"), "/a/b"),
            ("/caf\udcff", "/caf\udcff"),
        ],
    )
    def test_slashes_and_dots_are_tidied(self, given_path: object, normal: str) -> None:
        assert paths.absolute("f", given_path) == normal

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            ("", "empty"),
            ("a", "not an absolute path"),
            ("./a", "not an absolute path"),
            (" /a", "not an absolute path"),
            ("C:\\a", "not an absolute path"),
            (PurePosixPath("a"), "not an absolute path"),
            ("/a/../b", "holds '..'"),
            ("/..", "holds '..'"),
            ("/a/..", "holds '..'"),
            ("/a\0b", "holds a NUL byte"),
            ("\0", "holds a NUL byte"),
            ("/\ud800", "cannot be encoded as UTF-8"),
            ("/" + "a" * 256, "a name in it has more than 255 bytes"),
            ("/" + "é" * 128, "a name in it has more than 255 bytes"),
            ("/" + "a/" * 2048, "4097 bytes long"),
            (b"/a", "not a path"),
            (3, "not a path"),
            (None, "not a path"),
            (("/a", "/b"), "not a path"),
        ],
    )
    def test_nonsense_is_refused_by_name(self, value: object, reason: str) -> None:
        assert refusal(paths.absolute, "f", value).reason == reason

    def test_longest_path_and_longest_name_pass(self) -> None:
        longest = "/" + "/".join(["a" * 255] * 15 + ["b" * 254])
        assert len(longest) == 4095
        assert paths.absolute("f", longest) == longest
        assert refusal(paths.absolute, "f", longest + "b").reason == "4096 bytes long"

    def test_a_tilde_gets_a_remedy_of_its_own(self) -> None:
        assert "expanduser" in refusal(paths.absolute, "f", "~/x").remedy
        assert "abspath" in refusal(paths.absolute, "f", "x").remedy

    @given(MESSY)
    def test_the_result_is_normal_and_stays_itself(self, parts: list[str]) -> None:
        path = "/" + "/".join(parts)
        normal = paths.absolute("f", path)
        assert normal == "/" + posixpath.normpath(path).lstrip("/")
        assert paths.absolute("f", normal) == normal
        assert [part for part in parts if part not in ("", ".")] == [part for part in normal.split("/") if part]

    @given(st.text())
    def test_any_text_is_normalised_or_refused(self, text: str) -> None:
        try:
            normal = paths.absolute("f", text)
        except PolicyError:
            return
        assert normal.startswith("/")
        assert ".." not in normal.split("/")
        assert "\0" not in normal
        assert len(os.fsencode(normal)) <= 4095

    @given(parts=PARTS, at=st.integers(0, 5))
    def test_dot_dot_anywhere_is_refused(self, parts: list[str], at: int) -> None:
        parts.insert(at, "..")
        assert refusal(paths.absolute, "f", "/" + "/".join(parts)).reason == "holds '..'"
        assert refusal(paths.relative, "f", "/".join(parts)).reason == "holds '..'"


class TestContains:
    @pytest.mark.parametrize(
        ("outer", "inner", "expected"),
        [
            ("/data/1", "/data/1", True),
            ("/data/1", "/data/1/x", True),
            ("/data/1", "/data/10", False),
            ("/data/10", "/data/1", False),
            ("/data/1", "/data", False),
            ("/", "/", True),
            ("/", "/a", True),
            ("/a", "/", False),
        ],
    )
    def test_is_by_component(self, outer: str, inner: str, expected: bool) -> None:
        assert paths.contains(outer, inner) is expected

    @given(outer=PARTS, inner=PARTS)
    def test_agrees_with_lists_of_components(self, outer: list[str], inner: list[str]) -> None:
        expected = inner[: len(outer)] == outer
        assert paths.contains("/" + "/".join(outer), "/" + "/".join(inner)) is expected

    @given(outer=PARTS, more=PARTS)
    def test_holds_for_what_is_beneath(self, outer: list[str], more: list[str]) -> None:
        assert paths.contains("/" + "/".join(outer), "/" + "/".join(outer + more))


class TestRelative:
    @pytest.mark.parametrize(
        ("value", "normal"), [("a", "a"), ("./a//b", "a/b"), (PurePosixPath("a/b"), "a/b"), ("..a", "..a"), (".a", ".a")]
    )
    def test_names_are_tidied(self, value: object, normal: str) -> None:
        assert paths.relative("f", value) == normal

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            ("", "empty"),
            (".", "names a directory"),
            ("./.", "names a directory"),
            ("a/", "names a directory"),
            ("a/.", "names a directory"),
            ("/a", "an absolute name"),
            ("//a", "an absolute name"),
            ("..", "holds '..'"),
            ("../a", "holds '..'"),
            ("a/../b", "holds '..'"),
            ("a\0", "holds a NUL byte"),
            (b"a", "not a path"),
            (None, "not a path"),
            ("a" * 256, "a name in it has more than 255 bytes"),
        ],
    )
    def test_what_leads_out_or_names_no_file_is_refused(self, value: object, reason: str) -> None:
        assert refusal(paths.relative, "f", value).reason == reason

    @given(st.text())
    def test_what_passes_stays_beneath_any_directory(self, text: str) -> None:
        try:
            name = paths.relative("f", text)
        except PolicyError:
            return
        assert posixpath.normpath(posixpath.join("/w", name)) == "/w/" + name
