"""Prints the table of .ci/vm-matrix from the machines' output: rung, layers of a run's receipt, kernel tests."""

import json
import re
import sys
from pathlib import Path


def marked(log: str, mark: str) -> dict:
    line = re.search(rf"^{mark} (\{{.*\}})\s*$", log, re.MULTILINE)
    return json.loads(line[1]) if line else {}


def receipt(run: dict) -> tuple[str, str]:
    """The rung that served, and the layers that did not hold by themselves, or the error."""
    if "error" in run:
        return "refused", str(run["error"].get("message", run["error"]))
    if "enforcement" not in run:
        return "no answer", ""
    layers = run["enforcement"]["layers"]
    held = sum(layer["held"] is True for layer in layers)
    others = [f"{layer['name']}: {layer['detail'] or layer['mechanism']}" for layer in layers if layer["held"] is False]
    return str(run["enforcement"]["rung"]), "; ".join([f"{held} held", *others])


def row(machine: str, log: str) -> list[str]:
    doctor = marked(log, "DOCTOR")
    missing = [feature["name"] for feature in doctor.get("features", []) if not feature["works"]]
    summary = re.findall(r"^=*\s*(\d+ (?:passed|failed|error|skipped).*?)\s*=*$", log, re.MULTILINE)
    rung, layers = receipt(marked(log, "RUN"))
    return [machine, rung, layers, ", ".join(missing) or "none", summary[-1] if summary else "none"]


def main(folder: Path, machines: list[str]) -> None:
    print("| machine | rung | receipt of a run | missing, says doctor | kernel tests |")
    print("|---|---|---|---|---|")
    for machine in machines:
        cells = row(machine, (folder / f"{machine}.log").read_text(errors="replace"))
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
