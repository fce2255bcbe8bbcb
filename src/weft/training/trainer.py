"""The training loop. It improves any task on any batches and knows neither text nor translation.

`Trainer.train` says when things happen, `Trainer.update` what a step does. Everything that the future of a run depends
on is the model, the optimizer, `Progress`, and what a task carries from batch to batch (CarryingTask): the learning
rate, the dropout and the order of the data are functions of the step, the seed and the epoch, and of what validations
found. So a checkpoint is small, and a resumed run takes the very steps that an uninterrupted one would.

    selection.py   which weights are the best, and when to stop looking for better ones
    rescue.py      steps that are not finite, memory that runs out, runs that diverge
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from weft.errors import Paused, RunError, WeftError, is_out_of_memory
from weft.runtime import PRECISIONS, choose_precision, derive_seed
from weft.training.ahead import made_ahead
from weft.training.averaging import Weights, follow, holding, mean, put, weights_of
from weft.training.config import Interval, TrainingConfig
from weft.training.distributed import ALONE, Ranks
from weft.training.optimizers import make_optimizer
from weft.training.progress import LOSS, Progress, Window
from weft.training.recording import make_replica
from weft.training.rescue import (
    explaining_out_of_memory,
    give_up_after_skips,
    has_diverged,
    note_fallback,
    skip,
    split_further,
)
from weft.training.run_folder import RunFolder, optimizer_tensors, weight_tensors, weights_in
from weft.training.schedules import SCHEDULES
from weft.training.selection import Selection
from weft.training.signals import StopRequest
from weft.training.task import Batches, BatchOfRows, CarryingTask, Evaluation, Listener, PaddedBatch, Task

Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch", bound=BatchOfRows)


class Trainer(Generic[Model, Batch]):
    """Drives one run from wherever it stands to its end."""

    def __init__(
        self,
        model: Model,
        task: Task[Model, Batch],
        batches: Batches[Batch],
        config: TrainingConfig,
        *,
        run: RunFolder,
        write_model: Callable[[Path, Progress], None],
        read_weights: Callable[[Path], Weights],
        describe_batch: Callable[[Batch], dict[str, list[Any]]],
        listener: Listener,
        seed: int,
        width: int,
        device: torch.device,
        identity: dict[str, Any],
        ranks: Ranks = ALONE,
    ) -> None:
        """`write_model(folder, progress)` writes a complete model folder, of which `read_weights(folder)` gives the
        parameters by name. `describe_batch` shows a person what is in a batch that was skipped: lists of JSON values,
        by the keys that they get in skipped.jsonl. `identity` is kept in every checkpoint.

        With several `ranks` each has its part of every batch, and `run`, `read_weights` and `task.evaluate` give all
        of them the same.
        """
        self.model, self.task, self.batches, self.config = model, task, batches, config
        self.run, self.write_model, self.read_weights = run, write_model, read_weights
        self.describe_batch, self.listener = describe_batch, listener
        self.seed, self.device, self.identity, self.ranks = seed, device, identity, ranks
        self.batches_per_epoch = batches.steps_per_epoch()
        self.steps_per_epoch = config.steps_per_epoch(self.batches_per_epoch)
        self.selection = Selection(task.metrics, config)
        self.horizon = config.horizon(self.steps_per_epoch, width)
        self.validation_interval = Interval(config.validate_every, self.steps_per_epoch)
        self.checkpoint_interval = Interval(config.checkpoint_every or config.validate_every, self.steps_per_epoch)
        self.replica = make_replica(
            ranks, model, task, device, compiles=config.compile, records=config.graphs, say=listener.on_message
        )
        self.optimizer = make_optimizer(model, config, PRECISIONS[choose_precision(config.precision, device)])
        self.tell_step: Callable[[int, int], None] = getattr(listener, "on_step", lambda step, total: None)
        """What a listener may have besides the methods that it must have."""
        self.average: Weights | None = weights_of(model) if config.ema_decay else None
        """What is validated and saved in place of the weights that training continues with."""
        self.update_ratio: Tensor | None = None
        """The norm of the last update of the weights as a share of their norm, if it was logged and not skipped."""
        self.progress = Progress()
        self._clock = time.monotonic()

    # The loop

    @explaining_out_of_memory()
    def train(self, stop: StopRequest) -> Progress:
        """Take all steps that are left. Raises Stopped, with everything saved, when a signal asks for it, and Paused
        after the step `stop.pause_at`."""
        while not self.is_finished():
            for batches in self.batches_of_updates():
                self.restore_best_after_lost_patience()
                parts = self.progress.parts
                self.update(*batches)
                self.advance(len(batches))
                self.tell_step(self.progress.step, self.horizon.total_steps)
                self.log_when_due()
                stops = self.agree(stop)  # once: a signal that comes later is for the next step
                pauses = self.progress.step == stop.pause_at
                was_split = self.progress.parts > parts  # saved at once: memory may suffice when the step is repeated
                is_due = self.is_validation_due()
                if is_due or self.has_exploded():
                    self.validate(is_due=is_due)
                    self.checkpoint()
                elif (
                    stops or pauses or was_split or self.is_due(self.checkpoint_interval, self.progress.checkpointed_at)
                ):
                    self.checkpoint()
                if stops:
                    stop.honor(f"stopped at step {self.progress.step} and saved")
                if pauses and not self.is_finished():
                    raise Paused(f"paused at step {self.progress.step}")
                if self.is_finished():
                    break
        return self.progress

    def update(self, *batches: Batch) -> None:
        """One optimizer step: forward and backward for each batch, clip, update. Skipped if the loss or the gradient
        norm is not finite."""
        progress, step = self.progress, self.progress.step + 1
        rate = progress.rate_scale * SCHEDULES[self.config.schedule](step, self.config.learning_rate, self.horizon)
        self.model.train()
        sums = self.add_up(self.gradients(batches))
        whole = Window()
        for window in sums:
            whole.include(window)
        self.learning_rate, self.grad_norm, self.update_ratio = rate, self.clip(whole.count), None
        checked = torch.as_tensor(whole.sums[LOSS]).isfinite() & self.grad_norm.isfinite()
        if not bool(checked):  # the one number of a step that an accelerator is waited for
            return self.skip(batches, sums)
        if self.is_logged(step):
            self.update_ratio = self.replica.measured_step(self.optimizer, rate)
        else:
            self.replica.step(self.optimizer, rate)
        if self.average is not None:
            follow(self.average, self.model, decay=self.config.ema_decay, step=step)
        progress.skipped_in_a_row = 0
        whole.updates, whole.clipped = 1, (self.grad_norm > self.config.clip_norm).float()
        for batch in batches:
            if isinstance(batch, PaddedBatch):
                padding, places = batch.padding()
                whole.padding, whole.places = whole.padding + padding, whole.places + places
        progress.window.include(whole)
        progress.level.add(whole.plain_loss, whole.count)

    def gradients(self, batches: Sequence[Batch]) -> list[Window]:
        """Compute the gradients of the summed loss of the batches, and return the sums of each batch.

        Where memory does not suffice, each batch is computed in twice as many parts, from then on.
        """
        while True:
            seed = derive_seed(self.seed, "step", self.progress.step + 1)
            self.ranks.seed(seed)
            self.replica.zero_grad()
            try:
                return [self.forward_backward(batch, derive_seed(seed, "batch", n)) for n, batch in enumerate(batches)]
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            # Out here, where the error no longer holds the tensors of the step.
            if not self.replica.free_memory():
                self.listener.on_message(split_further(self.progress, batches))
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()

    def forward_backward(self, batch: Batch, seed: int) -> Window:
        """`seed` draws what all rows of a batch have in common, such as the layers that are left out."""
        sums = Window()
        for part in batch.chunk(self.progress.parts):
            self.ranks.common.manual_seed(seed)
            sums.add(self.replica.backward(part))
        return sums

    def add_up(self, windows: Sequence[Window]) -> list[Window]:
        """The sums of each batch over all ranks."""
        rows, counts = self.ranks.add_up([[*w.sums.values()] for w in windows], [w.count for w in windows])
        names = windows[0].sums
        return [Window(dict(zip(names, row, strict=True)), count) for row, count in zip(rows, counts, strict=True)]

    def clip(self, count: int) -> Tensor:
        """Scale the gradients of the summed loss to those of its mean over `count` predictions, and clip their norm to
        clip_norm, in one pass over them. Returns the norm before clipping."""
        gradients = self.replica.gradients()
        norm = nn.utils.get_total_norm(gradients) / count
        scale = (self.config.clip_norm / (norm + 1e-6)).clamp(max=1.0) / count
        torch._foreach_mul_(gradients, scale)  # pyright: ignore[reportPrivateImportUsage]
        return norm

    def skip(self, batches: Sequence[Batch], sums: Sequence[Window]) -> None:
        """Make no update of these batches; too many in a row end the run."""
        self.progress.window.include(sums[0].emptied())  # so that a log line without any update has all its keys
        contents = [
            {key: self.ranks.together(rows) for key, rows in self.describe_batch(batch).items()} for batch in batches
        ]
        losses = [window.mean(LOSS) for window in sums]
        self.listener.on_message(skip(self.progress, losses, float(self.grad_norm), contents, self.run))
        give_up_after_skips(self.progress, self.config, self.run)

    def agree(self, stop: StopRequest) -> bool:
        """Let all ranks know what only some may have met: memory that ran out, or a signal. Returns whether to stop."""
        progress = self.progress
        stops, parts = self.ranks.largest(stop.requested, progress.parts)
        if parts > progress.parts:
            progress.parts = parts
            self.listener.on_message(f"memory ran out in another process: all compute a batch in {parts} parts now")
        if stops:
            stop.requested = True
        return bool(stops)

    # Places in the data and in time

    def batches_of_updates(self) -> Iterator[list[Batch]]:
        """The rest of the epoch, in lists of the batches that one update is made from."""
        batches = made_ahead(self.batches.epoch(self.progress.epoch, self.progress.batch))
        while some := list(islice(batches, self.config.accumulate)):
            yield some

    def advance(self, batches: int = 1) -> None:
        """Move the place in the data past the batches just used, and the clock."""
        progress = self.progress
        progress.step += 1
        progress.batch += batches
        if progress.batch == self.batches_per_epoch:
            progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.window.seconds += self.tick()

    def tick(self) -> float:
        """Add the seconds since the last tick to the run's, and return them."""
        now = time.monotonic()
        passed, self._clock = now - self._clock, now
        self.progress.seconds += passed
        return passed

    def is_due(self, interval: Interval, since: float) -> bool:
        is_due = interval.is_due(self.progress.step, self.progress.seconds - since)
        return is_due if interval.seconds is None else self.ranks.as_first(is_due)

    def is_validation_due(self) -> bool:
        """True after the last step, and where the recipe's interval says so."""
        progress = self.progress
        is_last = progress.step == self.horizon.total_steps
        return is_last or self.is_due(self.validation_interval, progress.validated_at)

    def has_exploded(self) -> bool:
        """Whether the training loss calls for a validation before one is due."""
        return self.progress.level.calls_for_validation(self.config.divergence)

    def is_finished(self) -> bool:
        """Whether all steps are taken, or patience has run out for good."""
        return self.selection.is_exhausted(self.progress) or self.progress.step >= self.horizon.total_steps

    # Logs

    def is_logged(self, step: int) -> bool:
        return step % self.config.log_every == 0 or step == self.horizon.total_steps

    def log_when_due(self) -> None:
        progress, window = self.progress, self.progress.window
        if not self.is_logged(progress.step):
            return
        window.read()
        if not window.count and progress.step % self.config.log_every:
            return  # the last step was skipped, and nothing is left to log
        row = {
            "step": progress.step,
            "epoch": round(progress.step / self.steps_per_epoch, 4),
            **window.means(),
            "learning_rate": self.learning_rate,
            "grad_norm": float(self.grad_norm),
            "update_ratio": None if self.update_ratio is None else float(self.update_ratio),
            **window.shares(),
            "skipped": progress.skipped,
            self.task.counts: window.count,
            f"{self.task.counts}_per_second": round(window.count / max(window.seconds, 1e-9), 1),
            "seconds": round(progress.seconds, 3),
        }
        self.run.append("metrics.jsonl", row)
        self.listener.on_log(row, self.horizon.total_steps)
        progress.window = window.emptied()

    def report(self, evaluation: Evaluation, is_best: bool, note: dict[str, Any] | None = None) -> None:
        progress = self.progress
        place = {"step": progress.step, "epoch": round(progress.step / self.steps_per_epoch, 4), **(note or {})}
        row = {**place, **evaluation.metrics, "seconds": round(progress.seconds, 3)}
        self.run.append("metrics.jsonl", row)
        self.run.append("samples.jsonl", {**place, "samples": evaluation.samples})
        self.listener.on_validation(row, evaluation.samples, is_best)

    # Validations and what follows from them

    def validate(self, *, is_due: bool) -> None:
        """Measure the model on held-out data, note whether it is the best so far, and act on it.

        A validation that is not due costs no patience.
        """
        progress, selection = self.progress, self.selection
        evaluation = self.evaluate(self.average)
        progress.validated_at = progress.seconds
        if has_diverged(progress, evaluation, self.config.divergence):
            self.report(evaluation, is_best=False, note={"back_to": progress.best_step})
            self.fall_back(evaluation)
        else:
            is_best = selection.rank(evaluation, progress, costs_patience=is_due)
            self.report(evaluation, is_best)
            is_ranked = self.config.schedule == "plateau" and (is_best or is_due)
            if is_ranked and selection.lower_rate_on_plateau(progress, is_best=is_best):
                self.listener.on_message(f"no improvement: {self.describe_rate()}")
            if self.has_exploded():
                progress.level.accept()
        if self.is_finished():
            if progress.step < self.horizon.total_steps:
                self.listener.on_message(selection.why_exhausted(progress, self.horizon.total_steps))
            self.try_average_of_checkpoints()
        progress.kept = selection.wanted(progress)

    def evaluate(self, weights: Weights | None) -> Evaluation:
        """What the task measures of the model, with these weights where they are given."""
        self.model.eval()
        try:
            with holding(weights, self.model), torch.inference_mode():
                evaluation = self.task.evaluate(self.model)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error) or not self.replica.free_memory():
                raise
        else:
            self.tick()
            return evaluation
        return self.evaluate(weights)  # out here, where the error no longer holds tensors

    def try_average_of_checkpoints(self) -> None:
        """Where the recipe asks for it, validate the average of some checkpoints; if it is better, it is the model."""
        progress, selection = self.progress, self.selection
        steps = selection.steps_to_average(progress.kept)
        if not steps:
            return
        average = mean(self.weights_at(step) for step in steps)
        evaluation = self.evaluate(average)
        is_best = selection.is_better(evaluation, progress)
        listed = ", ".join(map(str, steps))
        outcome = "is better and becomes the model" if is_best else "is not better and is dropped"
        self.listener.on_message(
            f"the mean of the weights of steps {listed} {outcome}: "
            f"{selection.metric.name} {selection.value(evaluation):.4g}, the best so far {progress.best_value:.4g}"
        )
        if is_best:
            selection.note_best(evaluation, progress)
            self.average = average
        self.report(evaluation, is_best, note={"mean_of": steps})

    def restore_best_after_lost_patience(self) -> None:
        """With plateau-trials, restart from the best checkpoint where patience has run out but trials are left."""
        progress = self.progress
        if not self.selection.has_lost_patience(progress):
            return
        assert progress.best_step is not None  # patience counts from there
        self.restore_weights(progress.best_step)
        progress.validations_since_best = 0
        progress.trials_lost += 1
        self.selection.lower_rate(progress)
        self.listener.on_message(
            f"patience has run out ({progress.trials_lost} of {self.config.trials}): back to the weights of step "
            f"{progress.best_step}, {self.describe_rate()}"
        )

    def fall_back(self, evaluation: Evaluation) -> None:
        """Restore the best checkpoint's weights and optimizer, lower the rate. Raises WeftError after some times."""
        assert self.progress.best_step is not None  # has_diverged has compared with it
        message = note_fallback(self.progress, evaluation, self.run)
        self.restore_weights(self.progress.best_step)
        self.listener.on_message(message)

    def describe_rate(self) -> str:
        return f"the learning rate is multiplied by {self.progress.rate_scale:.3g} from here on"

    # Checkpoints

    def checkpoint(self) -> None:
        """Save everything; the time it takes is the run's, but not a step's.

        The model folder holds the weights that were validated. Where training continues with others, those are among
        the training tensors.
        """
        progress = self.progress
        self.tick()
        progress.checkpointed_at = progress.seconds
        progress.window.read()
        progress.level.read()
        self.check_weights_are_finite()
        carried = self.task.carried() if isinstance(self.task, CarryingTask) else {}
        with holding(self.average, self.model) as own:
            self.run.save(
                progress.step,
                lambda folder: self.write_model(folder, progress),
                {**optimizer_tensors(self.optimizer), **weight_tensors(own), **carried},
                {**self.identity, "progress": asdict(progress)},
                best=progress.best_step,
                keep=[step for step, *_ in progress.kept],
            )
        self.tick()

    def check_weights_are_finite(self) -> None:
        """Raises WeftError where they are not: updates of finite gradients can still add up to infinity."""
        broken = [name for name, weight in self.model.named_parameters() if not bool(weight.isfinite().all())]
        if broken:
            raise WeftError(
                f"at step {self.progress.step:,} the weights {', '.join(broken[:3])} hold infinite numbers or NaN; "
                "the last checkpoint is intact; lower training.learning_rate in a new run, which may begin with it by "
                "training.init"
            )

    def weights_at(self, step: int) -> Weights:
        """The weights with which training continued from a validated step."""
        if step == self.progress.step:
            return weights_of(self.model)
        tensors, _ = self.run.load(step)
        return weights_in(tensors) or self.read_weights(self.run.checkpoint(step))

    def load(self, step: int, *, as_validated: bool = False) -> dict[str, Any]:
        """Load the weights, the average and the optimizer of a checkpoint; returns the rest of its state.

        The weights are those with which training continued, or those that were validated, which may be an average.
        """
        tensors, state = self.run.load(step)
        saved = self.read_weights(self.run.checkpoint(step))
        try:
            put(saved if as_validated else weights_in(tensors) or saved, self.model)
            self.replica.restore_optimizer(self.optimizer, tensors)
            if isinstance(self.task, CarryingTask):
                self.task.restore(tensors, self.device)
        except (KeyError, TypeError, ValueError) as error:
            raise self.misfit(step, error) from None
        self.average = {name: t.to(self.device) for name, t in saved.items()} if self.config.ema_decay else None
        return state

    def restore(self, step: int) -> None:
        """Continue from this checkpoint as if there had been no break."""
        state = self.load(step)
        try:
            self.progress = Progress.from_json(state["progress"])
        except (KeyError, TypeError, ValueError) as error:
            raise self.misfit(step, error) from None
        self.run.sweep(keep={step, self.progress.best_step, *(kept for kept, *_ in self.progress.kept)})
        self.run.cut_logs(step)
        self._clock = time.monotonic()

    def restore_weights(self, step: int) -> None:
        """Continue with the weights and the optimizer of a validated step; the place in the data and counts stay."""
        state = self.load(step, as_validated=not self.config.ema_decay)
        lowest = self.progress.level.lowest
        self.progress.level = Progress.from_json(state["progress"]).level.restarted(lowest)

    def misfit(self, step: int, error: Exception) -> RunError:
        return RunError(f"{self.run.checkpoint(step)} does not fit this run: {error!r}")
