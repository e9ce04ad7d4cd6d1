"""A submission's files as its compiler gets them: names, the main file, and what is refused."""

from __future__ import annotations

import time
from pathlib import Path

import judged
import pytest

from sandbox_native import PolicyError
from sandbox_native.judge.languages import builtin
from sandbox_native.judge.sources import Sources, prepared


def of(language: str, files: dict[str, str | bytes | Path], entry_point: str | None = None) -> Sources:
    return prepared(judged.submission(files, language, entry_point), builtin()[language])


def test_the_only_file_is_the_main_one_and_may_be_named_anyhow() -> None:
    assert of("python", {"x.py": ""}).entry == "x.py"
    assert (of("python", {"solution.txt": "1"}).entry, of("cpp", {"Main": ""}).names) == ("solution.txt.py", ("Main.cpp",))
    assert of("generic", {"anything": "#!/bin/sh"}).entry == "anything"


def test_of_several_the_stated_one_then_one_with_a_main_files_name_is_it() -> None:
    files: dict[str, str | bytes | Path] = {"a.py": "", "main.py": "", "b.py": ""}
    assert of("python", files).entry == "main.py" and of("python", files, "b.py").entry == "b.py"
    assert of("python", {"a.py": "", "data.txt": ""}).entry == "a.py"
    with pytest.raises(PolicyError, match=r"program a.py\+b.py='a.py, b.py': no main file; name one main.py or __main__.py, or"):
        of("python", {"a.py": "", "b.py": ""})
    with pytest.raises(PolicyError, match="'c.py': no main file"):
        of("python", {"a.py": "", "b.py": ""}, "c.py")


def test_compilers_that_take_all_sources_need_no_main_one() -> None:
    sources = of("c", {"b.c": "", "a.c": "", "a.h": ""})
    assert sources.command == ("gcc", "-std=gnu17", "-O2", "-o", "main", "a.c", "b.c", "-lm")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("public class A {}", "A.java"),
        ("import x;\n  public final class Ä1 {}", "Ä1.java"),
        ("class B {}\npublic abstract sealed interface C {}", "C.java"),
        ("public record D(int x) {}", "D.java"),
        ("class E {}", "given.java"),
        ("// public class F\nclass G {}", "given.java"),
        ("/*\npublic class F\n*/\npublic class G {}", "G.java"),
        ('class G { String s = """\npublic class F\n"""; char c = \'"\'; }\n/* x */ public class H {}', "H.java"),
        ("/*\npublic class F", "given.java"),
        ('String s = "\npublic class F {}', "F.java"),
    ],
)
def test_a_java_file_is_named_after_its_public_class(text: str, name: str) -> None:
    assert list(of("java", {"given.java": text}).files) == [name]


@pytest.mark.parametrize("part", ["\n", "/*", '"', '"""', "'", "//", "/", "public ", "\\", " "])
def test_no_java_source_takes_more_than_linear_time_to_name(part: str) -> None:
    def seconds(size: int) -> float:
        start = time.process_time()
        of("java", {"given.java": part * size})
        return time.process_time() - start

    few, many = (min(seconds(size) for _ in range(3)) for size in (2_500, 40_000))
    assert many < 100 * few  # 16 times as much; squared, 256 times


def test_a_java_file_keeps_its_name_where_another_has_the_classs() -> None:
    files = of("java", {"p/one.java": "public class A {}", "p/A.java": "class B {}", "p/two.java": "public class C {}"}).files
    assert sorted(files) == ["p/A.java", "p/C.java", "p/one.java"]


@pytest.mark.parametrize("name", ["../a.c", "/a.c", "a/../../b.c", "a\0b.c", ""])
def test_a_name_that_leads_out_is_refused(name: str) -> None:
    with pytest.raises(PolicyError, match="name"):
        of("c", {name: "", "b.c": ""})


def test_what_cannot_be_a_submission_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="files=0: none, or too many; give 1 to 4096"):
        of("c", {})
    with pytest.raises(PolicyError, match=r"a.c='.*none.c': cannot be read: No such file or directory"):
        of("c", {"a.c": tmp_path / "none.c"})
    with open(tmp_path / "large.c", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PolicyError, match="too large; all files together may have 67108864 bytes"):
        of("c", {"a.c": bytes(1 << 20), "large.c": tmp_path / "large.c"})
