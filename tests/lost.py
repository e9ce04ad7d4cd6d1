"""Boxes that are lost between their choice and their guest's start."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from running import kill_all

from sandbox_native.backends.box import LinuxBox

_start = LinuxBox.start


class Thief:
    """Takes the parked box away under the first runs, when the request for them is on its way."""

    def __init__(self) -> None:
        self.left = self.starts = 0

    def start(self, box: LinuxBox, request: Any, body: bytes) -> None:
        self.starts += 1
        if not self.left:
            return _start(box, request, body)
        self.left -= 1
        slot = box.slot.process.pid
        os.kill(slot, signal.SIGSTOP)  # or it would make another box, and close its socket at the end
        kill_all([int(pid) for pid in Path(f"/proc/{slot}/task/{slot}/children").read_text().split()])
        try:
            _start(box, request, body)
        finally:
            os.kill(slot, signal.SIGKILL)
