"""Bulk threads are nicer than the rest."""

import os
import sys
import threading

import pytest

from budget.priority import bulk_threads


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own on Linux only")
def test_only_threads_started_inside_give_way() -> None:
    stop = threading.Event()
    outside = threading.Thread(target=stop.wait)
    inside = threading.Thread(target=stop.wait)
    outside.start()
    with bulk_threads(3):
        inside.start()
    assert outside.native_id is not None
    assert inside.native_id is not None
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, inside.native_id) == 3
    assert os.getpriority(os.PRIO_PROCESS, outside.native_id) == ours
    stop.set()
    inside.join()
    outside.join()
