"""Using a language model: how probable a text is, and what could follow a prompt."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.config import override
from weft.decoding.search import DecodingConfig, search_steps
from weft.decoding.step import Hypothesis, Searching, StepFunction, to_the_end
from weft.errors import UsageError
from weft.folders.finding import read_found
from weft.folders.model_folder import Learned, load_model
from weft.folders.recipes import LanguageModelRecipe
from weft.runtime import choose_device, derive_seed
from weft.tasks.perplexity import HeldOutText
from weft.text.copying import SYMBOLS, copies_of
from weft.text.growing import REPLACEMENT, settled_part
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID

CHANGEABLE = ("data.column", "data.max_length", "data.context", "data.overlap")
"""Keys that may be overridden for a trained model."""
MOST_PIECES = 10_000
"""Longest continuation of a prompt."""


class LanguageModel:
    """A trained language model."""

    def __init__(self, learned: Learned[LanguageModelRecipe], device: torch.device | None = None) -> None:
        self.learned = learned
        self.device = device or choose_device()
        self.network = learned.network.to(self.device).eval()
        self.tokenizer = learned.vocabularies["text"]
        self.is_running = learned.recipe.data.running

    def log_probs(self, texts: Sequence[str]) -> list[float]:
        """The log-probability of each text in nats, its end included; in a model of running text each text stands at
        the beginning of a line."""
        totals = [0.0] * len(texts)
        held_out = HeldOutText(self.learned, texts, apart=True)
        for number, found in held_out.log_probs(self.network):
            totals[number] += float(found.sum())
        return totals

    def generate(
        self,
        prompt: str = "",
        config: DecodingConfig | None = None,
        *,
        samples: int = 1,
        after_step: Callable[[], None] = lambda: None,
    ) -> list[str]:
        """What could follow the prompt, which is not repeated: `samples` texts if the method of the settings draws,
        else the best it finds, at most `samples`. By default 256 pieces are drawn.

        `after_step` is called after every piece; an exception that it raises ends the search.
        """
        found = self.pieces_after(prompt, config or settings_of(256), samples, after_step)
        return [self.continuation(prompt, pieces) for pieces in found]

    def pieces_after(
        self, prompt: str, config: DecodingConfig, samples: int, after_step: Callable[[], None]
    ) -> list[Sequence[int]]:
        """The pieces of the texts of `generate`."""
        return [found.tokens for found in to_the_end(self._search, after_step)(prompt, config, samples)]

    def stream(
        self, prompt: str = "", config: DecodingConfig | None = None, *, after_step: Callable[[], None] = lambda: None
    ) -> Iterator[str]:
        """The first text of `generate` in parts, as soon as they are certain."""
        written = ""
        for _, text in self.growing(prompt, config or settings_of(256), after_step):
            yield text[len(written) :]
            written = text

    def growing(
        self, prompt: str, config: DecodingConfig, after_step: Callable[[], None]
    ) -> Iterator[tuple[Sequence[int], str]]:
        """The pieces and the certain text of the first text of `generate`, each time it has grown and at its end."""
        searching, written = self._search(prompt, config, 1), ""
        while True:
            try:
                certain = next(searching)
                after_step()
                pieces = () if certain is None else certain.beginning(0)
                text = self._settled(self.continuation(prompt, pieces))
            except StopIteration as end:
                yield (pieces := end.value[0].tokens), self.continuation(prompt, pieces)
                return
            if len(text) > len(written):
                yield pieces, text
                written = text

    def _settled(self, text: str) -> str:
        """The beginning of a growing text that no further piece changes; WordPiece joins signs to the next word."""
        recipe = self.learned.recipe
        if recipe.tokenizer.kind == "wordpiece":
            return settled_part(text, recipe.data.language, "wordpiece")
        return text.rstrip(REPLACEMENT)

    def _search(self, prompt: str, config: DecodingConfig, samples: int) -> Searching[list[Hypothesis]]:
        ids = self.encode(prompt)
        rows = samples if config.draws else config.rows(samples)
        if self.is_running:  # the end of a line is no end of the text
            config = config.model_copy(update={"min_length": config.max_length or config.max_length_extra})
        with torch.inference_mode():
            before = torch.tensor(ids[:-1], dtype=torch.long, device=self.device)
            steps = self.network.start(rows, before, self.learned.recipe.data.seen_at_once)
        if self.is_running and config.method == "beam":
            steps = WithoutEnd(steps)
        searching = search_steps(
            steps,
            torch.zeros(1, dtype=torch.long, device=self.device),
            config,
            begin_id=ids[-1],
            end_id=PADDING_ID if self.is_running else END_ID,
            best=samples,
            seeds=[derive_seed(config.sampling_seed, "sample", number) for number in range(samples)],
        )
        while True:
            try:
                with torch.inference_mode():
                    certain = next(searching)
            except StopIteration as end:
                return end.value[0]
            yield certain

    def encode(self, prompt: str) -> list[int]:
        """The ids of a prompt; of a running text from the end of a line on."""
        if not self.is_running:
            return [BEGIN_ID, *self.tokenizer.encode([prompt])[0]]
        return [id for line in self.tokenizer.encode(prompt.split("\n")) for id in (END_ID, *line)]

    def decode(self, ids: Sequence[int]) -> str:
        lines: list[list[int]] = [[]]
        for id in ids:
            if id == END_ID:
                lines.append([])
            else:
                lines[-1].append(id)
        return "\n".join(self.tokenizer.decode(lines))

    def continuation(self, prompt: str, tokens: Sequence[int]) -> str:
        """The text of these tokens after the prompt. It begins with a space if it begins with a word, unless the prompt
        ends with white space, which encoding leaves out.

        A symbol of `tokenizer.copying` becomes the item of the prompt that it stands for, and # if there is none.
        """
        before = self.encode(prompt)[1:]
        read = self.decode(before)
        whole, letters = self.decode([*before, *tokens]), len("".join(read.split()))
        # What follows may remove a space before it, as after the apostrophe of don't.
        again = None if whole.startswith(read) else re.match(rf"(\s*\S){{{letters}}}", whole)
        text = whole[len(read) if again is None else again.end() :]
        has_space = prompt[-1:].isspace() and not read[-1:].isspace()
        text = text.removeprefix(" ") if has_space else text
        if not self.learned.recipe.tokenizer.copying:
            return text
        items = {symbol: item.text for symbol, item in copies_of(prompt).items.items()}
        return text.translate({ord(symbol): items.get(symbol, "#") for symbol in SYMBOLS})


class WithoutEnd:
    """The steps of a model of running text, which does not end: <pad>, the end for a search, has log-probability 0."""

    def __init__(self, steps: StepFunction) -> None:
        self.steps, self.reorder = steps, steps.reorder

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        log_probs = self.steps.step(tokens).clone()
        log_probs[:, PADDING_ID] = 0.0
        return log_probs


def settings_of(length: int, *, method: str = "sample", seed: int = 1, **settings: Any) -> DecodingConfig:
    """Settings of a search for at most `length` pieces, which is not tied to the length of a source."""
    fixed = {"max_length_ratio": 0.0, "length_penalty": "none", "sampling_seed": seed, "max_length_extra": length}
    return DecodingConfig.model_validate({"method": method, **settings, **fixed})


def open_model(name: str | Path, overrides: Sequence[str] = (), others: Sequence[str | Path] = ()) -> LanguageModel:
    if others:
        raise UsageError(f"an ensemble takes models that translate; {name} is a language model")
    learned = read_found(name, load_model)
    learned.resolved = override(learned.resolved, list(overrides), f"the recipe of {name}", CHANGEABLE)
    return LanguageModel(learned)
