"""The line that tells most of what a compiler or a dying program wrote."""

from __future__ import annotations

import pytest

from sandbox_native.judge.telling import of_compiler, of_crash

PYTHON = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    raise ValueError("Error")\n'
JAVA = 'Exception in thread "main" java.lang.ArithmeticException: / by zero\n\tat Main.main(Main.java:3)\n'
NODE = "/judge/a.js:1\nthrow new Error('x')\n^\n\nTypeError: x is no function\n    at /judge/a.js:1:7\n\nNode.js v18\n"
GO = "panic: runtime error: index out of range [5]\n\ngoroutine 1 [running]:\nmain.main()\n\t/a.go:5\nexit status 2\n"
RUST = "thread 'main' panicked at src/main.rs:2:5:\nno luck\nnote: run with `RUST_BACKTRACE=1`\n"
CPP = "terminate called after throwing an instance of 'std::out_of_range'\n  what():  vector\n"


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (f"reading\n{PYTHON}ValueError: Error\n", "ValueError: Error"),
        (f"{PYTHON}KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n", "KeyError: 1"),
        (f"{PYTHON}KeyError: 1\n\n{PYTHON}ValueError: 2\n", "ValueError: 2"),
        (PYTHON, '    raise ValueError("Error")'),  # cut there
        (f"warming up\n{JAVA}", 'Exception in thread "main" java.lang.ArithmeticException: / by zero'),
        (NODE, "TypeError: x is no function"),
        (GO, "panic: runtime error: index out of range [5]"),
        (RUST, "thread 'main' panicked at src/main.rs:2:5:"),
        (CPP, "terminate called after throwing an instance of 'std::out_of_range'"),
        ("main: a.c:3: main: Assertion `0' failed.\nAborted\n", "main: a.c:3: main: Assertion `0' failed."),
        ("debug 1\ndebug 2\nDied at a.pl line 3.\n\n", "Died at a.pl line 3."),
        (" \n", ""),
        ("", ""),
    ],
)
def test_a_crash_is_told_by_the_line_that_says_why(written: str, line: str) -> None:
    assert of_crash(written) == line


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            "a.cpp: In function 'int main()':\na.cpp:1:14: error: 'x' was not declared\n",
            "a.cpp:1:14: error: 'x' was not declared",
        ),
        (
            "  File \"a.py\", line 1\n    print(\n         ^\nSyntaxError: '(' was never closed\n",
            "SyntaxError: '(' was never closed",
        ),
        ("# command-line-arguments\n./a.go:3:2: undefined: x\n", "./a.go:3:2: undefined: x"),
        ("warning: unused\nerror[E0425]: cannot find value `x`\n", "error[E0425]: cannot find value `x`"),
        ("# only this\n", ""),
        ("", ""),
    ],
)
def test_a_compiler_is_told_by_the_first_error(said: str, line: str) -> None:
    assert of_compiler(said) == line
