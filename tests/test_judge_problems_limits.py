"""The limits of a package are those that it writes, in either format."""

from __future__ import annotations

from pathlib import Path

from problem_packages import CURRENT, package

from sandbox_native.judge.problems import read_package


def test_every_legacy_limit_is_read(tmp_path: Path) -> None:
    text = "limits: {time_multiplier: 3, time_safety_margin: 1.5, memory: 1, output: 2, code: 3, compilation_time: 4,\n"
    text += "  compilation_memory: 5, validation_time: 6, validation_memory: 7, validation_output: 8}\n"
    limits = read_package(package(tmp_path, {"problem.yaml": text})).limits
    assert (limits.time_multiplier, limits.compilation_seconds, limits.validation_seconds) == (3, 4, 6)
    assert limits.time_safety_margin == 1.5
    sizes = (limits.memory_bytes, limits.output_bytes, limits.compilation_memory_bytes)
    assert [size >> 20 for size in (*sizes, limits.validation_memory_bytes, limits.validation_output_bytes)] == [1, 2, 5, 7, 8]
    assert limits.code_bytes == 3 << 10


def test_a_legacy_limit_that_was_set_by_hand_has_only_the_distances_that_are_written(tmp_path: Path) -> None:
    for number, (yaml, file, asked) in enumerate(
        (
            ("", None, (5, 2)),
            ("", "2", (1, 1)),
            ("limits: {time_limit: 2}", None, (1, 1)),
            ("limits: {time_multiplier: 4}", "2", (4, 1)),
            ("limits: {time_safety_margin: 3, time_limit: 2}", None, (1, 3)),
        )
    ):
        limits = read_package(package(tmp_path / str(number), {"problem.yaml": yaml, ".timelimit": file})).limits
        assert (limits.time_multiplier, limits.time_safety_margin) == asked, (yaml, file)


def test_every_current_limit_is_read(tmp_path: Path) -> None:
    text = CURRENT + "type: [multi-pass]\nlanguages: [c, cpp]\nallow_file_writing: true\nname: {de: Klein, en: Small}\n"
    text = text.replace("name: Small\n", "")
    text += "limits: {time_multipliers: {ac_to_time_limit: 3, time_limit_to_tle: 2}, time_limit: 1.5, time_resolution: 0.5,\n"
    text += "  validation_passes: 7}\n"
    problem = read_package(package(tmp_path, {"problem.yaml": text, "output_validator/v.py": ""}))
    limits = problem.limits
    assert (limits.time_multiplier, limits.time_safety_margin, limits.cpu_seconds) == (3, 2, 1.5)
    assert (limits.time_resolution_seconds, limits.passes) == (0.5, 7)
    assert problem.languages == {"c", "cpp"} and problem.title == "Small"
