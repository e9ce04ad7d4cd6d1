"""Compilation in a box: what comes of good, bad and hostile sources, what is kept, and what a compiler cannot see."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import boxes
import judged
import pytest
import scope

from sandbox_native import Limits, Sandbox, UnsupportedError
from sandbox_native.judge import sealed
from sandbox_native.judge.compiling import Compiled, compile_limits, compile_submission
from sandbox_native.judge.language import Language
from sandbox_native.judge.languages import builtin
from sandbox_native.judge.outcomes import CompileFailure
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import ProblemLimits

MIB = 1 << 20
HELLO = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
SMALL = replace(
    compile_limits(), cpu_seconds=1.0, wall_seconds=60, memory_bytes=128 * MIB, file_bytes=8 * MIB, tmp_bytes=32 * MIB
)
pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns", "gcc")]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def output(done: Compiled, stdin: bytes = b"", limits: Limits = SMALL) -> str:
    """What the program prints."""
    assert done.program is not None, done.result.output
    with Sandbox(done.program.policy()) as box:
        result = box.run(done.program.argv(limits), limits=done.program.limits(limits), stdin=stdin)
    assert result.ok, (result.status, result.stderr)
    return result.text


def failure(store: Store, name: str, text: str | bytes, limits: Limits = SMALL) -> tuple[CompileFailure | None, str]:
    result = judged.compiled(store, {name: text}, limits=limits).result
    return result.failure, result.output


def test_a_program_compiles_and_runs(store: Store) -> None:
    done = judged.compiled(store, {"hello.c": HELLO})
    assert output(done) == "hello\n"
    result = done.result
    assert result.ok and not result.cached and result.language == "c" and result.cpu_seconds > 0
    assert result.command == ("gcc", "-std=gnu17", "-O2", "-o", "main", "hello.c", "-lm") and result.peak_memory_bytes > MIB
    assert done.program is not None and os.listdir(done.program.host_directory) == ["main"]


def test_the_second_time_nothing_is_compiled(store: Store) -> None:
    first = judged.compiled(store, {"hello.c": HELLO})
    second = judged.compiled(Store(store.root), {"hello.c": HELLO})
    assert second.result == replace(first.result, cached=True) and second.program == first.program


def test_the_source_its_name_the_language_its_flags_and_version_decide_what_is_the_same(store: Store, tmp_path: Path) -> None:
    def cached(files: dict[str, str | bytes | Path], language: Language) -> bool:
        return compile_submission(judged.submission(files), language=language, store=store).result.cached

    bash = builtin()["bash"]
    assert not cached({"a.sh": "echo"}, bash)
    assert cached({"a.sh": b"echo"}, replace(bash, run=("bash", "-e", "{directory}/{entry}"), title="Bourne again"))
    assert not cached({"a.sh": "echo 1"}, bash)
    assert not cached({"b.sh": "echo"}, bash)
    assert not cached({"a.sh": "echo"}, replace(bash, compile=("bash", "-n", "-x", "{entry}")))
    assert not cached({"a.sh": "echo"}, replace(bash, compile_environment=(("MODE", "fast"),)))
    assert not cached({"a.sh": "echo"}, replace(bash, version=("bash", "-c", "echo 2.0")))
    (tmp_path / "on disk").write_text("echo")
    assert cached({"a.sh": tmp_path / "on disk"}, bash)


def test_a_refusal_is_kept_and_what_a_limit_ended_is_not(store: Store) -> None:
    bad = {"bad.c": "int main(void) { return x; }\n"}
    first, second = judged.compiled(store, bad).result, judged.compiled(store, bad).result
    assert first.failure is second.failure is CompileFailure.ERROR and (first.cached, second.cached) == (False, True)
    assert "‘x’ undeclared" in first.output == second.output
    slow = {"slow.pl": "BEGIN { 1 while 1 }"}
    short = replace(SMALL, cpu_seconds=0.2)
    results = [judged.compiled(store, slow, limits=short).result for _ in range(2)]
    assert [(one.failure, one.cached) for one in results] == [(CompileFailure.TIME, False)] * 2
    results = [judged.compiled(store, {"killed.pl": "BEGIN { kill 9, $$ }"}).result for _ in range(2)]
    assert [(one.failure, one.cached) for one in results] == [(CompileFailure.ERROR, False)] * 2, "by whomever"


def test_a_program_that_was_taken_away_is_compiled_again(store: Store) -> None:
    done = judged.compiled(store, {"hello.c": HELLO})
    assert done.program is not None
    sealed.remove_tree(done.program.host_directory)
    again = judged.compiled(store, {"hello.c": HELLO})
    assert not again.result.cached and output(again) == "hello\n"


def test_processes_that_want_the_same_program_compile_it_once(store: Store, tmp_path: Path) -> None:
    def ask(number: int) -> None:
        done = judged.compiled(store, {"hello.c": HELLO})
        (tmp_path / str(number)).write_text(str(done.result.cached))

    for pid in [scope.child(lambda number=number: ask(number)) for number in range(3)]:
        assert os.waitpid(pid, 0)[1] == 0
    assert sorted((tmp_path / str(number)).read_text() for number in range(3)) == ["False", "True", "True"]


# Hostile sources: each ends within its own limits, as what it is.

TIME, MEMORY, OUTPUT, ERROR = CompileFailure.TIME, CompileFailure.MEMORY, CompileFailure.OUTPUT, CompileFailure.ERROR
FIB = (
    "template<int N, int M> struct F { static const int v = F<N-1, M*2>::v + F<N-2, M*2+1>::v; };\n"
    "template<int M> struct F<0, M> { static const int v = 1; }; template<int M> struct F<1, M> { static const int v = 1; };\n"
    "int main() { return F<28, 1>::v; }\n"
)
MACROS = "#define A(x) x x x x x x x x\n#define B(x) A(A(A(A(x))))\nint main(void) { B(B(B(;))) return 0; }\n"
LOOPS = "".join(f"for (int {name} = 0; {name} < 1 << 10; {name}++) " for name in "ijk")  # each short of what the compiler bounds
LOOP = f"constexpr int f() {{ int s = 0; {LOOPS} s ^= k; return s; }} constexpr int a = f();\n"


BOMBS: list[tuple[str, str | bytes, CompileFailure]] = [
    ("device.c", '#include "/dev/zero"\n', MEMORY),
    ("random.c", '#include "/dev/urandom"\n', MEMORY),
    ("macros.c", MACROS, MEMORY),
    ("includes.c", "#include __FILE__\n#include __FILE__\n", TIME),
    ("templates.cpp", FIB, TIME),
    ("depth.cpp", "template<int N> struct A { A<N+1> a; }; A<0> x;\n", ERROR),
    ("constexpr.cpp", LOOP, TIME),
    ("array.c", "char a[1 << 30] = {1}; int main(void) { return a[5]; }\n", OUTPUT),
    ("assembler.c", '__asm__(".fill 1 << 30, 1, 1"); int main(void) { return 0; }\n', OUTPUT),
    ("incbin.c", '__asm__(".incbin \\"/dev/zero\\""); int main(void) { return 0; }\n', ERROR),
    ("processes.pl", "BEGIN { while (1) { fork } }", TIME),
    ("killed.pl", "BEGIN { kill 9, $$ }", ERROR),
    ("null.py", b"print(1)\0", ERROR),
    ("parentheses.py", "(" * 10_000, ERROR),
    ("said.c", 'int main(void) { return "cc1: out of memory allocating 9 bytes. File too large" }\n', ERROR),
]


@pytest.mark.parametrize(("name", "text", "expected"), BOMBS, ids=[bomb[0] for bomb in BOMBS])
def test_a_bomb_is_bounded_and_told_by_its_kind(store: Store, name: str, text: str | bytes, expected: CompileFailure) -> None:
    found, words = failure(store, name, text)
    assert found is expected, words
    assert words and len(words) < 70_000


def test_the_limit_that_was_passed_is_named(store: Store) -> None:
    _, words = failure(store, "device.c", '#include "/dev/zero"\n')
    assert words == "[memory_limit: raise Limits.memory_bytes (now 128 MiB)]\n"
    _, words = failure(store, "sleep.pl", "BEGIN { sleep 1000 }", replace(SMALL, wall_seconds=0.5))
    assert words.startswith("[wall_limit: raise Limits.wall_seconds (now 500 ms)")


def test_more_words_than_are_kept_are_counted(store: Store) -> None:
    found, words = failure(store, "words.pl", "BEGIN { print 'x' x 200_000; exit 1 }")
    assert found is ERROR and len(words) < 70_000 and words.endswith("x\n[200000 bytes in all]\n")


@pytest.mark.parametrize("name", ["/etc/shadow", "/proc/1/environ", "/root/.bashrc", "{data}/secret/1.ans", "../../store/secret"])
def test_a_compiler_cannot_include_what_is_not_the_programs(store: Store, tmp_path: Path, name: str) -> None:
    (tmp_path / "data" / "secret").mkdir(parents=True)
    (tmp_path / "data" / "secret" / "1.ans").write_text("42\n")
    found, words = failure(store, "spy.c", f'#include "{name.format(data=tmp_path / "data")}"\nint main(void) {{ return 0; }}\n')
    assert found is ERROR and ("No such file or directory" in words or "Permission denied" in words)


def test_what_stdin_and_the_environment_have_is_nothing_of_the_hosts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    assert output(judged.compiled(store, {"a.c": f'#include "/dev/stdin"\n{HELLO}'})) == "hello\n"
    found, words = failure(store, "environment.pl", 'BEGIN { die join " ", sort keys %ENV }')
    assert found is ERROR and "PATH" in words and "TOKEN" not in words


def test_a_compiler_has_no_network_and_leaves_no_process(store: Store) -> None:
    connect = (
        "use Socket; socket(S, PF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in(80, inet_aton('1.1.1.1'))) or die qq(net $!);"
    )
    assert "net Network is unreachable" in failure(store, "network.pl", f"BEGIN {{ {connect} }}")[1]
    word = f"sleeper-{os.getpid()}"
    done = judged.compiled(store, {"daemon.pl": f"BEGIN {{ fork or exec {{'sleep'}} '{word}', '1000' }} print 1"})
    assert done.result.ok
    assert boxes.tree_is_gone(word)


def test_test_data_in_what_boxes_see_is_hidden(store: Store, tmp_path: Path) -> None:
    (tmp_path / "shown" / "data").mkdir(parents=True)
    (tmp_path / "shown" / "data" / "1.ans").write_text("42")
    language = replace(builtin()["perl"], readable=(str(tmp_path / "shown"),))
    spy = judged.submission({"spy.pl": f"BEGIN {{ open(F, '<', '{tmp_path}/shown/data/1.ans') or die qq(no: $!); die <F> }}"})
    assert compile_submission(spy, language=language, store=store).result.output.startswith("42")
    (tmp_path / "link").symlink_to(tmp_path / "shown" / "data")
    for hidden in (tmp_path / "shown" / "data", tmp_path / "link"):
        done = compile_submission(spy, language=language, store=Store(tmp_path / hidden.name), hidden=[hidden, "/srv/elsewhere"])
        assert done.result.output.startswith("no: ")


def test_a_compiler_that_is_not_there_is_an_error_of_ours(store: Store) -> None:
    language = replace(builtin()["c"], compile=("no-such-compiler", "{sources}"))
    with pytest.raises(UnsupportedError, match="C is not installed; missing: no-such-compiler; install no-such-compiler"):
        compile_submission(judged.submission({"a.c": HELLO}), language=language, store=store)


def test_a_problems_limits_become_those_of_the_compiler(store: Store) -> None:
    limits = compile_limits(ProblemLimits(compilation_seconds=7.0, compilation_memory_bytes=99 * MIB))
    assert (limits.cpu_seconds, limits.wall_seconds, limits.memory_bytes) == (7.0, 15.0, 99 * MIB)
    done = judged.compiled(store, {"hello.c": HELLO}, limits=ProblemLimits(compilation_memory_bytes=4 * MIB))
    assert done.result.failure is MEMORY


def test_what_a_compiler_makes_must_be_a_file(store: Store) -> None:
    language = replace(builtin()["perl"], keep_sources=False, outputs=("main",), run=("{directory}/main",))
    for make, words in (
        ("symlink '/bin/sh', 'main'", "[main: a link]"),
        ("mkdir 'main'", "[main: a directory"),
        ("1", "no such"),
    ):
        source = judged.submission({"a.pl": f"BEGIN {{ {make} }}"})
        result = compile_submission(source, language=language, store=store).result
        assert result.failure is ERROR and words in result.output


def test_a_program_of_several_files(store: Store) -> None:
    header = {"lib/add.h": "int add(int, int);\n", "lib/add.c": '#include "add.h"\nint add(int a, int b) { return a + b; }\n'}
    main = '#include <stdio.h>\n#include "lib/add.h"\nint main(void) { printf("%d\\n", add(40, 2)); return 0; }\n'
    assert output(judged.compiled(store, {"-main.c": main, **header})) == "42\n"
    python = {"main.py": "import helper.answer\nprint(helper.answer.it)\n", "helper/answer.py": "it = 42\n"}
    done = judged.compiled(store, python)
    assert output(done) == "42\n" and done.program is not None
    assert len(list(Path(done.program.host_directory).rglob("*.pyc"))) == 2


def test_java_classes_are_found(store: Store, needs: Callable[[str], None]) -> None:
    needs("javac")
    body = "public static void main(String[] a) { System.out.println({}); }"
    first, second = body.replace("{}", "1"), body.replace("{}", "2")
    both = f"class Other {{ {first} }}\npublic class Named {{ {second} }}\n"
    memory = replace(compile_limits(), memory_bytes=512 * MIB)
    assert output(judged.compiled(store, {"submission.java": both}, entry_point="Other"), limits=memory) == "1\n"
    none = judged.compiled(store, {"a.java": "public class A { void main() {} }"}).result
    assert none.failure is ERROR and none.output == "no class has a main method\n"


def test_a_program_that_starts_by_itself_runs_as_it_is(store: Store) -> None:
    done = judged.compiled(store, {"run": "#!/bin/sh\nread -r a && echo $((a + 1))\n"})
    assert output(done, b"41\n") == "42\n" and done.result.command == () and done.result.language == "generic"


@pytest.mark.parametrize("entry", ["-version", "@/etc/passwd", "B", "a.A"])
@pytest.mark.needs("javac")
def test_a_class_that_is_not_there_is_no_program(store: Store, entry: str) -> None:
    text = "class A { public static void main(String[] a) {} }"
    found = judged.compiled(store, {"A.java": text}, entry_point=entry)
    assert found.program is None and found.result.failure is CompileFailure.ERROR
    assert found.result.output.endswith(f"there is no class {entry}\n")


def test_words_that_a_source_makes_the_compiler_say_are_not_believed(store: Store) -> None:
    found, words = failure(store, "a.c", '#line 1 "cc1: out of memory"\n#error x\n')
    assert found is CompileFailure.ERROR and words.startswith("cc1: out of memory")
