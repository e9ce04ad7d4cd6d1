"""The judge's page: all submissions and cases, nothing of theirs as markup, nothing loaded."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from graded import problem

from sandbox_native import PolicyError, UnsupportedError
from sandbox_native.judge import report
from sandbox_native.judge.outcomes import CaseResult, CompileFailure, CompileResult, Judgement
from sandbox_native.judge.report import Report, html
from sandbox_native.judge.verdicts import Verdict

HOSTILE = '<script>alert("1")</script>\'"&'
OF = problem({"1": (b"", b""), "2": (b"", b"")})
VOID = {"meta", "br", "line", "circle"}


class Page(HTMLParser):
    """Elements, each closed in its turn; attributes by element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def judgement(name: str = "a.c", *cases: CaseResult, **given: object) -> dict[str, object]:
    blank = Judgement(submission=name, problem="test", verdict=Verdict.AC, cases=cases, cpu_limit_seconds=2.0)
    return replace(blank, **given).to_dict()  # type: ignore[arg-type]


def result(case: str, verdict: Verdict = Verdict.AC, cpu_seconds: float = 1.0, message: str = "") -> CaseResult:
    return CaseResult(case=case, verdict=verdict, cpu_seconds=cpu_seconds, peak_memory_bytes=1 << 20, message=message)


def test_each_submission_has_a_row_and_each_case_a_cell() -> None:
    slow = judgement("slow.c", result("1"), result("2", Verdict.TLE, 2.2), verdict=Verdict.TLE)
    stopped = judgement("wrong.c", result("1", Verdict.WA, message="line 1"), verdict=Verdict.WA, skipped=("2",))
    page = Page(html(OF, [slow, stopped]))
    cells = [cell["class"] for cell in page.attributes("td") if (cell.get("class") or "").startswith("case")]
    assert cells == ["case AC", "case TLE", "case WA", "case skipped"]
    assert [head["scope"] for head in page.attributes("th")].count("row") == 2
    assert [cell["title"] for cell in page.attributes("td") if cell.get("class") == "case WA"] == ["line 1"]


def test_columns_are_sorted_by_numbers_and_not_by_words() -> None:
    page = Page(html(OF, [judgement("a.c", result("1", cpu_seconds=0.5))]))
    assert "0.5" in [cell.get("data-key") for cell in page.attributes("td") if cell.get("class") == "case AC"]


def test_times_are_drawn_against_the_limit() -> None:
    cases = [result("1", cpu_seconds=0.0), result("2", cpu_seconds=2.0)]
    page = Page(html(OF, [judgement("a.c", *cases)]))
    (limit,) = (line for line in page.attributes("line") if line.get("class") == "limit")
    none, at_the_limit = (float(dot["cy"] or "") for dot in page.attributes("circle"))
    assert at_the_limit == float(limit["y1"] or "") < none


@pytest.mark.parametrize(
    ("slowest", "words"),
    [
        (1.9, ["0", "500 ms", "1 s", "1.5 s", "2 s"]),
        (4.4, ["0", "1 s", "2 s", "3 s", "4 s"]),
        (65.0, ["0", "20 s", "40 s", "60 s"]),
    ],
)
def test_the_plot_has_round_ticks_and_names_its_limit(slowest: float, words: list[str]) -> None:
    page = html(OF, [judgement("a.c", result("1", cpu_seconds=slowest))])
    assert re.findall(r'text-anchor="end">([^<]*)</text>', page) == [*words, "limit 2 s"]


@pytest.mark.parametrize("top", [1e-3, 0.0011, 0.99, 1.0, 1.1, 2.2, 7.0, 59.9, 1e5])
def test_ticks_are_few_and_reach_nearly_to_the_top(top: float) -> None:
    ticks = report._ticks(top)
    step = ticks[1] - ticks[0]
    assert ticks[0] == 0 and 4 <= len(ticks) <= 8 and top - step < ticks[-1] <= top
    assert float(f"{step:.0e}") == pytest.approx(step) and f"{step:.0e}"[0] in "125"


def test_heads_are_buttons_and_the_remark_comes_before_the_cases() -> None:
    page = html(OF, [judgement("a.c", result("1"))])
    heads = re.findall(r'<th scope="col"[^>]*><button type="button">([^<]*)</button></th>', page)
    assert heads == ["submission", "language", "verdict", "accepted", "CPU", "memory", "remark", "1", "2"]
    row = page[page.index("<tbody>") :]
    assert row.index('class="remark"') < row.index('class="case')
    assert "An empty cell is a case that was not run" in page
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in Page(page).attributes("meta")


def test_what_the_compiler_said_is_there_in_full() -> None:
    compilation = CompileResult(failure=CompileFailure.ERROR, output=f"a.c: In function\n{HOSTILE} error\n")
    page = html(OF, [judgement(verdict=Verdict.CE, message="error: no", compilation=compilation)])
    Page(page)
    assert "<summary>error: no</summary><pre>a.c: In function\n&lt;script&gt;" in page
    assert "<details>" not in html(OF, [judgement(verdict=Verdict.CE, message="error: no")])


def test_a_limit_is_told_without_a_hint_for_programmers() -> None:
    slow = replace(result("1", Verdict.TLE), limit="cpu", hint="raise Limits.cpu_seconds")
    odd = replace(result("2", Verdict.RTE), exit_code=1, hint="there is no network")
    titles = [cell["title"] for cell in Page(html(OF, [judgement("a.c", slow, odd)])).attributes("td") if "title" in cell]
    assert titles == ["cpu limit", "exit code 1\nthere is no network"]


def test_a_plot_of_very_many_cases_has_the_slowest_of_each_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_MOST_DOTS", 3)
    page = Page(html(OF, [judgement(f"{n}.c", result("1", cpu_seconds=0.1), result("2", Verdict.WA)) for n in range(2)]))
    assert [dot["class"] for dot in page.attributes("circle")] == ["WA", "WA"]


def test_where_nothing_ran_there_is_no_plot() -> None:
    page = Page(html(OF, [judgement(verdict=Verdict.CE, message="error: no")]))
    assert page.attributes("svg") == []
    assert Page(html(OF, [])).attributes("tbody") == [{}]


def test_hostile_names_and_words_are_text() -> None:
    of = replace(problem({HOSTILE: (b"", b"")}), title=HOSTILE)
    told = judgement(HOSTILE, result(HOSTILE, Verdict.WA, message=HOSTILE), message=HOSTILE, language=HOSTILE, verdict=Verdict.WA)
    text = html(of, [told])
    assert len(Page(text).attributes("script")) == 1 and "alert(&#34;1&#34;)" in text and "<script>alert" not in text


def test_nothing_is_loaded_from_anywhere() -> None:
    page = Page(html(OF, [judgement()]))
    assert not [1 for _, attributes in page.found if {"src", "href"} & set(attributes)]
    assert any("default-src 'none'" in (meta.get("content") or "") for meta in page.attributes("meta"))


def test_scores_have_a_column_where_there_are_any() -> None:
    assert ">score<" not in html(OF, [judgement()])
    page = html(OF, [judgement(score=12.5, max_score=100.0)])
    assert ">score<" in page and ">12.5<" in page


def test_a_page_replaces_what_is_there_and_takes_names_of_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("replaced" * 10000)
    Report(path).write(OF, [judgement("\udcff.c")])
    assert "\\udcff.c" in path.read_text("utf-8") and "replaced" not in path.read_text("utf-8")


def test_a_page_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "page", "\0"):
        with pytest.raises(PolicyError, match="--html"):
            Report(path)


def test_without_jinja2_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UnsupportedError, match=r"sandbox-native\[judge\]"):
        Report(tmp_path / "page")
    assert not (tmp_path / "page").exists()


def test_what_was_ignored_in_the_problem_is_told() -> None:
    page = html(replace(OF, notes=(HOSTILE, "two")), [judgement("a.c", result("1"))])
    Page(page)
    assert HOSTILE not in page and page.count('<p class="note">') == 2 and "two</p>" in page
