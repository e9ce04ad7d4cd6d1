"""Lists of paths: what a policy shows, `files` and `collect`."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest

from sandbox_native import paths
from sandbox_native.errors import PolicyError


def refusal(check: Any, *arguments: object) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        check(*arguments)
    error = caught.value
    assert error.field.startswith("f")
    assert error.value
    assert error.reason
    assert error.remedy
    return error


class TestPairs:
    def test_a_path_is_shown_at_the_same_place_and_a_pair_elsewhere(self) -> None:
        specs = ["/b/", PurePosixPath("/a"), ("/c//d", PurePosixPath("/e/."))]
        assert paths.pairs("f", specs) == (("/b", "/b"), ("/a", "/a"), ("/c/d", "/e"))

    def test_any_iterable_is_taken(self) -> None:
        assert paths.pairs("f", (path for path in ["/a"])) == (("/a", "/a"),)
        assert paths.pairs("f", ()) == ()

    def test_one_host_path_can_be_shown_twice(self) -> None:
        assert paths.pairs("f", ["/a", ("/a", "/b")]) == (("/a", "/a"), ("/a", "/b"))

    @pytest.mark.parametrize("again", ["/a", "/a/", ("/b", "/a"), ("/a", "//a")])
    def test_one_place_cannot_show_two(self, again: object) -> None:
        error = refusal(paths.pairs, "f", ["/a", again])
        assert error.reason == "shown twice at /a"
        assert error.field == "f[1]"

    @pytest.mark.parametrize("specs", ["/a", b"/a", PurePosixPath("/a"), {"/a": "/b"}, 3, None])
    def test_what_is_no_list_is_refused(self, specs: object) -> None:
        assert refusal(paths.pairs, "f", specs).reason == "not a list"

    @pytest.mark.parametrize("spec", [("/a",), ("/a", "/b", "/c"), ()])
    def test_a_tuple_of_another_length_is_refused(self, spec: object) -> None:
        assert refusal(paths.pairs, "f", [spec]).reason == "not a path or a pair"

    @pytest.mark.parametrize("spec", ["a", ("a", "/b"), ("/a", "b"), ("/a", "/../b"), ["/a", "/b"], None])
    def test_either_side_is_checked(self, spec: object) -> None:
        assert refusal(paths.pairs, "f", ["/x", spec]).field == "f[1]"

    def test_its_result_is_accepted_again(self) -> None:
        once = paths.pairs("f", ["/a", ("/b", "/c")])
        assert paths.pairs("f", once) == once


class TestFiles:
    def test_names_are_tidied_and_data_becomes_bytes(self) -> None:
        given_files = {"a": b"1", "./d//b": bytearray(b"2"), PurePosixPath("d/c"): memoryview(b"3")}
        found = paths.files(given_files, "f")
        assert found == {"a": b"1", "d/b": b"2", "d/c": b"3"}
        assert all(type(data) is bytes for data in found.values())

    @pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "", ".", "a/", "a\0b", 3, b"a"])
    def test_names_that_lead_out_are_refused(self, name: object) -> None:
        refusal(paths.files, {name: b""}, "f")

    @pytest.mark.parametrize("data", ["text", None, 3, [1, 2]])
    def test_what_is_not_bytes_is_refused(self, data: object) -> None:
        error = refusal(paths.files, {"a": data}, "f")
        assert error.field == "f['a']"
        assert ".encode()" in error.remedy

    def test_two_spellings_of_one_name_are_refused(self) -> None:
        assert refusal(paths.files, {"a/b": b"", "a//b": b""}, "f").reason == "named twice"

    @pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a"), ("a/b", "a/b/c/d"), ("x", "a/b/c", "a/b")])
    def test_a_file_cannot_be_a_directory_too(self, names: tuple[str, ...]) -> None:
        assert "which is a file" in refusal(paths.files, dict.fromkeys(names, b""), "f").reason

    def test_names_that_merely_begin_alike_are_fine(self) -> None:
        names = ["a", "ab", "a.b", "d/a", "d/ab/c", "da"]
        assert list(paths.files(dict.fromkeys(names, b""), "f")) == names

    @pytest.mark.parametrize("contents", [[("a", b"")], "a", None, 3])
    def test_what_is_no_mapping_is_refused(self, contents: object) -> None:
        assert refusal(paths.files, contents, "f").reason == "not a mapping"


class TestPatterns:
    def test_patterns_are_tidied_and_keep_their_order(self) -> None:
        assert paths.patterns(["./b/*.txt", "a//**/c", "[!x]?"], "f") == ("b/*.txt", "a/**/c", "[!x]?")
        assert paths.patterns((), "f") == ()

    @pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../*", "", ".", "out/", "a\0", b"*", None])
    def test_patterns_that_lead_out_are_refused(self, pattern: object) -> None:
        assert refusal(paths.patterns, ["x", pattern], "f").field == "f[1]"

    def test_a_slash_at_the_end_is_answered_for_patterns(self) -> None:
        assert "'dir/**'" in refusal(paths.patterns, ["out/"], "f").remedy

    @pytest.mark.parametrize("pattern", ["a**", "**.txt", "a/**b/c", "***"])
    def test_two_stars_stand_alone(self, pattern: str) -> None:
        assert "'**'" in refusal(paths.patterns, [pattern], "f").reason

    def test_duplicates_are_refused(self) -> None:
        assert refusal(paths.patterns, ["a/*", "a//*"], "f").reason == "named twice"

    def test_a_lone_string_is_refused(self) -> None:
        assert refusal(paths.patterns, "*.txt", "f").reason == "not a list"
