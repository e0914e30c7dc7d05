from __future__ import annotations

import pytest

from kvagent.kvmemory.gpus import GIB, GPU, UnknownGPU, gpu, gpus


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("H100", "H100"),
        ("h100", "H100"),
        ("NVIDIA H200", "H200"),
        ("rtx 4090", "RTX-4090"),
        ("4090", "RTX-4090"),
        ("GeForce RTX 4090", "RTX-4090"),
        ("a100", "A100-80GB"),
        ("L40S", "L40S"),
    ],
)
def test_names_people_use(said: str, name: str) -> None:
    assert gpu(said).name == name


@pytest.mark.parametrize(
    ("said", "numbers"),
    [
        ("24", (24, None, None)),
        ("24GiB", (24, None, None)),
        ("7.5, 68", (7.5, 68, None)),
        ("80GB,3350,989", (80, 3350, 989)),
        ("80,3350GB/s,989TFLOPS", (80, 3350, 989)),
    ],
)
def test_numbers(said: str, numbers: tuple[float, float | None, float | None]) -> None:
    found = gpu(said)
    assert (found.gib, found.gb_per_s, found.tflops) == numbers
    assert found.bytes == int(numbers[0] * GIB)
    assert found.source == "as given"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("H1000", "take one of H100"),
        ("", "or give its memory as GiB"),
        ("24,", "is no number above 0"),
        ("24,fast", "'fast' in '24,fast' is no number above 0"),
        ("24,nan", "is no number above 0"),
        ("0", "is no number above 0"),
        ("24,-5", "is no number above 0"),
        ("1,2,3,4", "more than the three numbers"),
        ("-24", "or give its memory as GiB"),
    ],
)
def test_what_is_neither(said: str, why: str) -> None:
    with pytest.raises(UnknownGPU, match=why):
        gpu(said)


@pytest.mark.parametrize("row", gpus(), ids=lambda row: row.name)
def test_every_row_says_where_it_is_from_and_could_be(row: GPU) -> None:
    assert row.source != "as given"
    assert 1 < row.gib < 1024
    assert row.gb_per_s is not None
    assert 50 < row.gb_per_s < 20_000
    # Nothing computes more than about 500 operations for each byte that it can read.
    assert row.tflops is None or 20 < row.tflops * 1000 / row.gb_per_s < 500


def test_no_name_stands_for_two() -> None:
    names = [name.lower() for row in gpus() for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))
