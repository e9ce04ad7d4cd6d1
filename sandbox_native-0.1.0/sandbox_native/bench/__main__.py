"""``python -m sandbox_native.bench``: measures, prints a table; writes JSON or a page if asked, compares with an earlier run."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from typing import Any

from sandbox_native.bench.compare import comparison
from sandbox_native.bench.measure import Row
from sandbox_native.bench.report import document, headline, machine, rows_of, table
from sandbox_native.bench.scenarios import FULL, QUICK, measure
from sandbox_native.errors import SandboxError

_NO_MATPLOTLIB = "--html draws with matplotlib, which is not installed (pip install 'sandbox-native[bench]')"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sandbox_native.bench", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE too (-: to stdout, without the table)")
    page = "write a page with the table and plots: needs matplotlib now, nothing later"
    parser.add_argument("--html", metavar="FILE", help=page)
    parser.add_argument("--compare", metavar="OLD.json", help="tell the change against an earlier run (its --json), as ratios")
    given = "measure nothing: the figures are those of an earlier --json"
    parser.add_argument("--from", metavar="FILE", dest="given", help=given)
    quick = "rougher figures in about a minute on 2 cores (without it: some ten minutes)"
    parser.add_argument("--quick", action="store_true", help=quick)
    options = parser.parse_args(arguments)
    if options.html and importlib.util.find_spec("matplotlib") is None:
        parser.error(_NO_MATPLOTLIB)  # before minutes of measuring, not after
    for name in ("compare", "given"):
        path = getattr(options, name)
        if path is not None:
            try:
                setattr(options, name, _read(path))
            except (OSError, ValueError) as error:
                parser.error(f"{path}: {error}")
    return options


def _read(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    if not isinstance(told, dict):
        raise ValueError("not the JSON of this bench")
    rows_of(told)
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when everything was measured (goals missed or not), 125 when we cannot run here."""
    options = _options(arguments)
    if options.given is not None:
        rows, notes, where = rows_of(options.given), options.given["notes"], options.given["machine"]
    else:
        where = machine()
        try:
            rows, notes = measure(QUICK if options.quick else FULL, sys.stderr.isatty())
        except SandboxError as error:
            print(f"sandbox-native: {error}", file=sys.stderr)
            return 125
    old = [] if options.compare is None else rows_of(options.compare)
    _tell(options, rows, notes, where, old)
    return 0


def _tell(options: argparse.Namespace, rows: list[Row], notes: list[str], where: dict[str, Any], old: list[Row]) -> None:
    if options.html:
        from sandbox_native.bench.page import page

        _write(options.html, page(rows, notes, where, old))
    text = json.dumps(document(rows, notes, where), indent=1)
    if options.json == "-":
        print(text)
        return
    if options.json:
        _write(options.json, text + "\n")
    print(f"{headline(where)}\n\n{table(rows, notes)}")
    if old:
        print(f"\n{comparison(rows, old)}")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())
