"""Programs and libraries that tests compile: what a loader has to find."""

from __future__ import annotations

import subprocess
from pathlib import Path


def library(path: Path, name: str, *, needs: tuple[str, ...] = (), flags: tuple[str, ...] = ()) -> Path:
    """A shared library with one function, `name`, that calls those of the libraries that it needs, beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    calls = "".join(f"int {one}(void);" for one in needs)
    body = " + ".join(["1", *(f"{one}()" for one in needs)])
    options = [*(f"-l{one}" for one in needs), f"-L{path.parent}", f"-Wl,-soname,{path.name}", *flags]
    _compile(path, f"{calls} int {name}(void) {{ return {body}; }}", "-shared", "-fPIC", *options)
    return path


def program(
    path: Path, *, calls: tuple[str, ...] = (), libraries: Path | None = None, flags: tuple[str, ...] = (), cc: str = "cc"
) -> Path:
    """Exits with the sum of what the functions give."""
    path.parent.mkdir(parents=True, exist_ok=True)
    declared = "".join(f"int {one}(void);" for one in calls)
    body = " + ".join(["0", *(f"{one}()" for one in calls)])
    options = [] if libraries is None else [f"-L{libraries}", f"-Wl,-rpath-link,{libraries}", *(f"-l{one}" for one in calls)]
    _compile(path, f"{declared} int main(void) {{ return {body}; }}", *options, *flags, cc=cc)
    return path


def _compile(path: Path, text: str, *flags: str, cc: str = "cc") -> None:
    source = path.with_name(path.name + ".c")
    source.write_text(text)
    subprocess.run([cc, str(source), "-o", str(path), "-Wl,--no-as-needed", *flags], check=True)
    source.unlink()
