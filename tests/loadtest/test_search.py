"""The capacity search on machines of known capacity."""

from hypothesis import given
from hypothesis import strategies as st

from loadtest.search import Search


def test_it_begins_where_it_is_told_and_goes_down_if_that_is_too_many() -> None:
    search = Search(first=8)
    tried = []
    while (calls := search.next()) is not None:
        tried.append(calls)
        search.saw(calls, calls <= 3)
    assert search.best == 3
    assert tried[0] == 8
    assert tried.count(3) == 2


def asked(search: Search, capacity: int) -> list[int]:
    tried = []
    while (calls := search.next()) is not None:
        tried.append(calls)
        search.saw(calls, calls <= capacity)
        assert len(tried) < 100
    return tried


@given(st.integers(0, 200))
def test_a_machine_of_known_capacity_is_found_and_its_edge_tried_twice(capacity: int) -> None:
    search = Search()
    tried = asked(search, capacity)
    assert search.best == capacity
    assert capacity == 0 or tried.count(capacity) == 2
    assert capacity + 1 in tried, "the number above was seen to fail"


def test_an_edge_that_held_by_luck_is_not_the_answer() -> None:
    search = Search()
    lucky = True
    while (calls := search.next()) is not None:
        held = calls <= 4 or (calls == 5 and lucky)
        lucky = lucky and calls != 5
        search.saw(calls, held)
    assert search.best == 4
