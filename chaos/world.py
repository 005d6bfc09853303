"""Runs of one job on the local runtime: carries out a history, action by action, and has everything judged as it goes.

A run of the product is under way or not. An action that needs one is carried out between two batches of a run, which is
started for it; any other ends the run first. So a long run sees many actions, and a restart is only what comes between.
Whatever ends a run must have been asked for: a death, or an error that an action has announced. All else is wrong.

Two worlds of one seed write the same journal, unless an action needs a real process.
"""

from __future__ import annotations

import contextlib
import errno
import io
import multiprocessing
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from chaos.ground import Action, Ground, Places
from chaos.mortal import Blow, Mortal
from chaos.shapes import Shape
from chaos.wrong import WrongError
from object_server import S3Proxy
from power_loss import MODELS, Killed, put_back
from watersmeet.cli.main import make_parser
from watersmeet.config import Job, load_job
from watersmeet.errors import InternalError, WatersmeetError
from watersmeet.runtime.local.job import run_job

DISK = "256m"


class World(Ground):
    def __init__(
        self,
        shape: Shape,
        home: Path,
        inputs: Path,
        seed: object,
        resize: Callable[[str], None] | None = None,
        proxy: S3Proxy | None = None,
    ) -> None:
        run = home / "run"
        run.mkdir(parents=True)
        super().__init__(shape, run, inputs, Places.on_disk(run) if proxy is None else Places.on_store(proxy, run))
        self.proxy = proxy  # of the object store that everything is on; None: all is in `home`
        self.resize = resize  # of the disk that `home` is on, if that can be
        self.draw = random.Random(f"world {seed}")
        self.mortal = Mortal(self.home, seed)
        self.job_file = self.feed.folder / "job.toml"
        self._actions: Iterator[Action] = iter(())
        self._next: Action | None = None
        self._full = False

    def end_processes(self) -> None:
        for process in multiprocessing.active_children():
            process.kill()
            process.join()

    # --- a history ---------------------------------------------------------------------------------------------------

    def carry_out(self, actions: Iterable[Action]) -> None:
        self._actions = iter(actions)
        while (action := self._pull()) is not None:
            if action.running:
                self._next = action
                self.run()
            else:
                self.act(action)

    def _pull(self) -> Action | None:
        action, self._next = self._next, None
        return action if action is not None else next(self._actions, None)

    def standing(self) -> dict[str, int]:
        return {**super().standing(), "ops": self.mortal.operations.total()}

    # --- runs --------------------------------------------------------------------------------------------------------

    def job(self) -> Job:
        overrides = [*self.overrides(), 'run.trigger="1 second"']
        return load_job(self.job_file, overrides)

    def job_to_end(self) -> Job:
        overrides = self.overrides()
        return load_job(self.job_file, overrides)

    def overrides(self) -> list[str]:
        """What the settings replace in the job file, which is written with where results go now."""
        self.job_file.write_text(self.job_text("local"))
        return super().overrides()

    def run(self) -> str:
        """A run that goes on with the history until an action wants it to end, or it dies."""
        self.counts["runs"] += 1
        job = self.job()
        return self.guarded(lambda: run_job(job, self.hear, self._between, self.mortal.clock, self.settings.drain))

    def run_to_end(self, stopped: Callable[[], bool] = lambda: False) -> str:
        """A run over all that has arrived, which ends there, or dies."""
        self.counts["runs"] += 1
        job = self.job_to_end()
        return self.guarded(lambda: run_job(job, self.hear, stopped, self.mortal.clock))

    def command(self, *arguments: str) -> str:
        """`watersmeet ARGUMENTS` in this process."""
        self.counts["commands"] += 1
        args = make_parser().parse_args(arguments)

        def call() -> None:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                args.run(args)

        return self.guarded(call)

    def guarded(self, run: Callable[[], None]) -> str:
        """Run, and judge how it ended and what it left: a word."""
        try:
            with self.mortal.alive():
                run()
            ended = "ended"
        except Killed:
            ended = "died"
        except InternalError as error:
            raise WrongError(f"an internal error: {error.render()}") from error
        except WatersmeetError as error:
            if not any(text in error.render() for text in self.excused):
                raise WrongError(f"an error that nothing has asked for: {error.render()}") from error
            ended = error.primary
        if self._full:
            self.empty_disk()
            if os.strerror(errno.ENOSPC) in ended:
                self.came_to_pass("full disk")
        blow = self.mortal.take_blow()
        self.excused = []
        if blow is not None:
            self.came_to_pass(blow.name)
            if blow.power and ended == "died":
                self._lose_power()
        self.judge.look()
        return ended

    def _between(self) -> bool:
        """Called by the run between two batches: carry out the next action, or have the run end for it."""
        self.judge.look()
        action = self._pull()
        if action is not None and action.running:
            self.act(action)
            return False
        self._next = action
        return True

    def deal(self, blow: Blow) -> None:
        self.mortal.deal(blow)

    def forget_log(self) -> None:
        self.mortal.forget_log()

    def fill_disk(self, kilobytes: int) -> None:
        """The disk is this small from now on, until the run ends."""
        assert self.resize is not None
        self.resize(f"{kilobytes}k")
        self._full = True

    def empty_disk(self) -> None:
        assert self.resize is not None
        self.resize(DISK)
        self._full = False

    def _lose_power(self) -> None:
        """The disk as a loss of power may leave it, after the last operation of a run that died."""
        recorder = self.mortal.recorder
        assert recorder is not None
        image = recorder.image(len(recorder.log), self.draw.choice(MODELS), self.draw)
        for path in list(self.home.iterdir()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        put_back(image)
        self.mortal.forget_log()
        self.judge.look()

    def settle(self, whole: bool = False) -> None:
        if self.proxy is not None:
            self.proxy.accident = lambda method, path: None
        super().settle(whole)
