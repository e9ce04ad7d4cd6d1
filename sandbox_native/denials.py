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
        return {name: getattr(self, name) for name in type(self).__dataclass_fields__}
