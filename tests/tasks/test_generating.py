"""What language models write: a search over the network, its parts, and prompts that are cut into pieces."""

from typing import Any

import pytest
import torch
from tests.tasks.language_models import KINDS, TEXTS, learned

from weft.tasks.generating import LanguageModel, settings_of
from weft.text.kinds import train_tokenizer
from weft.text.vocabulary import BEGIN_ID, END_ID

every_kind = pytest.mark.parametrize("kind", KINDS)


def model(kind: str = "lstm", **data: Any) -> LanguageModel:
    return LanguageModel(learned(kind, **data))


def test_prompts_begin_with_a_text_or_after_the_end_of_a_line() -> None:
    lines, running = model(), model(running=True)
    the = lines.tokenizer.encode(["the"])[0]
    assert lines.encode("the") == [BEGIN_ID, *the] and lines.encode("") == [BEGIN_ID]
    assert running.encode("the\n\nthe") == [END_ID, *the, END_ID, END_ID, *the]
    assert running.encode("") == [END_ID]
    assert running.decode([*the, END_ID, END_ID, *the]) == "the\n\nthe"


@every_kind
@pytest.mark.parametrize("running", [True, False])
def test_greedy_search_writes_the_most_probable_token_each_time_and_streams_it(kind: str, running: bool) -> None:
    written = model(kind, running=running)
    network = written.network
    ids = written.encode("the cat")
    for _ in range(12):
        scores = network.output(network(torch.tensor([ids])))[0, -1]
        scores[[0] if running else []] = -torch.inf  # the end of no running text
        if (best := int(scores.argmax())) == END_ID and not running:
            break
        ids.append(best)
    settings = settings_of(12, method="greedy")
    (text,) = written.generate("the cat", settings)
    assert text == written.decode(ids[1:])[len("the cat") :]
    assert "".join(written.stream("the cat", settings)) == text


def test_samples_depend_on_their_seed_alone_and_top_k_1_is_greedy() -> None:
    written = model()
    first, second, third = written.generate("a", settings_of(20, seed=3), samples=3)
    assert len({first, second, third}) == 3
    assert (
        written.generate("a", settings_of(20, seed=3))
        == [first]
        == ["".join(written.stream("a", settings_of(20, seed=3)))]
    )
    assert written.generate("a", settings_of(20, seed=4)) != [first]
    greedy = written.generate("a", settings_of(9, method="greedy"))
    assert written.generate("a", settings_of(9, top_k=1)) == greedy == written.generate("a", settings_of(9, top_p=1e-6))


@every_kind
@pytest.mark.parametrize("running", [True, False])
def test_several_texts_are_begun_without_a_prompt(kind: str, running: bool) -> None:
    written = model(kind, running=running)
    assert len(written.generate("", settings_of(6), samples=2)) == 2
    greedy = written.generate("", settings_of(6, method="greedy"))
    assert written.generate("", settings_of(6, method="beam", beam_size=1)) == greedy


def test_what_stands_for_the_end_of_a_running_text_is_no_part_of_its_probability() -> None:
    written = model(running=True)
    settings = settings_of(1, method="beam", beam_size=8)
    (best,) = written.generate("the", settings)
    ids = torch.tensor([written.encode("the")])
    scores = written.network.output(written.network(ids))[0, -1].index_fill(0, torch.tensor([0]), -torch.inf)
    assert best == written.continuation("the", [int(scores.argmax())])


def test_a_text_longer_than_the_context_is_continued() -> None:
    written, config = model("transformer", running=True, context=8, overlap=2), settings_of(30, top_k=1)
    (pieces,) = written.pieces_after("the cat sat on the mat", config, 1, lambda: None)
    ids = written.encode("the cat sat on the mat")
    state, by_hand = written.network.start(1, torch.tensor(ids[:-1]), 8), ids[-1:]
    for _ in range(30):
        scores = state.step(torch.tensor(by_hand[-1:])).index_fill(1, torch.tensor([0]), -torch.inf)
        by_hand.append(int(scores.argmax()))
    assert list(pieces) == by_hand[1:]
    whole = written.network.start(1, torch.tensor(ids[:-1]))
    state = written.network.start(1, torch.tensor(ids[:-1]), 8)
    assert not torch.allclose(whole.step(torch.tensor(ids[-1:])), state.step(torch.tensor(ids[-1:])))


def test_a_space_at_the_end_of_a_prompt_is_not_written_again() -> None:
    written = model()
    the, both = written.tokenizer.encode(["the", "the cat"])
    after = both[len(the) :]
    assert written.continuation("the", after) == " cat" and written.continuation("the ", after) == "cat"


def test_text_after_an_apostrophe_is_whole_although_the_space_before_it_goes() -> None:
    written = model()
    written.tokenizer, _ = train_tokenizer(
        ["i don't know what it's like ' "] * 9, kind="wordpiece", vocab_size=400, language="en"
    )
    for prompt, after in (("i don'", "t know"), ("what it'", "s like"), ("i don't", " know")):
        (whole,) = written.tokenizer.encode([prompt + after])
        assert written.continuation(prompt, whole[len(written.tokenizer.encode([prompt])[0]) :]) == after


def test_lines_are_scored_each_on_its_own_whatever_the_model_reads() -> None:
    for running in (True, False):
        written = model(running=running)
        assert written.log_probs(TEXTS) == pytest.approx([written.log_probs([text])[0] for text in TEXTS], rel=1e-5)


def test_after_step_can_end_the_work() -> None:
    steps = []

    def stop() -> None:
        steps.append(1)
        if len(steps) == 3:
            raise InterruptedError

    for work in (model().generate, lambda *given, **settings: list(model().stream(*given, **settings))):
        steps.clear()
        with pytest.raises(InterruptedError):
            work("the", settings_of(10, top_k=1), after_step=stop)
