"""Runs a script that nobody trusts and shows what came of it: output, verdict, cost, receipt."""

import sys
from pathlib import Path

import sandbox_native as sn


def main(script: Path) -> int:
    result = sn.run(
        ["/usr/bin/python3", "-I", script.name],
        files={script.name: script.read_bytes()},
        limits=sn.Limits(wall_seconds=5, memory_bytes=256 << 20, processes=32),
    )
    usage = result.usage
    print(f"--- output of {script.name} ---")
    print(result.text, end="")
    if result.stderr:
        print("--- its errors ---")
        print(result.stderr.decode(errors="replace"), end="")
    print("--- verdict ---")
    print(f"{result.status.value}, exit code {result.exit_code}, signal {result.signal}")
    if result.hint:
        print(result.hint)
    print("--- cost ---")
    print(f"wall {usage.wall_seconds * 1e3:.1f} ms, cpu {usage.cpu_seconds * 1e3:.1f} ms, ", end="")
    print(f"peak memory {usage.peak_memory_bytes / 2**20:.1f} MiB, processes {usage.peak_processes}")
    print(f"--- receipt: rung {result.enforcement.rung.name.lower()} ---")
    for layer in result.enforcement.layers:
        held = {True: "held", False: "NOT HELD", None: "not requested"}[layer.held]
        print(f"{layer.name:<17} {held:<14} {'; '.join(filter(None, [layer.mechanism, layer.detail]))}")
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
