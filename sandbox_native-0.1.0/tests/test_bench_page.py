"""The bench's page: whole without a network, and well-formed."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from sandbox_native.bench.contenders import PARKED
from sandbox_native.bench.measure import rows
from sandbox_native.bench.page import page
from sandbox_native.bench.threads import COUNTS, scenario

WHERE = {"kernel": "6", "machine": "x86_64", "cpus": 2, "python": "3", "root": False, "load": 0.5}
LAUNCHES = rows("launch /bin/true, back to back", {"bare": [0.001, 0.002, 0.003], PARKED: [0.001, 0.002, 0.004]})
THREADS = [one for count in COUNTS for one in rows(scenario(count), {"bare": [900.0, 1000.0, 1100.0]}, unit="runs/s")]
ONE = rows("one & only", {"bare": [0.5]})


@pytest.fixture(scope="module")
def text() -> str:
    return page([*LAUNCHES, *THREADS, *ONE], ["<b> left out"], WHERE, LAUNCHES)


class Balance(HTMLParser):
    """Which elements are open at the end; `loads` is what a browser would fetch."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset") and not (value or "").startswith("#"):
                self.loads.append(f"{tag} {name}={value}")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_loads_nothing(text: str) -> None:
    parsed = Balance()
    parsed.feed(text)
    assert parsed.open == [] and parsed.loads == []
    assert "<script" not in text and "<link" not in text and "@import" not in text and "url(http" not in text


def test_there_is_a_plot_for_each_scenario_with_a_distribution_and_one_of_the_scaling(text: str) -> None:
    titles = re.findall(r"<title>(.*?)</title>", text)
    assert titles == ["sandbox_native: bench", "runs a second over threads", "latency: launch /bin/true, back to back"]


def test_the_page_has_the_table_the_goals_the_changes_and_the_notes(text: str) -> None:
    assert "<h2>launch /bin/true, back to back</h2>" in text and "strict parked" in text and "&lt;= 1.25" in text
    assert "<h2>Now to then</h2>" in text and "<li>&lt;b&gt; left out</li>" in text and "one &amp; only" in text


def test_the_same_figures_give_the_same_page(text: str) -> None:
    assert page([*LAUNCHES, *THREADS, *ONE], ["<b> left out"], WHERE, LAUNCHES) == text
