"""Tasks that take turns in one thread, in an order that the seed decides. No real time passes."""

from __future__ import annotations

import threading
from contextlib import suppress
from random import Random

from greenlet import getcurrent, greenlet

from penstock.engine.waiting import Runtime


class Crash(BaseException):
    """The process of the running task has died: nothing of it may do anything any more."""


class StuckError(Exception):
    """A run took more turns than any run needs: something waits or repeats for ever."""


class Task:
    """Something that runs until it waits. `process` is who runs it; None is the outside world."""

    def __init__(self, scheduler, work, process, name):
        self.scheduler = scheduler
        self.process = process
        self.name = name
        self.done = False
        self.wakes_at = scheduler.now
        self.until = None
        self._greenlet = greenlet(self._run, scheduler.hub)
        self._work = work

    def _run(self):
        try:
            self._work()
        except Crash:
            pass
        finally:
            self.done = True

    def ready(self, now):
        stalled = self.process is not None and self.process.stalled_until > now
        return not stalled and (now >= self.wakes_at or (self.until is not None and self.until()))

    def turn(self):
        self.until = None
        self._greenlet.switch()

    def kill(self):
        """Drop the task; its `finally` blocks find that their process is dead."""
        if self._greenlet:  # it has begun
            with suppress(Crash):
                self._greenlet.throw(Crash)
        self.done = True


class Scheduler:
    """Decides who runs next. Time moves when nobody can run."""

    MAX_TURNS = 60_000

    def __init__(self, random: Random):
        self.random = random
        self.now = 0.0
        self.hub = getcurrent()
        self.tasks: list[Task] = []
        self.running: Task | None = None
        self.turns = 0

    def spawn(self, work, *, process=None, name=""):
        task = Task(self, work, process, name)
        self.tasks.append(task)
        return task

    def run(self, until):
        """Let tasks take turns until the condition holds."""
        while not until():
            self.tasks = [task for task in self.tasks if not task.done]
            ready = [task for task in self.tasks if task.ready(self.now)]
            if not ready:
                self.now = min(self._next(task) for task in self.tasks)
                continue
            self.turns += 1
            if self.turns > self.MAX_TURNS:
                raise StuckError(
                    f"after {self.turns} turns, these still run: "
                    + ", ".join(task.name for task in self.tasks)
                )
            self.running = self.random.choice(ready) if len(ready) > 1 else ready[0]
            self.running.turn()
            self.running = None

    def _next(self, task):
        stalled = task.process.stalled_until if task.process is not None else 0.0
        return max(task.wakes_at, stalled, self.now + 1e-6)

    def pause(self, seconds, until=None):
        """Let others run for some time, or until something holds."""
        task = self.running
        assert task is not None
        task.wakes_at = self.now + max(seconds, 1e-6)
        task.until = until
        self.hub.switch()
        if task.process is not None and task.process.dead:
            raise Crash

    def kill(self, process):
        """End all tasks of a process that has died."""
        for task in self.tasks:
            if task.process is process and task is not self.running:
                task.kill()


class SimulatedRuntime(Runtime):
    """The time and the threads of one simulated process."""

    def __init__(self, scheduler, process):
        self.scheduler = scheduler
        self.process = process

    def monotonic(self):
        return 1_000.0 + self.scheduler.now

    def elapsed(self):
        return 1_000.0 + self.scheduler.now

    def sleep(self, seconds):
        self.scheduler.pause(seconds)

    def event(self):
        return SimulatedEvent(self.scheduler)

    def thread(self, work, *, name):
        return SimulatedThread(self.scheduler, self.process, work, name)


class SimulatedEvent(threading.Event):
    """An event that tasks wait for."""

    def __init__(self, scheduler):
        super().__init__()
        self._scheduler = scheduler

    def wait(self, timeout=None):
        if not self.is_set():
            self._scheduler.pause(float("inf") if timeout is None else timeout, self.is_set)
        return self.is_set()


class SimulatedThread(threading.Thread):
    """A thread that is a task."""

    def __init__(self, scheduler, process, work, name):
        super().__init__(name=name)
        self._scheduler = scheduler
        self._process = process
        self._task = None
        self._work = work

    @property
    def ident(self):
        return None if self._task is None else 1

    def start(self):
        self._task = self._scheduler.spawn(self._work, process=self._process, name=self.name)

    def is_alive(self):
        return self._task is not None and not self._task.done

    def join(self, timeout=None):
        if self.is_alive():
            self._scheduler.pause(
                float("inf") if timeout is None else timeout, lambda: not self.is_alive()
            )
