"""Trials made by any number of processes: they take them from one study of Optuna in SQLite.

A trial whose process died is taken again, and what is finished stays finished.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from tuneup.errors import InputError

from .selection import Planned, Point, Selection, Trial, best_of
from .trial_files import TrialFiles

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial
    from optuna.trial import Trial as Taken

_POLL_SECONDS = 2.0
"""How often a process without work looks whether the others are done."""


class Studies:
    """The studies of one SQLite file.

    Args:
        path: the file; it is made, with its folder, at the first study.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def select(
        self,
        name: str,
        points: Sequence[Point],
        plan: Sequence[Planned],
        train: Callable[[Point, int], float],
        kept: TrialFiles | None = None,
    ) -> Selection:
        """The best of ``points`` by a plan of trials, some of them made by other processes.

        Args:
            name: of the study; another plan under the same name is refused.
            points: the grid, the defaults first; two at least.
            plan: which of them to try, with which training seeds.
            train: a trial's validation score, from its point and seed.
            kept: trials that need not be made again, and where those that are made are kept.
        """
        study = self._open(name, plan)
        while True:
            taken = self._take(study, plan, kept)
            if taken is None:
                if len(done := self._finished(study, plan, kept)) == len(plan):
                    return best_of(done, len(points))
                # Others are at what is left; the trial of one that dies is free again.
                time.sleep(_POLL_SECONDS)
                continue
            trial, lock = taken
            with lock:
                planned = plan[trial.user_attrs["index"]]
                made = _made(planned, train, kept)
                trial.set_user_attr("seconds", made.seconds)
                trial.set_user_attr("mark", kept.mark(planned) if kept else None)
                study.tell(trial, made.score)

    def forget(self, beginning: str) -> None:
        """Remove the studies whose names begin so."""
        if not self.path.exists():
            return
        import optuna

        storage = f"sqlite:///{self.path}"
        with self._lock():
            for name in optuna.get_all_study_names(storage):
                if name.startswith(beginning):
                    optuna.delete_study(study_name=name, storage=storage)

    def _open(self, name: str, plan: Sequence[Planned]) -> Study:
        """The study with its whole plan waiting in it, by whichever process comes first."""
        import optuna  # heavy, and only who selects needs it
        from sqlalchemy.exc import DatabaseError

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps([asdict(planned) for planned in plan], default=str)
        with self._lock():
            try:
                study = optuna.create_study(
                    storage=f"sqlite:///{self.path}",
                    study_name=name,
                    direction="maximize",
                    load_if_exists=True,
                )
            except DatabaseError as error:
                raise InputError(
                    f"{self.path} is no database of studies ({error.orig}). Remove it: trials that "
                    "are finished are kept among the results, and the others are made again."
                ) from error
            if "plan" not in study.user_attrs:
                study.set_user_attr("plan", text)
        if study.user_attrs.get("plan") != text:
            raise InputError(
                f"{self.path}: study {name!r} was begun with other trials; begin it anew with "
                "--fresh, or give back the grid and the number of trials it was begun with."
            )
        return study

    def _take(
        self, study: Study, plan: Sequence[Planned], kept: TrialFiles | None
    ) -> tuple[Taken, AbstractContextManager[Any]] | None:
        """A trial that nobody is at work on, with the lock that says somebody is now."""
        from optuna.trial import TrialState

        with self._lock():
            for found in study.get_trials(states=(TrialState.RUNNING,)):
                lock = self._lock(f"{study.study_name}-{found.number}")
                try:
                    lock.acquire(timeout=0)
                except Timeout:
                    continue  # its process is alive
                try:
                    if study.trials[found.number].state == TrialState.RUNNING:  # not ended since
                        study.tell(found.number, state=TrialState.FAIL)
                finally:
                    lock.release()
            self._enqueue(study, plan, kept)
            if not study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                return None
            trial = study.ask()
            everything = [_parameters(planned) for planned in plan]
            for key in everything[0]:  # the study's own pictures want to know what was tried
                trial.suggest_categorical(key, list(dict.fromkeys(p[key] for p in everything)))
            lock = self._lock(f"{study.study_name}-{trial.number}")
            return trial, lock.acquire(timeout=0)

    def _enqueue(self, study: Study, plan: Sequence[Planned], kept: TrialFiles | None) -> None:
        """Whatever of the plan is neither done nor in hand waits to be taken."""
        from optuna.trial import TrialState

        waiting = study.get_trials(deepcopy=False, states=(TrialState.WAITING, TrialState.RUNNING))
        there = {trial.user_attrs["index"] for trial in waiting}
        there |= self._completed(study, plan, kept).keys()
        for index, planned in enumerate(plan):
            if index not in there:
                study.enqueue_trial(_parameters(planned), user_attrs={"index": index})

    def _finished(
        self, study: Study, plan: Sequence[Planned], kept: TrialFiles | None
    ) -> list[Trial]:
        done = self._completed(study, plan, kept)
        return [
            Trial(plan[index].point, plan[index].seed, _score(trial), trial.user_attrs["seconds"])
            for index, trial in sorted(done.items())
        ]

    def _completed(
        self, study: Study, plan: Sequence[Planned], kept: TrialFiles | None
    ) -> dict[int, FrozenTrial]:
        """Trials that are done, by their place in the plan; the last where one was made anew.

        One that went on from another run of Base than the one that is recorded now is not.
        """
        from optuna.trial import TrialState

        done = {}
        for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            index = trial.user_attrs["index"]
            marks = trial.user_attrs.get("mark"), kept.mark(plan[index]) if kept else None
            if None in marks or marks[0] == marks[1]:
                done[index] = trial
        return done

    def _lock(self, trial: str = "") -> FileLock:
        """Of the file or of one trial; the system frees it when its process ends, however."""
        folder = self.path.with_suffix(".locks")
        folder.mkdir(exist_ok=True)
        name = "".join(c if c.isalnum() or c in "-." else "_" for c in trial) or "all"
        return FileLock(folder / f"{name}.lock", thread_local=False)


def _made(planned: Planned, train: Callable[[Point, int], float], kept: TrialFiles | None) -> Trial:
    found = kept.get(planned) if kept else None
    if found is None:
        start = time.perf_counter()
        score = train(planned.point, planned.seed)
        found = Trial(planned.point, planned.seed, score, round(time.perf_counter() - start, 2))
        if kept:
            kept.put(found)
    return found


def _score(trial: FrozenTrial) -> float:
    assert trial.value is not None  # it is complete
    return trial.value


def _parameters(planned: Planned) -> dict[str, Any]:
    return {**planned.point, "training seed": planned.seed}
