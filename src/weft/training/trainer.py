"""The training loop. It improves any task on any batches and knows neither text nor translation.

What a step does is in `Trainer.update`; when things happen is in `Trainer.train`. Everything that the future of a run
depends on is the model, the optimizer and `Progress`: the learning rate, the dropout and the order of the data are
functions of the step, the seed and the epoch, and of what validations found. So a checkpoint is small, and a resumed
run takes the very steps that an uninterrupted one would.

What goes wrong on the way is met here too: a step that is no number is left out (`skip`), a batch that does not fit
into memory is computed in parts (`gradients`), and a run that diverges goes back to its best weights (`fall_back`).
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from weft.errors import MemoryRanOut, RunError, WeftError, is_out_of_memory
from weft.runtime import PRECISIONS, choose_precision, derive_seed
from weft.training.ahead import made_ahead
from weft.training.averaging import Weights, follow, holding, mean, put, weights_of
from weft.training.config import Interval, TrainingConfig
from weft.training.distributed import ALONE, Ranks
from weft.training.optimizers import make_optimizer
from weft.training.progress import LOSS, Progress, Window
from weft.training.recording import make_replica
from weft.training.recovery import (
    FALLBACK_FACTOR,
    MOST_FALLBACKS,
    is_much_worse,
    naming_lack_of_memory,
)
from weft.training.run_folder import (
    SKIPPED,
    RunFolder,
    optimizer_tensors,
    weight_tensors,
    weights_in,
)
from weft.training.schedules import SCHEDULES
from weft.training.selection import find_metric
from weft.training.signals import StopRequest
from weft.training.task import Batches, BatchOfRows, Evaluation, Listener, Task

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
        self.metric = find_metric(task.metrics, config.select_by)
        self.horizon = config.horizon(self.steps_per_epoch, width)
        self.validation_interval = Interval(config.validate_every, self.steps_per_epoch)
        self.checkpoint_interval = Interval(config.checkpoint_every or config.validate_every, self.steps_per_epoch)
        self.replica = make_replica(
            ranks,
            model,
            task,
            device,
            compiles=config.compile,
            records=config.graphs,
            say=listener.on_message,
        )
        self.optimizer = make_optimizer(
            model,
            config.optimizer,
            learning_rate=config.learning_rate,
            momentum=config.momentum,
            nesterov=config.nesterov,
            betas=config.betas,
            epsilon=config.epsilon,
            weight_decay=config.weight_decay,
            precision=PRECISIONS[choose_precision(config.precision, device)],
        )
        self.average: Weights | None = weights_of(model) if config.ema_decay else None
        """What is validated and saved in place of the weights that training goes on with."""
        self.progress = Progress()
        self._clock = time.monotonic()

    @naming_lack_of_memory()
    def train(self, stop: StopRequest) -> Progress:
        """Take all steps that are left; raises Stopped, with everything saved, when a signal asks for it."""
        while not self.is_finished():
            for batches in self.batches_of_updates():
                self.go_back_when_lost()
                parts = self.progress.parts
                self.update(*batches)
                self.advance(len(batches))
                self.log_when_due()
                stops = self.agree(stop)  # once: a signal that comes later is for the next step
                was_split = self.progress.parts > parts  # saved at once: memory may suffice when the step is repeated
                is_due = self.is_validation_due()
                if is_due or self.has_exploded():
                    self.validate(is_due=is_due)
                    self.checkpoint()
                elif stops or was_split or self.is_due(self.checkpoint_interval, self.progress.checkpointed_at):
                    self.checkpoint()
                if stops:
                    stop.honor(f"stopped at step {self.progress.step} and saved")
                if self.is_finished():
                    break
        return self.progress

    def agree(self, stop: StopRequest) -> bool:
        """Let all ranks know what only some may have met: memory that ran out, or a signal, which is the answer."""
        progress = self.progress
        stops, parts = self.ranks.largest(stop.requested, progress.parts)
        if parts > progress.parts:
            progress.parts = parts
            self.listener.on_message(f"memory ran out in another process: all compute a batch in {parts} parts now")
        if stops:
            stop.requested = True
        return bool(stops)

    def batches_of_updates(self) -> Iterator[list[Batch]]:
        """What is left of the epoch, as many batches at a time as one update is made from."""
        batches = made_ahead(self.batches.epoch(self.progress.epoch, self.progress.batch))
        while some := list(islice(batches, self.config.accumulate)):
            yield some

    def update(self, *batches: Batch) -> None:
        """One step: forward and backward for each batch, clip, move. It is left out where it is no number."""
        progress, step = self.progress, self.progress.step + 1
        rate = progress.rate_scale * SCHEDULES[self.config.schedule](step, self.config.learning_rate, self.horizon)
        self.model.train()
        sums = self.add_up(self.gradients(batches))
        whole = Window()
        for window in sums:
            whole.include(window)
        self.learning_rate, self.grad_norm = rate, self.clip(whole.count)
        checked = torch.as_tensor(whole.sums[LOSS]).isfinite() & self.grad_norm.isfinite()
        if not bool(checked):  # the one number of a step that an accelerator is waited for
            return self.skip(batches, sums)
        self.replica.step(self.optimizer, rate)
        if self.average is not None:
            follow(self.average, self.model, decay=self.config.ema_decay, step=step)
        progress.skipped_in_a_row = 0
        progress.window.include(whole)
        progress.level.add(whole.plain_loss, whole.count)

    def add_up(self, windows: Sequence[Window]) -> list[Window]:
        """The sums of all ranks for each batch."""
        rows, counts = self.ranks.add_up([[*w.sums.values()] for w in windows], [w.count for w in windows])
        names = windows[0].sums
        return [Window(dict(zip(names, row, strict=True)), count) for row, count in zip(rows, counts, strict=True)]

    def gradients(self, batches: Sequence[Batch]) -> list[Window]:
        """Leave those of the summed loss of the batches, and return what each of these adds up to.

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
                self.split_further(batches)

    def forward_backward(self, batch: Batch, seed: int) -> Window:
        """The seed is that of what all rows of a batch have in common, such as the layers that are left out."""
        sums = Window()
        for part in batch.chunk(self.progress.parts):
            self.ranks.common.manual_seed(seed)
            sums.add(self.replica.backward(part))
        return sums

    def split_further(self, batches: Sequence[Batch]) -> None:
        progress, step = self.progress, self.progress.step + 1
        parts = 2 * progress.parts
        if all(len(batch.chunk(parts)) == len(batch.chunk(progress.parts)) for batch in batches):
            raise MemoryRanOut(
                f"memory ran out in step {step:,}, even with one row of a batch at a time; make the model smaller, or "
                "its longest sentences shorter (data.max_length); what was saved before is intact"
            )
        progress.parts = parts
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.listener.on_message(
            f"memory ran out in step {step:,}: from here on each batch is computed in {parts} parts, whose gradients "
            "are added up to that of the whole"
        )

    def clip(self, count: int) -> Tensor:
        """Scale the gradients of the summed loss to those of its mean over `count` predictions, and clip their norm to
        clip_norm, in one pass over them. Returns the norm before clipping."""
        gradients = self.replica.gradients()
        norm = nn.utils.get_total_norm(gradients) / count
        scale = (self.config.clip_norm / (norm + 1e-6)).clamp(max=1.0) / count
        torch._foreach_mul_(gradients, scale)  # pyright: ignore[reportPrivateImportUsage]
        return norm

    def skip(self, batches: Sequence[Batch], sums: Sequence[Window]) -> None:
        """Leave an update out whose loss or gradient is infinite or NaN, and note its batches in skipped.jsonl: those
        whose loss it is, or all where every loss is a number. Too many in a row end the run."""
        progress, step, file = self.progress, self.progress.step + 1, self.run.path / SKIPPED
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        losses = [window.mean(LOSS) for window in sums]
        progress.window.include(sums[0].emptied())  # whose names it logs, even if no update follows
        bad = [place for place, loss in enumerate(losses) if not math.isfinite(loss)]
        for place in bad or range(len(batches)):
            row = {
                "step": step,
                "epoch": progress.epoch + 1,
                "batch": progress.batch + place + 1,
                "loss": losses[place],
                "grad_norm": float(self.grad_norm),
                **{key: self.ranks.together(rows) for key, rows in self.describe_batch(batches[place]).items()},
            }
            self.run.append(SKIPPED, row)
        self.listener.on_message(
            f"step {step:,} is left out, since its {'loss' if bad else 'gradient'} is infinite or NaN; what was in it "
            f"is in {file}"
        )
        if progress.skipped_in_a_row >= self.config.most_skipped:
            raise WeftError(
                f"the loss or the gradient was infinite or NaN in {progress.skipped_in_a_row} updates in a row, the "
                f"last at step {step:,}; the last checkpoint is intact. Look at the batches in "
                f"{file}; where they are fine, a new run needs a lower "
                'training.learning_rate or training.precision = "fp32", and this one goes on with a larger '
                "training.most_skipped"
            )

    def advance(self, batches: int = 1) -> None:
        """Move the place in the data behind the batches just used, and the clock."""
        progress = self.progress
        progress.step += 1
        progress.batch += batches
        if progress.batch == self.batches_per_epoch:
            progress.epoch, progress.batch = progress.epoch + 1, 0
        passed = self.tick()
        progress.window.seconds += passed

    def tick(self) -> float:
        """Seconds since the last tick, added to the run's."""
        now = time.monotonic()
        passed, self._clock = now - self._clock, now
        self.progress.seconds += passed
        return passed

    def is_due(self, interval: Interval, since: float) -> bool:
        is_due = interval.is_due(self.progress.step, self.progress.seconds - since)
        return is_due if interval.seconds is None else self.ranks.as_first(is_due)

    def is_validation_due(self) -> bool:
        """After the last step, and where the recipe's interval says so."""
        progress = self.progress
        is_last = progress.step == self.horizon.total_steps
        return is_last or self.is_due(self.validation_interval, progress.validated_at)

    def has_exploded(self) -> bool:
        """Whether the training loss calls for a look at the model before one is due."""
        return self.progress.level.calls_for_validation(self.config.divergence)

    def is_finished(self) -> bool:
        """All steps taken, or patience lost for good."""
        progress = self.progress
        exhausted = self.config.exhausted(progress.validations_since_best, progress.trials_lost)
        return exhausted is not None or progress.step >= self.horizon.total_steps

    def log_when_due(self) -> None:
        progress, window = self.progress, self.progress.window
        if progress.step % self.config.log_every:
            return
        window.read()
        row = {
            "step": progress.step,
            "epoch": round(progress.step / self.steps_per_epoch, 4),
            **window.means(),
            "learning_rate": self.learning_rate,
            "grad_norm": float(self.grad_norm),
            "skipped": progress.skipped,
            f"{self.task.counts}_per_second": round(window.count / max(window.seconds, 1e-9), 1),
            "seconds": round(progress.seconds, 3),
        }
        self.run.append("metrics.jsonl", row)
        self.listener.on_log(row, self.horizon.total_steps)
        progress.window = window.emptied()

    def validate(self, *, is_due: bool) -> None:
        """Measure the model on held-out data, remember whether it is the best so far, and draw the consequences.

        A validation that is not due costs no patience.
        """
        progress = self.progress
        evaluation, value = self.evaluate(self.average)
        progress.validated_at = progress.seconds
        if self.has_diverged(evaluation):
            self.report(evaluation, is_best=False, note={"back_to": progress.best_step})
            self.fall_back(evaluation)
        else:
            self.rank(evaluation, value, is_due=is_due)
            if self.has_exploded():
                progress.level.accept()
        if self.is_finished():
            self.say_why_it_ends()
            self.try_mean_of_checkpoints()
        progress.kept = self.wanted(progress.kept)

    def say_why_it_ends(self) -> None:
        """Before the last step, that is, where patience was lost; the last step speaks for itself."""
        progress, config, total = self.progress, self.config, self.horizon.total_steps
        if progress.step >= total:
            return
        lost = f" ({progress.trials_lost + 1} of {config.trials})" if config.schedule == "plateau-trials" else ""
        bad = progress.validations_since_best
        self.listener.on_message(
            f"patience is lost{lost}: no better {self.metric.name} in {bad} validation{'s' if bad != 1 else ''}; "
            f"training ends at step {progress.step:,} of {total:,}"
        )

    def rank(self, evaluation: Evaluation, value: float, *, is_due: bool) -> None:
        progress = self.progress
        is_best = self.is_better(value)
        if is_best:
            self.note_best(evaluation, value)
        progress.validations_since_best = 0 if is_best else progress.validations_since_best + is_due
        self.report(evaluation, is_best)
        if self.config.schedule == "plateau" and (is_best or is_due):
            self.lower_rate_on_plateau(is_best)
        progress.kept.append((progress.step, value))

    def note_best(self, evaluation: Evaluation, value: float) -> None:
        progress = self.progress
        progress.best_value, progress.best_step = value, progress.step
        progress.best_loss = evaluation.metrics.get("valid_loss")

    def evaluate(self, weights: Weights | None) -> tuple[Evaluation, float]:
        """What the task finds out about the model, with other weights where they are given, and the metric to go by."""
        self.model.eval()
        with holding(weights, self.model), torch.inference_mode():
            evaluation = self.task.evaluate(self.model)
        self.tick()
        return evaluation, evaluation.metrics[self.metric.key]

    def is_better(self, value: float) -> bool:
        best, loss = self.progress.best_value, self.progress.best_loss
        if best is None or math.isnan(best) or (loss is not None and math.isnan(loss)):
            return True
        return value > best if self.metric.better == "max" else value < best

    def report(self, evaluation: Evaluation, is_best: bool, note: dict[str, Any] | None = None) -> None:
        progress = self.progress
        place = {"step": progress.step, "epoch": round(progress.step / self.steps_per_epoch, 4), **(note or {})}
        row = {**place, **evaluation.metrics, "seconds": round(progress.seconds, 3)}
        self.run.append("metrics.jsonl", row)
        self.run.append("samples.jsonl", {**place, "samples": evaluation.samples})
        self.listener.on_validation(row, evaluation.samples, is_best)

    def lower_rate_on_plateau(self, is_best: bool) -> None:
        progress = self.progress
        progress.bad_validations = 0 if is_best else progress.bad_validations + 1
        if progress.bad_validations > self.config.plateau_patience:
            progress.bad_validations, before = 0, progress.rate_scale
            self.lower_rate()
            if progress.rate_scale < before:  # else it is min_learning_rate already
                self.listener.on_message(
                    f"no improvement: the learning rate is times {progress.rate_scale:.3g} from here on"
                )

    def lower_rate(self) -> None:
        scale = self.progress.rate_scale
        least = min(scale, self.config.min_learning_rate / self.config.learning_rate)
        self.progress.rate_scale = max(least, self.config.plateau_factor * scale)

    def go_back_when_lost(self) -> None:
        """In plateau-trials a run that has lost patience, but not all trials, goes on from its best checkpoint."""
        progress = self.progress
        if progress.validations_since_best < (self.config.patience or math.inf):
            return
        assert progress.best_step is not None  # patience counts from there
        self.go_back_to(progress.best_step)
        progress.validations_since_best = 0
        progress.trials_lost += 1
        self.lower_rate()
        self.listener.on_message(
            f"patience is lost ({progress.trials_lost} of {self.config.trials}): back to the weights of step "
            f"{progress.best_step}, the learning rate is times {progress.rate_scale:.3g} from here on"
        )

    def has_diverged(self, evaluation: Evaluation) -> bool:
        """Whether training has gone wrong for good: the validation loss is no number, or both it and the training loss
        have risen by more than `divergence`."""
        found, by = evaluation.metrics.get("valid_loss"), self.config.divergence
        if found is None or math.isinf(by) or not is_much_worse(found, self.progress.best_loss, by):
            return False
        return not math.isfinite(found) or self.progress.level.has_risen(by)

    def fall_back(self, evaluation: Evaluation) -> None:
        """Go on from the best checkpoint, its weights and its optimizer, at a lower rate; not forever."""
        progress = self.progress
        assert progress.best_step is not None and progress.best_loss is not None  # has_diverged has compared with it
        found = f"validation loss {evaluation.metrics['valid_loss']:.3g} after {progress.best_loss:.3g} at step"
        if progress.fallbacks == MOST_FALLBACKS:
            raise WeftError(
                f"training has diverged for the {MOST_FALLBACKS + 1}th time, at step {progress.step:,} ({found} "
                f"{progress.best_step:,}), with the learning rate at {progress.rate_scale:.3g} of the recipe's; lower "
                f"training.learning_rate or raise training.warmup in a new run. The best weights are intact: "
                f"--model {self.run.path}"
            )
        self.go_back_to(progress.best_step)
        progress.fallbacks += 1
        progress.rate_scale *= FALLBACK_FACTOR
        self.listener.on_message(
            f"training has diverged ({found} {progress.best_step:,}): back to the weights of that step, the learning "
            f"rate is times {progress.rate_scale:.3g} from here on ({progress.fallbacks} of {MOST_FALLBACKS})"
        )

    def go_back_to(self, step: int) -> None:
        """Train on from the weights and the optimizer of a validated step; the place in the data and counts stay."""
        state = self.load(step, as_validated=not self.config.ema_decay)
        self.progress.level = Progress.from_json(state["progress"]).level.restarted()

    def wanted(self, validated: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """Those of the validated checkpoints that are kept for their own sake or for a mean."""
        best, share = self.progress.best_value, self.config.keep_within
        wanted = set(self.in_mean(validated))
        if best is not None and share is not None:
            wanted |= {step for step, value in validated if abs(value - best) <= share * abs(best)}
        return [(step, value) for step, value in validated if step in wanted]

    def in_mean(self, validated: list[tuple[int, float]]) -> list[int]:
        """The checkpoints that `average_last` or `average_best` would take now, by their steps."""
        is_max = self.metric.better == "max"
        ranked = sorted((entry for entry in validated if not math.isnan(entry[1])), key=lambda e: e[1], reverse=is_max)
        last = validated[max(0, len(validated) - self.config.average_last) :]
        return sorted(step for step, _ in ranked[: self.config.average_best] or last)

    def try_mean_of_checkpoints(self) -> None:
        """Where the recipe asks for it, measure the mean of some checkpoints; where it is better, it is the model."""
        progress = self.progress
        steps = self.in_mean(progress.kept)
        if not steps:
            return
        average = mean(self.weights_at(step) for step in steps)
        evaluation, value = self.evaluate(average)
        is_best = self.is_better(value)
        listed = ", ".join(map(str, steps))
        outcome = "is better and becomes the model" if is_best else "is not better and is dropped"
        self.listener.on_message(
            f"the mean of the weights of steps {listed} {outcome}: "
            f"{self.metric.name} {value:.4g}, the best so far {progress.best_value:.4g}"
        )
        if is_best:
            self.note_best(evaluation, value)
            self.average = average
        self.report(evaluation, is_best, note={"mean_of": steps})

    def checkpoint(self) -> None:
        """Save everything; the time it takes is the run's, but no step's.

        The model folder holds the weights that were validated. Where training does not go on with these, those that it
        goes on with are among the training tensors.
        """
        progress = self.progress
        self.tick()
        progress.checkpointed_at = progress.seconds
        progress.window.read()
        progress.level.read()
        self.refuse_broken_weights()
        with holding(self.average, self.model) as own:
            self.run.save(
                progress.step,
                lambda folder: self.write_model(folder, progress),
                {**optimizer_tensors(self.optimizer), **weight_tensors(own)},
                {**self.identity, "progress": asdict(progress)},
                best=progress.best_step,
                keep=[step for step, _ in progress.kept],
            )
        self.tick()

    def refuse_broken_weights(self) -> None:
        """No update is made of numbers that are none, but finite ones can still add up to infinity."""
        broken = [name for name, weight in self.model.named_parameters() if not bool(weight.isfinite().all())]
        if broken:
            raise WeftError(
                f"at step {self.progress.step:,} the weights {', '.join(broken[:3])} hold infinite numbers or NaN; "
                "lower training.learning_rate; the last checkpoint is intact"
            )

    def weights_at(self, step: int) -> Weights:
        """Those with which training went on from a validated step."""
        if step == self.progress.step:
            return weights_of(self.model)
        tensors, _ = self.run.load(step)
        return weights_in(tensors) or self.read_weights(self.run.checkpoint(step))

    def load(self, step: int, *, as_validated: bool = False) -> dict[str, Any]:
        """Take over a checkpoint's weights, averages and optimizer; returns the state beside them.

        The weights are those with which training went on, or those that were validated, which a mean may be.
        """
        tensors, state = self.run.load(step)
        saved = self.read_weights(self.run.checkpoint(step))
        try:
            put(saved if as_validated else weights_in(tensors) or saved, self.model)
            self.replica.restore_optimizer(self.optimizer, tensors)
        except (KeyError, TypeError, ValueError) as error:
            raise self.unfitting(step, error) from None
        self.average = {name: t.to(self.device) for name, t in saved.items()} if self.config.ema_decay else None
        return state

    def restore(self, step: int) -> None:
        """Go on from this checkpoint as if there had been no break."""
        state = self.load(step)
        try:
            self.progress = Progress.from_json(state["progress"])
        except (KeyError, TypeError, ValueError) as error:
            raise self.unfitting(step, error) from None
        self.run.sweep(keep={step, self.progress.best_step, *(kept for kept, _ in self.progress.kept)})
        self.run.cut_logs(step)
        self._clock = time.monotonic()

    def unfitting(self, step: int, error: Exception) -> RunError:
        return RunError(f"{self.run.checkpoint(step)} does not fit this run: {error!r}")
