"""OpenAI's /v1/completions, answered by a language model."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.serving.conftest import ask, serving

from weft.runs.train import train
from weft.serving.admission import ServerState
from weft.serving.app import make_app
from weft.serving.detection import Detector
from weft.serving.keys import Keys
from weft.serving.limits import Limits
from weft.serving.metrics import Metrics
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
    state = ServerState(Limits(), Metrics(), Keys())
    served = Models([Source(str(run))], state.metrics.observe_batch)
    return Service(served, state, Detector(served.languages))


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
        assert found.usage is not None and found.usage.prompt_tokens == 4
        with client.completions.create(**asked, stream=True) as chunks:
            parts = [chunk.choices[0] for chunk in chunks]
        assert "".join(part.text for part in parts) == expected[0] and len(parts) > 2
        assert [part.finish_reason for part in parts][-2:] == [None, found.choices[0].finish_reason]
        greedy = client.completions.create(**{**asked, "temperature": 0}).choices[0].text
        assert greedy == model.generate("once", settings_of(20, method="greedy"))[0]
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


def test_what_a_language_model_cannot_do_is_refused(service: Service) -> None:
    app = make_app(service)
    for path, body, code in (
        ("/v1/completions", {"model": "writer", "max_tokens": 10**6}, 400),
        ("/v1/completions", {"model": "writer", "stream": True, "n": 2}, 400),
        ("/v1/chat/completions", {"model": "writer", "messages": [{"role": "user", "content": "x"}]}, 404),
        ("/translate", {"q": "x", "source": "zh", "target": "en"}, 400),
    ):
        assert ask(app, "POST", path, json=body).status_code == code, path
    assert ask(app, "GET", "/frontend/settings").status_code == 200
    assert ask(app, "POST", "/detect", json={"q": "hello"}).status_code == 200
