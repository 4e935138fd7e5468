"""The one loop: every curriculum, every task, interrupted or not."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim.lr_scheduler import LRScheduler

from tuneup.curriculum import (
    MODEL,
    Curriculum,
    OptimizerFactory,
    Stage,
    Update,
    View,
    full,
    task_loss,
)
from tuneup.errors import DivergenceError, InputError
from tuneup.graph.hashing import seed_of
from tuneup.nn.forward import check_depth
from tuneup.tasks import GraphView, Moment, PseudoLabels, Task
from tuneup.tasks.base import in_batches

from .checkpoints import (
    Checkpoints,
    finished_entry,
    progress_entry,
    use_finished,
    use_progress,
)
from .digests import describe, modules_read, stage_digests, text_of
from .optimizers import (
    NotFiniteError,
    SchedulerFactory,
    adam,
    check_factories,
    make_optimizer,
    make_scaler,
    make_scheduler,
    step,
    step_scheduler,
)
from .ranks import Ranks, join
from .result import Callback, Epoch, Progress, Result, StageRecord, TrainingRecord
from .selection import (
    Final,
    State,
    comparable_stages,
    copy_state,
    is_due,
    is_unfinished,
    last_answer,
    put_state,
    reason_to_stop,
    turn,
    validated_stages,
    winner,
)
from .slices import Part, check_views, rank_part, shared_labels, weighted


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
    control: bool = False,
    batch_size: int | None = None,
    num_neighbors: Sequence[int] | None = None,
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
            stage's weights ("dial"; see :mod:`tuneup.train.selection`).
        control: also train a copy of stage 1's model on without dropping, for as many epochs as the
            last stage had: a gain over it is not one of longer training. It is ``Result.control``.
        batch_size: supervised nodes or pairs per update; by default the task's own, or all of them.
        num_neighbors: neighbours that a batch reads of a node, for each layer from the outputs
            back; -1: all of them.  Batches are drawn and gathered one ahead, in another thread, and
            validation goes layer by layer, in bounded memory.

    Raises:
        InputError: if the modules cannot be trained by these stages; before any epoch.
        DivergenceError: if a loss, gradient or score is not finite; the model is then in its best
            state so far.
        CheckpointError: if a stored stage is damaged.
    """
    ranks = join()
    if final not in get_args(Final):
        raise InputError(f"final must be one of {', '.join(get_args(Final))}; got {final!r}.")
    store = ranks.store(None if checkpoints is None else Checkpoints.of(checkpoints))
    task = in_batches(task, batch_size, num_neighbors)
    run = Run(model, task, curriculum, seed, modules or {}, optimizer, scheduler, ranks)
    if store is not None:
        store.prepare()
        store.warn_of_other_weights(run.digests)
    run.store, run.fresh, run.callback = store, fresh, callback
    if control:
        _check_control(run.curriculum)
    result = run.train(final)
    if control:
        others = {name: deepcopy(each) for name, each in run.modules.items() if name != MODEL}
        result.control = train(
            result.copy(0),
            task,
            (_control_stage(result),),
            seed=seed,
            modules=others,
            checkpoints=store,
            fresh=fresh,
            optimizer=optimizer,
            scheduler=scheduler,
        )
    return result


def _check_control(curriculum: Curriculum) -> None:
    if len(curriculum) < 2 or {curriculum[0].module, curriculum[-1].module} != {MODEL}:
        raise InputError("control: needs two stages or more of the model; leave it out.")


def _control_stage(result: Result) -> Stage:
    """Stage 1 on the schedule of the last stage, for as many epochs as that ran."""
    first, last = result.curriculum[0], result.curriculum[-1]
    schedule = replace(last.schedule, epochs=len(result.record.stages[-1].epochs), patience=None)
    return replace(first, schedule=schedule, optimizer=last.optimizer)


_LABELLING = -(1 << 40)
"""The step of pseudo-labelling: before all updates, and apart from all validations."""


@contextmanager
def seeded(moment: Moment, rank: int = 0) -> Iterator[None]:
    """Global generators seeded for one moment, and the caller's own state untouched after it.

    Ranks draw other numbers, or they would all drop the same units.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed_of(*moment, *([rank] if rank else [])))
        yield


class Run:
    """A run between two updates: what is stored of it, and how to resume."""

    store: Checkpoints | None = None
    fresh = False
    callback: Callback | None = None
    annealing: LRScheduler | None = None
    scaler: torch.amp.GradScaler | None = None

    def __init__(
        self,
        model: nn.Module,
        task: Task[Any],
        curriculum: Curriculum,
        seed: int,
        modules: Mapping[str, nn.Module],
        optimizer: OptimizerFactory,
        scheduler: SchedulerFactory | None,
        ranks: Ranks,
    ) -> None:
        self.ranks = ranks
        if isinstance(curriculum, Stage):
            raise InputError("A curriculum is a tuple of stages: write (stage,) for one.")
        if MODEL in modules:
            raise InputError(f"'{MODEL}' is the model itself: name further modules otherwise.")
        self.task, self.curriculum, self.seed = task, tuple(curriculum), seed
        self.modules: dict[str, nn.Module] = {MODEL: model, **modules}
        self.optimizer, self.scheduler = optimizer, scheduler
        check_modules(self.curriculum, self.modules)
        check_factories(self.curriculum, optimizer, scheduler)
        if task.num_neighbors is not None:
            check_sampling(self.curriculum, self.modules, task.num_neighbors)
        if ranks.several:
            ranks.agree("the graph or its task", task.digest(), "copy one graph to every machine")
            ranks.share_state(self.modules)
        self.digests = stage_digests(
            self.modules, task, self.curriculum, seed, optimizer, scheduler
        )
        if ranks.several:
            ranks.agree("the run", " ".join(self.digests), "start every process alike")
        self.record = TrainingRecord(seed, task.metric, selection=task.selection)
        self.states: list[State] = []
        self.pseudo: dict[int, PseudoLabels] = {}
        # Of the stage in progress:
        self.epoch = self.step = 0
        self.done: list[tuple[float, int]] = []  # loss and size of each batch of this epoch
        self.saved = 0, 0.0  # step and time of the last checkpoint
        self.best: State = {}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.readable: dict[str, nn.Module] = {}

    def train(self, final: Final) -> Result:
        """Run the stages that are not stored, and leave the result in the model."""
        if self.store is not None and self.fresh:
            for digest in self.digests:  # or a run that is killed would mix old and new stages
                self.store.remove(digest)
        for index in range(len(self.curriculum)):
            if not self._use_stored(index):
                if self.store is None:
                    self._train_stage(index)
                    continue
                with self.store.locked(self.digests[index]):
                    if not self._use_stored(index):  # another process may have trained it
                        self._train_stage(index)
        result = Result(
            self.modules, self.curriculum, self.record, self.states, self.task, self.pseudo
        )
        last = last_answer(self.curriculum)
        first = next(iter(comparable_stages(self.curriculum, last)), None)
        if final == "dial" and first is not None and self.curriculum[last].score is None:
            self._turn_dial(first, last)
        else:
            self.record.winner = winner(self.curriculum, self.record, final)
            result.load(self.record.winner)
            self.record.validation = self._result_score()
        return result

    def _turn_dial(self, first: int, last: int) -> None:
        """Select among the averages of two stages' weights."""
        module = self.modules[self.curriculum[last].module]
        with seeded(Moment(self.seed, last, _LABELLING)):
            dial = turn(module, self.task, (self.states[first], self.states[last]))
        self.ranks.share_state({MODEL: module})
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

    # One stage

    def _use_stored(self, index: int) -> bool:
        """Go to the end of a stage that is stored; whether it is."""
        if self.store is None or self.fresh:
            return False
        entry = self.store.find(self.digests[index])
        if entry is not None:
            use_finished(self, index, entry)
        return entry is not None

    def _train_stage(self, index: int) -> None:
        """Train a stage, from where it was saved, and store it."""
        store, stage = self.store, self.curriculum[index]
        digest, module = self.digests[index], self.modules[stage.module]
        progress = None if store is None or self.fresh else store.find(digest, "progress")
        if progress is not None:
            use_progress(self, index, progress)
        else:
            self._begin(index, stage)
        names = modules_read(self.curriculum, index, self.modules)
        self.readable = {name: self.modules[name] for name in names}
        record = self.record.stages[index]
        supervision = self.task.supervision(self.pseudo.get(index))
        self.saved = self.step, time.monotonic()
        while not record.stopped:
            self._train_epoch(index, stage, supervision)
            if store is not None and self.epoch % store.every == 0 and not record.stopped:
                self._save(index)
            self._report(stage, record)
        put_state(module, self.best)
        self.states.append(self.best)
        self.best = {}
        if store is not None:
            store.add(digest, finished_entry(self, index))

    def _save(self, index: int) -> None:
        assert self.store is not None
        self.store.save_progress(self.digests[index], progress_entry(self, index))
        self.saved = self.step, time.monotonic()

    def _begin(self, index: int, stage: Stage) -> None:
        """Set a stage up: pseudo-labels from the model so far, fresh optimisers."""
        record = StageRecord(index, stage.module, text_of(describe(stage)))
        record.digest = self.digests[index]
        record.metric = "" if stage.score is None else _score_name(stage, self.task)
        if stage.pseudo_labels:
            labels = self._pseudo_labels(index)
            if labels is not None:
                self.pseudo[index] = labels
                record.pseudo_labels = len(labels)
        self.epoch, self.step, self.done = 0, 0, []
        self.best = copy_state(self.modules[stage.module])
        self.make_optimizers(stage)
        self.record.stages.append(record)

    def _pseudo_labels(self, index: int) -> PseudoLabels | None:
        teacher = self.curriculum[validated_stages(self.curriculum, index)[-1]].module
        label = self.curriculum[index].pseudo_labels
        with torch.no_grad(), seeded(Moment(self.seed, index, _LABELLING)):
            model = self.modules[teacher].eval()
            own = partial(label, self.task) if callable(label) else self.task.pseudo_labels
            return shared_labels(self.ranks, lambda: own(model))

    def make_optimizers(self, stage: Stage) -> None:
        """A fresh optimiser for each module that the stage steps, and a scheduler for its own."""
        schedule, factory = stage.schedule, stage.optimizer or self.optimizer
        made = {
            extra.module: make_optimizer(factory, self.modules[extra.module], extra.lr, 0.0)
            for extra in stage.extra_steps
        }
        made[stage.module] = make_optimizer(
            factory, self.modules[stage.module], schedule.lr, schedule.weight_decay
        )
        self.optimizers = made
        self.scaler = make_scaler(self.task.graph.device)
        if self.scheduler is not None:
            self.annealing = make_scheduler(self.scheduler, made[stage.module])

    # One epoch

    def _train_epoch(self, index: int, stage: Stage, supervision: Any) -> None:
        """Updates, then a validation if one is due, and the record of both."""
        record, schedule, start = self.record.stages[index], stage.schedule, time.perf_counter()
        loss = self._mean_loss(index, stage, supervision)
        self.epoch += 1
        due = is_due(schedule, self.epoch, self.task.validation_interval)
        score = self._validate(index, stage) if due else None
        if score is not None and score > record.best_score:
            record.best_score, record.best_epoch = score, self.epoch
            self.best = copy_state(self.modules[stage.module])
        seconds = time.perf_counter() - start
        record.epochs.append(Epoch(self.epoch, loss, score, self._rate(stage), seconds))
        if self.annealing is not None:
            step_scheduler(self.annealing, score)
        record.stopped = reason_to_stop(record, schedule, _score_name(stage, self.task))
        record.unfinished = bool(record.stopped) and is_unfinished(record, schedule)

    def _mean_loss(self, index: int, stage: Stage, supervision: Any) -> float:
        """One update per batch of the supervision; their mean loss, weighted by their sizes."""
        batches = self.task.batches(supervision, Moment(self.seed, index, self.epoch))
        left = islice(batches, len(self.done), None)  # of an epoch that was interrupted
        for batch, part, views in self._sampled(index, stage, left):
            loss = self._update(index, stage, part, views)
            self.done.append((loss, self.task.size(batch)))
            self.step += 1
            step, start = self.saved
            if self.store and self.store.is_due(self.step - step, time.monotonic() - start):
                self._save(index)
        done, self.done = self.done, []
        total = sum(size for _, size in done)
        return sum(loss * (size / total) for loss, size in done)

    def _sampled(
        self, index: int, stage: Stage, batches: Iterable[Any]
    ) -> Iterator[tuple[Any, Part, tuple[GraphView, ...]]]:
        """Batches, this rank's part, and views sampled for it if neighbours are: one ahead."""
        steps = enumerate(batches, self.step)
        moments = ((batch, Moment(self.seed, index, step)) for step, batch in steps)
        parts = ((b, m, rank_part(self.task, b, m, self.ranks)) for b, m in moments)
        if self.task.num_neighbors is None:
            yield from ((batch, part, ()) for batch, _, part in parts)
            return

        def draw(batch: Any, part: Part, views: tuple[GraphView, ...]) -> Any:
            if part.share:
                see = partial(self.task.sampled, supervision=part.supervision, moment=part.moment)
                views = tuple(map(see, views))
            return batch, part, views

        with ThreadPoolExecutor(1) as pool:
            waiting: deque[Future[Any]] = deque()
            for batch, moment, part in parts:
                with seeded(moment):
                    views = tuple(self._view(view, moment) for view in stage.views)
                waiting.append(pool.submit(draw, batch, part, views))
                if len(waiting) > 1:
                    yield waiting.popleft().result()
            yield from (future.result() for future in waiting)

    def _update(self, index: int, stage: Stage, part: Part, views: tuple[GraphView, ...]) -> float:
        """One optimiser step on the stage's objective, after the extra steps it asks for."""
        moment = Moment(self.seed, index, self.step)
        for module in self.modules.values():
            module.eval()
        for name in self.optimizers:  # last: one module may hold another
            self.modules[name].train()
        try:
            with seeded(moment, self.ranks.rank):
                views = views or tuple(self._view(view, moment) for view in stage.views)
                check_views(views, self.ranks)
                seen = (self.task, views, part.supervision, part.moment)
                for extra in stage.extra_steps:
                    for _ in range(extra.repeats):
                        update = Update(self.readable, extra.module, *seen)
                        loss = weighted(extra.objective, update, part.share)
                        optimizer = self.optimizers[extra.module]
                        step(optimizer, loss, 1.0, None, self.scaler, self.ranks)
                update = Update(self.readable, stage.module, *seen)
                loss = weighted(stage.objective, update, part.share)
                factor = None if self.annealing else stage.schedule.factor(self.epoch)
                optimizer, clip = self.optimizers[stage.module], stage.schedule.clip
                value = step(optimizer, loss, factor, clip, self.scaler, self.ranks)
                for name in self.optimizers:
                    self.ranks.average_buffers(self.modules[name])
                return value
        except NotFiniteError as problem:
            raise self._diverged(index, stage, self.epoch, str(problem)) from None

    def _view(self, view: View, moment: Moment) -> GraphView:
        seen = view(self.task.graph, moment)
        if not isinstance(seen, GraphView):
            raise InputError(
                f"The view {view!r} must return a tuneup.tasks.GraphView; got a "
                f"{type(seen).__name__}. GraphView(graph) is enough for other edges."
            )
        return seen

    def _validate(self, index: int, stage: Stage) -> float:
        for module in self.modules.values():
            module.eval()
        # A stream of its own: validation must not foresee the draws of the next update.
        with torch.no_grad(), seeded(Moment(self.seed, index, -self.epoch)):
            if stage.score is not None:
                score = self.ranks.number(partial(stage.score, self.readable, self.task))
            else:
                module = self.modules[stage.module]
                score = self.ranks.number(partial(self.task.validate, module))
        if not math.isfinite(score):
            raise self._diverged(index, stage, self.epoch - 1, f"validation gives {score}")
        return score

    def _rate(self, stage: Stage, epoch: int | None = None) -> float:
        """The learning rate of an epoch (from 0), by default the last one's."""
        if self.annealing is not None:
            return float(self.optimizers[stage.module].param_groups[0]["lr"])
        return stage.schedule.lr * stage.schedule.factor(self.epoch - 1 if epoch is None else epoch)

    def _report(self, stage: Stage, record: StageRecord) -> None:
        if self.callback is not None and self.ranks.is_main:
            last, counts = record.epochs[-1], (len(self.curriculum), stage.schedule.epochs)
            progress = Progress.of(
                self.record, record, last, record.best_score, record.stopped, *counts
            )
            self.callback(progress)

    def _diverged(self, index: int, stage: Stage, epoch: int, problem: str) -> DivergenceError:
        """The error to raise, with the best state so far left in the module."""
        record, state = self.record.stages[index], self.best
        source = f"the state that stage {index + 1} began with"
        if record.best_epoch:
            name = _score_name(stage, self.task)
            source = f"epoch {record.best_epoch}, {name} {record.best_score:.4f}"
        for k in comparable_stages(self.curriculum, index) if stage.score is None else []:
            if self.record.stages[k].best_score > record.best_score:
                record, state = self.record.stages[k], self.states[k]
                source = f"stage {k + 1}'s best, {self.task.metric} {record.best_score:.4f}"
        put_state(self.modules[stage.module], state)
        self.modules[stage.module].eval()
        return DivergenceError(
            f"Stage {index + 1}, epoch {epoch + 1}: {problem} (learning rate "
            f"{self._rate(stage, epoch):g}). The {stage.module} keeps its best state ({source}). "
            "Try a lower learning rate, or look for extreme features."
        )


def _score_name(stage: Stage, task: Task[Any]) -> str:
    return task.metric if stage.score is None else "score"


def check_sampling(
    curriculum: Curriculum, modules: Mapping[str, nn.Module], num_neighbors: Sequence[int]
) -> None:
    """Refuse stages and modules that cannot be trained on samples of neighbours."""
    for index, stage in enumerate(curriculum):
        if stage.objective is not task_loss or stage.extra_steps:
            raise InputError(
                f"num_neighbors: stage {index + 1} has an objective of its own, which reads whole "
                "graphs; leave out num_neighbors, or train Base, DropEdge or TuneUp."
            )
        check_depth(modules[stage.module], num_neighbors)


def check_modules(curriculum: Curriculum, modules: Mapping[str, nn.Module]) -> None:
    """Refuse a curriculum that these modules cannot be trained by."""
    if not curriculum:
        raise InputError("A curriculum needs at least one stage.")
    for index, stage in enumerate(curriculum):
        for name in stage.trains:
            if name not in modules:
                known = ", ".join(modules)
                raise InputError(f"Stage {index + 1} trains '{name}'; there are only: {known}.")
        if stage.pseudo_labels and not validated_stages(curriculum, index):
            raise InputError(
                f"Stage {index + 1} cannot use pseudo-labels: no stage before it trains a "
                "model that the task validates."
            )
    thinned = any(view != full for stage in curriculum for view in stage.views)
    for name, module in modules.items():
        if not isinstance(module, nn.Module):
            raise InputError(f"The {name} must be a torch.nn.Module; got {module!r}.")
        if any(map(is_lazy, module.parameters())):
            raise InputError(
                f"The {name} has parameters of unknown shape: call it once on the data first."
            )
        if thinned and any(getattr(part, "cached", False) is True for part in module.modules()):
            raise InputError(
                f"A layer of the {name} keeps the first graph it sees (cached=True), and would "
                "never notice a dropped edge: make it with cached=False."
            )
    for name in dict.fromkeys(name for stage in curriculum for name in stage.trains):
        if not any(p.requires_grad for p in modules[name].parameters()):
            raise InputError(f"The {name} has no parameter that could be trained.")
