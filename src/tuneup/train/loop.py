"""The one loop: every curriculum, every task, interrupted or not."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn

from tuneup.curriculum import MODEL, Curriculum, OptimizerFactory, Stage, Update, View
from tuneup.errors import DivergenceError, InputError
from tuneup.graph.hashing import seed_of
from tuneup.runtime import refuse_distributed
from tuneup.tasks import GraphView, Moment, PseudoLabels, Task

from .annealing import Annealing, SchedulerFactory, check_makers
from .checkpoint import Checkpoints
from .checks import check_run
from .dial import turn
from .digests import describe, modules_read, stage_digests, text_of
from .judging import (
    Final,
    is_due,
    is_unfinished,
    judged,
    last_answer,
    reason_to_stop,
    rivals,
    winner,
)
from .optim import NotFiniteError, adam, make_optimizer, step
from .record import Epoch, StageRecord, State, TrainingRecord
from .result import Callback, Progress, Result
from .resume import finished_entry, progress_entry, use_finished, use_progress
from .state import copy_state, put_state


def train(
    model: nn.Module,
    task: Task[Any],
    curriculum: Curriculum,
    *,
    seed: int = 0,
    modules: Mapping[str, nn.Module] | None = None,
    checkpoints: Checkpoints | Path | str | None = None,
    fresh: bool = False,
    callback: Callback | None = None,
    optimizer: OptimizerFactory = adam,
    scheduler: SchedulerFactory | None = None,
    final: Final = "last",
) -> Result:
    """Run a curriculum.

    Args:
        model: the model F; trained in place.
        task: graph, supervision, loss and validation.
        curriculum: the stages.
        seed: of every draw; two runs of one model, weights included, and one seed agree bit for
            bit on one machine. The weights that the model starts with are the caller's:
            ``torch.manual_seed`` before it is built decides them.
        modules: further modules that stages name.
        checkpoints: a folder, or :class:`Checkpoints`, that stages are looked up in and stored to.
            A stage is found by everything that decides its weights: the stages before it, the
            modules with the weights they start with, the data and the seed. A run that was killed
            is resumed, a finished one returns its stored result, and runs that begin alike train
            their first stages once. What cannot be seen is changed code of your own functions and
            classes, which are known by name: pass ``fresh`` after such a change.
        fresh: train all stages again, and replace what is stored of them.
        callback: called after every epoch with a :class:`Progress`.
        optimizer: makes the optimisers; Adam by default.
        scheduler: makes a torch learning-rate scheduler for each stage's optimiser, stepped once an
            epoch (a ``ReduceLROnPlateau`` once a validation).
        final: which state is the result: the last stage's best ("last", as in Algorithm 1), that of
            the stage that validates best ("best"), or the best average of the first and the last
            stage's weights ("dial"; see :mod:`tuneup.train.dial`).
    """
    refuse_distributed()
    if final not in get_args(Final):
        raise InputError(f"final must be one of {', '.join(get_args(Final))}; got {final!r}.")
    run = Run(model, task, curriculum, seed, modules or {}, optimizer, scheduler)
    if checkpoints is not None:
        run.store = Checkpoints.of(checkpoints)
        run.store.prepare()
        run.store.warn_of_other_weights(run.digests)
    run.callback, run.final, run.fresh = callback, final, fresh
    return run.go()


_LABELLING = -(1 << 40)
"""The step of pseudo-labelling: before all updates, and apart from all validations."""


@contextmanager
def seeded(moment: Moment) -> Iterator[None]:
    """Global generators seeded for one moment, and the caller's own state untouched after it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed_of(*moment))
        yield


class Run:
    """A run between two epochs: what a checkpoint holds, and how to go on."""

    callback: Callback | None = None
    store: Checkpoints | None = None
    fresh = False
    annealing: Annealing | None = None
    final: Final = "last"

    def __init__(
        self,
        model: nn.Module,
        task: Task[Any],
        curriculum: Curriculum,
        seed: int,
        modules: Mapping[str, nn.Module],
        optimizer: OptimizerFactory,
        scheduler: SchedulerFactory | None = None,
    ) -> None:
        if isinstance(curriculum, Stage):
            raise InputError("A curriculum is a tuple of stages: write (stage,) for one.")
        self.task, self.curriculum, self.seed = task, tuple(curriculum), seed
        if MODEL in modules:
            raise InputError(f"'{MODEL}' is the model itself: name further modules otherwise.")
        self.modules: dict[str, nn.Module] = {MODEL: model, **modules}
        self.factory, self.scheduler = optimizer, scheduler
        self.record = TrainingRecord(seed, task.metric, selection=task.selection)
        self.states: list[State] = []
        self.best: State = {}
        self.pseudo: dict[int, PseudoLabels] = {}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.seen: dict[str, nn.Module] = self.modules
        self.epoch = self.step = 0
        check_run(self.curriculum, self.modules)
        check_makers(self.curriculum, optimizer, scheduler)
        self.digests = stage_digests(
            self.modules, task, self.curriculum, seed, optimizer, scheduler
        )

    # Algorithm 1

    def go(self) -> Result:
        """Run the stages that the store does not have."""
        for index, stage in enumerate(self.curriculum):
            if not self._use_stored(index):
                with self._locked(index):
                    if not self._use_stored(index):  # another process may have trained it
                        self._train_stage(index, stage)
        self.record.winner = winner(self.curriculum, self.record, self.final)
        result = Result(
            self.modules,
            self.curriculum,
            self.record,
            self.states,
            self.task,
            self.pseudo,
        )
        last = last_answer(self.curriculum)
        first = next(iter(rivals(self.curriculum, last)), None)
        if self.final == "dial" and first is not None and self.curriculum[last].score is None:
            self._turn(result, first, last)
        else:
            result.load(self.record.winner)
            self.record.validation = self._result_score()
        return result

    def _turn(self, result: Result, first: int, last: int) -> None:
        """Select among the averages of two stages' weights."""
        module = self.modules[self.curriculum[last].module]
        with seeded(Moment(self.seed, last, _LABELLING)):
            dial = turn(module, self.task, (self.states[first], self.states[last]))
        self.record.dial = dial
        self.record.winner = last if dial.chosen else first
        self.record.validation = dial.score

    def _result_score(self) -> float | None:
        """The task's own validation of the result: known, unless its stage has its own score.

        ``None`` for a module that does not answer for the task, such as a generator alone.
        """
        index = self.record.winner
        stage = self.curriculum[index]
        if stage.score is None:
            return self.record.stages[index].best_score
        if not stage.answers:
            return None
        with torch.no_grad(), seeded(Moment(self.seed, index, _LABELLING)):
            return self.task.validate(self.modules[stage.module])

    def _use_stored(self, index: int) -> bool:
        """Go to the end of a stage that is stored; whether it is."""
        entry = None if self.store is None or self.fresh else self.store.find(self.digests[index])
        if entry is not None:
            use_finished(self, index, entry)
        return entry is not None

    @contextmanager
    def _locked(self, index: int) -> Iterator[None]:
        if self.store is None:
            yield
        else:
            with self.store.locked(self.digests[index]):
                yield

    def _train_stage(self, index: int, stage: Stage) -> None:
        """Train a stage, from where it was saved, and store it."""
        progress = None
        if self.store is not None and not self.fresh:
            progress = self.store.find(self.digests[index], "progress")
        if progress is not None:
            use_progress(self, index, progress)
        else:
            self._begin(index, stage)
        self._run_stage(index, stage)
        if self.store is not None:
            self.store.add(self.digests[index], finished_entry(self, index))

    def _begin(self, index: int, stage: Stage) -> None:
        """Set a stage up: pseudo-labels from the model so far, fresh optimisers."""
        record = StageRecord(index, stage.module, text_of(describe(stage)))
        record.digest = self.digests[index]
        record.metric = "" if stage.score is None else self._score_name(stage)
        if stage.pseudo_labels:
            labels = self._label(index)
            if labels is not None:
                self.pseudo[index] = labels
                record.pseudo_labels = len(labels)
        self.epoch = self.step = 0
        self.best = copy_state(self.modules[stage.module])
        self.make_optimizers(stage)
        self.record.stages.append(record)

    def _label(self, index: int) -> PseudoLabels | None:
        labeller = self.modules[self.curriculum[judged(self.curriculum, index)[-1]].module].eval()
        with torch.no_grad(), seeded(Moment(self.seed, index, _LABELLING)):
            return self.task.pseudo_labels(labeller)

    def _run_stage(self, index: int, stage: Stage) -> None:
        record, module = self.record.stages[index], self.modules[stage.module]
        self.seen = self._modules_seen(index)
        supervision = self.task.supervision(self.pseudo.get(index))
        while not record.stopped:
            start = time.perf_counter()
            loss = self._run_epoch(index, stage, supervision)
            self.epoch += 1
            due = is_due(stage.schedule, self.epoch, self.task.validation_interval)
            score = self._validate(index, stage) if due else None
            if score is not None and score > record.best_score:
                record.best_score, record.best_epoch = score, self.epoch
                self.best = copy_state(module)
            seconds = time.perf_counter() - start
            record.epochs.append(Epoch(self.epoch, loss, score, self._rate(stage), seconds))
            if self.annealing is not None:
                self.annealing.step(score)
            record.stopped = reason_to_stop(record, stage.schedule, self._score_name(stage))
            record.unfinished = bool(record.stopped) and is_unfinished(record, stage.schedule)
            if self.store is not None and self.epoch % self.store.every == 0 and not record.stopped:
                self.store.save_progress(self.digests[index], progress_entry(self, index))
            self._report(stage, record)
        put_state(module, self.best)
        self.states.append(self.best)
        self.best = {}

    def _modules_seen(self, index: int) -> dict[str, nn.Module]:
        """What a stage's objectives and score may read: what its digest covers."""
        names = modules_read(self.curriculum, index, self.modules)
        return {name: self.modules[name] for name in names}

    def _run_epoch(self, index: int, stage: Stage, supervision: Any) -> float:
        """One update per batch of the supervision; their mean loss, weighted by their sizes."""
        losses, sizes = [], []
        for batch in self.task.batches(supervision, Moment(self.seed, index, self.epoch)):
            losses.append(self._update(index, stage, batch))
            sizes.append(self.task.size(batch))
            self.step += 1
        total = sum(sizes)
        return sum(loss * (size / total) for loss, size in zip(losses, sizes, strict=True))

    def _update(self, index: int, stage: Stage, supervision: Any) -> float:
        """One optimiser step on the stage's objective, after the extra steps it asks for."""
        moment = Moment(self.seed, index, self.step)
        for module in self.modules.values():
            module.eval()
        for name in self.optimizers:  # last: one module may hold another
            self.modules[name].train()
        try:
            with seeded(moment):
                views = tuple(self._seen(view, moment) for view in stage.views)
                seen = (self.task, views, supervision, moment)
                for extra in stage.extra_steps:
                    for _ in range(extra.repeats):
                        loss = extra.objective(Update(self.seen, extra.module, *seen))
                        step(self.optimizers[extra.module], loss, 1.0)
                loss = stage.objective(Update(self.seen, stage.module, *seen))
                factor = None if self.annealing else stage.schedule.factor(self.epoch)
                return step(self.optimizers[stage.module], loss, factor)
        except NotFiniteError as problem:
            raise self._diverged(index, stage, self.epoch, str(problem)) from None

    def _seen(self, view: View, moment: Moment) -> GraphView:
        seen = view(self.task.graph, moment)
        if not isinstance(seen, GraphView):
            raise InputError(
                f"The view {view!r} must return a tuneup.tasks.GraphView; got a "
                f"{type(seen).__name__}. GraphView(graph) is enough for other edges."
            )
        return seen

    def _diverged(self, index: int, stage: Stage, epoch: int, problem: str) -> DivergenceError:
        """The error to raise, with the best state so far left in the module."""
        record = self.record.stages[index]
        kept = f"the state that stage {index + 1} began with"
        if record.best_epoch:
            name = self._score_name(stage)
            kept = f"epoch {record.best_epoch}, {name} {record.best_score:.4f}"
        state = self.best
        for earlier in rivals(self.curriculum, index) if stage.score is None else []:
            if self.record.stages[earlier].best_score > record.best_score:
                record, state = self.record.stages[earlier], self.states[earlier]
                kept = f"stage {earlier + 1}'s best, {self.task.metric} {record.best_score:.4f}"
        put_state(self.modules[stage.module], state)
        self.modules[stage.module].eval()
        return DivergenceError(
            f"Stage {index + 1}, epoch {epoch + 1}: {problem} (learning rate "
            f"{self._rate(stage, epoch):g}). The "
            f"{stage.module} keeps its best state ({kept}). Try a lower learning rate, or look for "
            "extreme features."
        )

    def _validate(self, index: int, stage: Stage) -> float:
        for module in self.modules.values():
            module.eval()
        # A stream of its own: validation must not foresee the draws of the next update.
        with torch.no_grad(), seeded(Moment(self.seed, index, -self.epoch)):
            if stage.score is not None:
                score = stage.score(self.seen, self.task)
            else:
                score = self.task.validate(self.modules[stage.module])
        if not math.isfinite(score):
            raise self._diverged(index, stage, self.epoch - 1, f"validation gives {score}")
        return score

    def _score_name(self, stage: Stage) -> str:
        return self.task.metric if stage.score is None else "score"

    # What surrounds it

    def make_optimizers(self, stage: Stage) -> None:
        """A fresh optimiser for each module that the stage steps, and a scheduler for its own."""
        schedule, factory = stage.schedule, stage.optimizer or self.factory
        made = {
            extra.module: make_optimizer(factory, self.modules[extra.module], extra.lr, 0.0)
            for extra in stage.extra_steps
        }
        made[stage.module] = make_optimizer(
            factory, self.modules[stage.module], schedule.lr, schedule.weight_decay
        )
        self.optimizers = made
        if self.scheduler is not None:
            self.annealing = Annealing(self.scheduler, made[stage.module])

    def _rate(self, stage: Stage, epoch: int | None = None) -> float:
        """The learning rate of an epoch (from 0), by default the last one's."""
        if self.annealing is not None:
            return float(self.optimizers[stage.module].param_groups[0]["lr"])
        return stage.schedule.lr * stage.schedule.factor(self.epoch - 1 if epoch is None else epoch)

    def _report(self, stage: Stage, record: StageRecord) -> None:
        if self.callback is not None:
            last = record.epochs[-1]
            self.callback(
                Progress(
                    stage=record.stage + 1,
                    stages=len(self.curriculum),
                    epoch=last.epoch,
                    epochs=stage.schedule.epochs,
                    loss=last.loss,
                    score=last.score,
                    best=record.best_score,
                    seconds=last.seconds,
                    metric=self._score_name(stage),
                    stopped=record.stopped,
                    lr=last.lr,
                )
            )
