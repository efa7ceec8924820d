"""The times of pieces of work that are kept from start to start."""

from pathlib import Path

from budget.unit_costs import UnitCosts
from voice.unit_costs import best_known

QUICK = UnitCosts(0.1, 0.04, 0.02, 0.08, 0.1, 0.06, 0.15)
SLOW = UnitCosts(0.2, 0.03, 0.02, 0.09, 0.1, 0.06, 0.15)


def test_the_shortest_time_of_each_piece_counts(tmp_path: Path) -> None:
    file = tmp_path / "unit_costs.json"
    assert best_known(QUICK, "box", file) == QUICK
    best = UnitCosts(0.1, 0.03, 0.02, 0.08, 0.1, 0.06, 0.15)
    assert best_known(SLOW, "box", file) == best
    assert best_known(QUICK, "box", file) == best


def test_times_of_another_machine_or_other_models_don_t_count(tmp_path: Path) -> None:
    file = tmp_path / "unit_costs.json"
    best_known(QUICK, "box", file)
    assert best_known(SLOW, "other box", file) == SLOW


def test_a_file_that_can_t_be_read_or_written_costs_nothing(tmp_path: Path) -> None:
    file = tmp_path / "unit_costs.json"
    file.write_text("{broken")
    assert best_known(SLOW, "box", file) == SLOW
    assert best_known(SLOW, "box", tmp_path / "missing" / "unit_costs.json") == SLOW
