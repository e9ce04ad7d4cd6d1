"""The one error of this package: a problem that cannot be judged as it is written."""

from __future__ import annotations

from sandbox_native.errors import PolicyError


class ProblemError(PolicyError):
    """A problem's package, folder or list of cases is bad; nothing has run.

    `file` is the path inside the package (empty for cases in memory), the rest is as in `PolicyError`: `field`, `value`
    (shortened), `reason`, `remedy`.
    """

    file: str

    def __init__(self, reason: str, *, file: str = "", field: str = "", value: object = None, remedy: str = "") -> None:
        super().__init__(reason, field=field, value=value, remedy=remedy)
        self.file = file

    def __str__(self) -> str:
        return f"{self.file}: {super().__str__()}" if self.file else super().__str__()
