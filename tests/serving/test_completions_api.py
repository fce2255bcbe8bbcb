"""OpenAI's /v1/completions, answered by a language model."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.serving.conftest import ask, service_of, serving

from weft.errors import UsageError
from weft.runs.train import train
from weft.serving.app import make_app
from weft.serving.models import Models, Source
from weft.serving.service import Service
from weft.tasks.generating import LanguageModel, open_model, settings_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("writer")
    (folder / "text.txt").write_text("once upon a time\nthere was a cat\n" * 30, encoding="utf-8")
    recipe = {
        "task": "language-model",
        "data": {"language": "en", "train": ["text.txt"], "valid_share": 0.2},
        "model": {"model_dim": 16, "num_heads": 2, "num_layers": 1, "ff_dim": 16},
        "training": {"epochs": 1, "precision": "fp32"},
    }
    return train(recipe, run=folder / "writer", data=folder)


@pytest.fixture
def service(run: Path) -> Service:
    return service_of(run)


def test_options_for_translators_are_refused_where_none_is_served(run: Path) -> None:
    with pytest.raises(UsageError, match="none is served"):
        Models([Source(str(run), memory=run / "memory.tmx")], lambda *_: None)


def test_a_language_model_has_a_card_too(service: Service) -> None:
    app = make_app(service)
    assert "pipeline_tag: text-generation" in ask(app, "GET", "/weft/card/writer").text
    missing = ask(app, "GET", "/weft/card/other")
    assert (missing.status_code, missing.json()) == (404, {"error": "there is no model other; there are writer"})


@pytest.fixture
def model(run: Path) -> LanguageModel:
    return open_model(run)


def test_openais_client_works_unchanged(service: Service, model: LanguageModel) -> None:
    asked: Any = {"model": "writer", "prompt": "once", "max_tokens": 20, "seed": 7}
    with serving(service) as (address, _), openai.OpenAI(base_url=f"{address}/v1", api_key="-") as client:
        assert [each.id for each in client.models.list()] == ["writer"] == [client.models.retrieve("writer").id]
        found = client.completions.create(**asked, n=2)
        expected = model.generate("once", settings_of(20, seed=7), samples=2)
        assert [choice.text for choice in found.choices] == expected
        drawn = [len(pieces) for pieces in model.pieces_after("once", settings_of(20, seed=7), 2, lambda: None)]
        assert [choice.finish_reason for choice in found.choices] == ["length" if n == 20 else "stop" for n in drawn]
        assert found.usage is not None and found.usage.prompt_tokens == 4
        assert found.usage.completion_tokens == sum(drawn) and found.usage.total_tokens == 4 + sum(drawn)
        options: Any = {"include_usage": True}
        with client.completions.create(**asked, stream=True, stream_options=options) as chunks:
            usages = [chunk.usage for chunk in chunks]
        assert usages[-1] is not None and usages[-1].completion_tokens == drawn[0] and not any(usages[:-1])
        with client.completions.create(**asked, stream=True) as chunks:
            parts = [chunk.choices[0] for chunk in chunks]
        assert "".join(part.text for part in parts) == expected[0] and len(parts) > 2
        assert [part.finish_reason for part in parts][-2:] == [None, found.choices[0].finish_reason]
        greedy = client.completions.create(**{**asked, "temperature": 0}).choices[0].text
        assert greedy == model.generate("once", settings_of(20, method="greedy"))[0]
        same = client.completions.create(**{**asked, "prompt": ["once"], "temperature": 0, "n": 3}).choices
        assert [choice.text for choice in same] == [greedy] * 3
        with pytest.raises(openai.NotFoundError, match="there is no language model gpt; there is writer"):
            client.completions.create(**{**asked, "model": "gpt"})


def test_a_text_ends_before_a_stop_also_in_a_stream_and_may_echo_the_prompt(
    service: Service, model: LanguageModel
) -> None:
    (text,) = model.generate("once", settings_of(20, seed=7))
    stop = text[5:8]
    asked = {"model": "writer", "prompt": "once", "max_tokens": 20, "seed": 7, "stop": [stop, "\n\n"], "echo": True}
    app = make_app(service)
    (choice,) = ask(app, "POST", "/v1/completions", json=asked).json()["choices"]
    assert choice["text"] == "once" + text[: text.index(stop)] and choice["finish_reason"] == "stop"
    events = ask(app, "POST", "/v1/completions", json={**asked, "stream": True}).text.split("\n\n")
    assert events[-2] == "data: [DONE]"
    streamed = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events[:-2]]
    assert "".join(part["text"] for part in streamed) == choice["text"] and streamed[-1]["finish_reason"] == "stop"


def test_the_pieces_until_a_stop_are_counted_and_the_stop_that_is_complete_first_counts(
    service: Service, model: LanguageModel
) -> None:
    (pieces,) = model.pieces_after("", settings_of(60, seed=7), 1, lambda: None)
    text = model.continuation("", pieces)
    place = next(p for p in range(3, len(text) - 4) if text.find(text[p]) == p)  # a character that is new there
    stop = [text[place - 2 : place + 3], text[place]]
    asked = {"model": "writer", "max_tokens": 60, "seed": 7, "stop": stop}
    found = ask(make_app(service), "POST", "/v1/completions", json=asked).json()
    assert found["choices"][0]["text"] == text[:place] and found["choices"][0]["finish_reason"] == "stop"
    assert found["usage"]["completion_tokens"] == place + 1  # pieces are characters
    events = ask(make_app(service), "POST", "/v1/completions", json={**asked, "stream": True}).text.split("\n\n")[:-2]
    streamed = [json.loads(event.removeprefix("data: "))["choices"][0]["text"] for event in events]
    assert "".join(streamed) == text[:place]


def test_what_a_language_model_cannot_do_is_refused(service: Service) -> None:
    app = make_app(service)
    for path, body, code in (
        ("/v1/completions", {"model": "writer", "max_tokens": 10**6}, 400),
        ("/v1/completions", {"model": "writer", "max_tokens": 10_001}, 400),
        ("/v1/completions", {"model": "writer", "logprobs": 5}, 400),
        ("/v1/completions", {"model": "writer", "best_of": 3, "n": 2}, 400),
        ("/v1/completions", {"model": "writer", "best_of": -3}, 400),
        ("/v1/completions", {"model": "writer", "suffix": "."}, 400),
        ("/v1/completions", {"model": "writer", "frequency_penalty": 1.5}, 400),
        ("/v1/completions", {"model": "writer", "presence_penalty": -1}, 400),
        ("/v1/completions", {"model": "writer", "logit_bias": {"5": -100}}, 400),
        ("/v1/completions", {"model": "writer", "frequency_penalty": 0, "logit_bias": {}, "top_p": 1}, 200),
        ("/v1/completions", {"model": "writer", "prompt": ["a", "b"]}, 400),
        ("/v1/completions", {"model": "writer", "prompt": None, "max_tokens": None}, 200),
        ("/v1/completions", {"model": "writer", "stream": True, "n": 2}, 400),
        ("/v1/chat/completions", {"model": "writer", "messages": [{"role": "user", "content": "x"}]}, 404),
        ("/translate", {"q": "x", "source": "zh", "target": "en"}, 400),
        ("/weft/explain", {"q": "x", "source": "auto", "target": ""}, 400),
        ("/weft/explain", {"q": "x", "source": "-x", "target": "-x"}, 400),
    ):
        assert ask(app, "POST", path, json=body).status_code == code, path
    assert ask(app, "GET", "/frontend/settings").status_code == 200
    assert ask(app, "POST", "/detect", json={"q": "hello"}).status_code == 200


def test_what_a_language_model_is_not_asked_for_is_told_with_where_it_is_asked(service: Service) -> None:
    app = make_app(service)
    chat = {"model": "writer", "messages": [{"role": "user", "content": "x"}]}
    error = ask(app, "POST", "/v1/chat/completions", json=chat).json()["error"]["message"]
    assert error == "writer is a language model: it goes on with a prompt by /v1/completions"
    refused = ask(app, "POST", "/translate", json={"q": "x", "source": "zh", "target": "en"}).json()["error"]
    assert "no model here translates" in refused
