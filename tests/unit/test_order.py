"""Long tests begin first, and what belongs together stays together."""

from pathlib import Path

from tests.order import LONG, order

ROOT = Path(__file__).parents[2]


def test_the_long_files_come_first_and_then_the_largest() -> None:
    few, many = "tests/unit/test_few.py", "tests/unit/test_many.py"
    tests = [
        f"{few}::test_a",
        f"{many}::test_b",
        f"{many}::TestC::test_d[x::y]",
        f"{many}::test_e",
        f"{LONG[1]}::test_f",
        f"{LONG[0]}::test_g",
        f"{few}::TestH::test_i",
        f"{few}::TestH::test_j",
        f"{few}::TestH::test_k",
    ]
    assert [tests[place].rpartition("test_")[2][0] for place in order(tests)] == list("gfijkbead")


def test_every_long_file_exists() -> None:
    assert [name for name in LONG if not (ROOT / name).is_file()] == []
