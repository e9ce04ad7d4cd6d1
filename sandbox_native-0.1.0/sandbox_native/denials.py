"""What a run was denied: values of `Result.denials`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["syscall", "path", "commit", "quarantine", "hard_link"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Denial:
    """One thing that the guest tried and was refused, or made and does not keep.

    - `kind`: `"syscall"`, `"path"`; `"commit"` and `"quarantine"` for what it made under a protected name; `"hard_link"` for a
      file of a writable root that has another name elsewhere.
    - `name`: the system call, or the path. `arguments`: those that matter (path, family, flags). `reason`: the rule.
    - `count`: how often. `allow`: the field of the policy that would allow it; None where none would.
    """

    kind: Kind
    name: str
    arguments: str = ""
    reason: str = ""
    count: int = 1
    allow: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Names as in `Result.to_dict`."""
        values = {name: getattr(self, name) for name in type(self).__dataclass_fields__}
        return {name: as_text(value) if isinstance(value, str) else value for name, value in values.items()}


def as_text(name: str) -> str:
    """A lone surrogate, as os.fsdecode makes of a byte that is not UTF-8, is no text: JSON in UTF-8 cannot hold it."""
    return name.replace("\\", "\\\\").encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
