"""Runs blocking engine work off the event loop, most urgent first, with a bounded queue.

Order: work class first (`Urgency`), earliest deadline inside a class, arrival last. A job whose
caller has gone is dropped if it has not begun; one that has begun can't be stopped, so it
finishes and its result is thrown away. The queue is bounded: when it is full, `run` raises
`QueueFull` for droppable work and makes room by dropping the least urgent job otherwise.
"""

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

from budget.work import Urgency, Work

T = TypeVar("T")


class QueueFull(Exception):
    """The work was not taken: too much of greater urgency is waiting already."""


@dataclass(order=True)
class _Job:
    urgency: Urgency
    deadline: float
    order: int
    work: Callable[[], Any] = field(compare=False)
    result: "Future[Any]" = field(compare=False)
    queued: float = field(compare=False)


class Scheduler:
    """A few worker threads behind one priority queue.

    `workers` is the number of jobs that may run at once (an engine's own thread count is its
    affair); `limit` bounds the jobs waiting; `share` is where its work counts.
    """

    def __init__(self, name: str, *, workers: int = 1, limit: int = 64, share: Work | None = None) -> None:
        self._name, self._limit, self._share = name, limit, share or Work()
        self._jobs: list[_Job] = []
        self._order = itertools.count()
        self._ready = threading.Condition()
        self._closed = False
        self._running = 0
        self._threads = [threading.Thread(target=self._work, name=f"{name}-{i}", daemon=True) for i in range(workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], T], urgency: Urgency, *, deadline: float = float("inf")) -> "Future[T]":
        """Queue `work` for a worker thread. Raises `QueueFull`; cancelling the future drops it if it waits."""
        result: Future[T] = Future()
        self._enqueue(_Job(urgency, deadline, next(self._order), work, result, perf_counter()))
        return result

    async def run(self, work: Callable[[], T], urgency: Urgency, *, deadline: float = float("inf")) -> T:
        """Run `work` on a worker thread and return its result; raises what it raises, or `QueueFull`."""
        return await asyncio.wrap_future(self.submit(work, urgency, deadline=deadline))

    @property
    def idle(self) -> bool:
        """Whether work submitted now would begin at once."""
        with self._ready:
            return not self._jobs and self._running < len(self._threads)

    def waits_before(self, urgency: Urgency) -> bool:
        """Whether more urgent work waits: a job that can stop between its steps then gives way."""
        with self._ready:
            return any(job.urgency < urgency and not job.result.cancelled() for job in self._jobs)

    def close(self) -> None:
        """Drop what waits, let what runs finish, end the threads."""
        with self._ready:
            self._closed = True
            dropped, self._jobs = self._jobs, []
            self._ready.notify_all()
        for job in dropped:
            job.result.cancel()
        for thread in self._threads:
            thread.join(timeout=10)

    def _enqueue(self, job: _Job) -> None:
        with self._ready:
            if self._closed:
                raise QueueFull("the scheduler is closed")
            self._jobs = [waiting for waiting in self._jobs if not waiting.result.cancelled()]
            heapq.heapify(self._jobs)
            if len(self._jobs) >= self._limit:
                last = max(self._jobs)
                if last <= job:
                    raise QueueFull(f"{len(self._jobs)} jobs of greater urgency are waiting")
                self._jobs.remove(last)
                heapq.heapify(self._jobs)
                last.result.set_exception(QueueFull("dropped for more urgent work"))
            heapq.heappush(self._jobs, job)
            self._ready.notify()

    def _work(self) -> None:
        while True:
            with self._ready:
                while not self._jobs and not self._closed:
                    self._ready.wait()
                if self._closed:
                    return
                job = heapq.heappop(self._jobs)
                self._running += 1
            self._do(job)
            with self._ready:
                self._running -= 1

    def _do(self, job: _Job) -> None:
        if not job.result.set_running_or_notify_cancel():
            return
        try:
            with self._share.piece(self._name, job.urgency, perf_counter() - job.queued):
                result = job.work()
            job.result.set_result(result)
        except BaseException as error:  # noqa: BLE001 - handed to whoever awaits the job
            job.result.set_exception(error)
