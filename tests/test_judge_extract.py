"""The program in a model's answer."""

from __future__ import annotations

import pytest

from sandbox_native import PolicyError
from sandbox_native.judge.extract import Block, blocks, extract_program

FIRST = "def f():\n    return 1\n"
SECOND = "print(f())\n"


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        (FIRST, FIRST),
        (f"Here:\n```python\n{FIRST}```\nDone.", FIRST),
        (f"```py title=x\n{FIRST}```", FIRST),
        (f"```\n{FIRST}```", FIRST),
        (f"~~~ python\n{FIRST}~~~~\n", FIRST),
        (f"```python\n{FIRST}", FIRST),
        (f"```python\r\n{FIRST}```\r\n", FIRST),
        (f"````\n```\n{FIRST}````", f"```\n{FIRST}"),
        (f"```bash\npip install x\n```\n```python\n{FIRST}```\n```json\n{{}}\n```", FIRST),
        (f"```bash\npip install x\n```\n```\n{FIRST}```", FIRST),
        (f"```python\n{FIRST}```\n```python\n\n```", FIRST),
        ("1. So:\n   ```python\n   def f():\n       return 1\n   ```", FIRST),
        (f"Use `f` so:\n``` `x` ```\n```python\n{FIRST}```", FIRST),
        ("```bash\nls\n```", "ls\n"),
        ("", ""),
    ],
)
def test_a_program_is_found(answer: str, program: str) -> None:
    assert extract_program(answer) == program


@pytest.mark.parametrize(
    ("choose", "program"), [("last", SECOND), ("first", FIRST), ("longest", FIRST), ("all", f"{FIRST}\n{SECOND}")]
)
def test_of_several_blocks_the_chosen_one_counts(choose: str, program: str) -> None:
    answer = f"```python\n{FIRST}```\nand\n```python\n{SECOND}```"
    assert extract_program(answer, choose=choose) == program  # type: ignore[arg-type]


def test_of_several_blocks_the_last_that_defines_the_name_counts() -> None:
    answer = f"```python\nf = 2\n```\n```python\n{FIRST}```\n```python\n{SECOND}```"
    assert extract_program(answer, defines="f") == FIRST
    assert extract_program(answer, defines="g") == SECOND


def test_other_languages_have_their_names() -> None:
    answer = f"```python\n{FIRST}```\n```C++\nint main() {{}}\n```"
    assert extract_program(answer, language="cpp") == "int main() {}\n"


def test_blocks_tell_their_language_and_whether_they_end() -> None:
    assert blocks("```py\na\n```\n~~~\nb") == [Block(text="a\n", language="py"), Block(text="b", closed=False)]


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(PolicyError, match="choose='best'"):
        extract_program("", choose="best")  # type: ignore[arg-type]
