"""Batches from many clients: what they ask is gathered while the model is busy, and handed to it together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from aimwise.errors import NoAnswer
from aimwise.web.common import Refused

Work = Callable[[Sequence[Any]], list[Any]]


@dataclass(eq=False)
class Ticket:
    """One request: its items, what became of them, and the future on which its handler waits."""

    items: Sequence[Any]
    answer: asyncio.Future[list[Any]]
    taken: int = 0
    left: int = 0
    done: list[Any] = field(default_factory=list)

    def expire(self, timeout: float) -> None:
        """Stop waiting."""
        if not self.answer.done():
            said = f"There was no answer within {timeout:g} seconds. Send fewer items, or later."
            self.answer.set_exception(Refused(504, "TimedOut", said))


class Batcher:
    """Hands items to `work` in a thread of its own, at most `most` at a time, and gives each request its results in order.

    A batch is what has come while the last one was worked on. Where the last one was of several requests, the next waits `wait`
    seconds for company; a client who is alone is not made to wait. What cannot be worked on together is tried in halves, so that
    one bad item fails alone: its result is then the error. room: how many items may wait.
    """

    def __init__(
        self, work: Work, *, most: int, wait: float, room: int, seen: Callable[[int], None] = lambda n: None, name: str = ""
    ) -> None:
        self.work, self.most, self.wait, self.room, self.seen = work, most, wait, room, seen
        self.queue: deque[Ticket] = deque()
        self.waiting = 0
        self.company = False
        self.name = name
        self.thread: ThreadPoolExecutor | None = None  # made when there is work, so that an application may start again
        self.task: asyncio.Task[None] | None = None

    async def ask(self, items: Sequence[Any], *, timeout: float) -> list[Any]:
        """What became of the items: results, or the errors of those that failed."""
        if not items:
            return []
        if self.waiting + len(items) > self.room:
            raise Refused(
                503,
                "Busy",
                f"{self.waiting:,} items wait already, {self.room:,} may. Try again soon.",
                headers={"retry-after": "1"},
            )
        ticket = Ticket(items, asyncio.get_running_loop().create_future(), left=len(items), done=[None] * len(items))
        self.queue.append(ticket)
        self.waiting += len(items)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._serve())
        timer = ticket.answer.get_loop().call_later(timeout, ticket.expire, timeout)
        try:
            return await ticket.answer
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Finish what was accepted and end the thread."""
        while self.task is not None and not self.task.done():
            await self.task
        if self.thread is not None:
            self.thread.shutdown()
            self.thread = None

    async def _serve(self) -> None:
        self.thread = self.thread or ThreadPoolExecutor(1, thread_name_prefix=f"aimwise-{self.name}")
        while self.queue:
            if self.company and self.wait and self.waiting < self.most:
                await asyncio.sleep(self.wait)
            batch = self._gathered()
            if not batch:
                continue
            self.company = any(ticket is not batch[0][0] for ticket, _ in batch)
            items = [ticket.items[i] for ticket, i in batch]
            try:
                self.seen(len(batch))
                results = await asyncio.get_running_loop().run_in_executor(self.thread, in_halves, self.work, items)
            except Exception as e:  # whatever it is, no one is left waiting, and the next batch has its turn
                results = [e] * len(batch)
            for (ticket, i), result in zip(batch, results, strict=True):
                ticket.done[i] = result
                ticket.left -= 1
                if not ticket.left and not ticket.answer.done():
                    ticket.answer.set_result(ticket.done)

    def _gathered(self) -> list[tuple[Ticket, int]]:
        """The next items; those that no one waits for any more are dropped."""
        batch: list[tuple[Ticket, int]] = []
        while self.queue and len(batch) < self.most:
            ticket = self.queue[0]
            given_up = ticket.answer.done()
            take = len(ticket.items) - ticket.taken
            take = take if given_up else min(take, self.most - len(batch))
            if not given_up:
                batch += [(ticket, i) for i in range(ticket.taken, ticket.taken + take)]
            ticket.taken += take
            self.waiting -= take
            if ticket.taken == len(ticket.items):
                self.queue.popleft()
        return batch


def in_halves(work: Work, items: Sequence[Any]) -> list[Any]:
    """The results of all items; where they fail together, those of each half, down to the error of a single one."""
    try:
        return work(items)
    except NoAnswer as e:  # the model's service is away: asking again item by item would take as many times as long
        return [e] * len(items)
    except Exception as e:
        if len(items) == 1:
            return [e]
        half = len(items) // 2
        return in_halves(work, items[:half]) + in_halves(work, items[half:])
