"""Streams, explanations, alternatives at a word, and reloading the models."""

import asyncio
import gc
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.serving.conftest import HELLO, KEY, KEYS, MakeService, ask, echo_of, service_of

from weft.errors import UsageError
from weft.serving import models, weft_api
from weft.serving.app import make_app
from weft.serving.batching import Worker
from weft.serving.detection import Detection
from weft.serving.models import Models, Source, ids_of
from weft.serving.weft_api import reload_models
from weft.text.chinese import convert_translation
from weft.translating import alternatives as tasks_alternatives

TEXT = {"q": "a。b。\n\nc。", "source": "zh", "target": "en"}


def test_a_stream_has_a_line_for_each_sentence_in_order(make_service: MakeService) -> None:
    answer = ask(make_app(make_service()), "POST", "/weft/stream", json=TEXT)
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [(line["index"], line["source"], line["text"]) for line in lines] == [
        (0, "a。", "A。"),
        (1, "b。", "B。"),
        (2, "c。", "C。"),
    ]
    assert "".join(line["before"] + line["text"] for line in lines) == "A。 B。\n\nC。"


def test_a_stream_may_be_server_sent_events(make_service: MakeService) -> None:
    app = make_app(make_service())
    answer = ask(app, "POST", "/weft/stream", json={**TEXT, "source": "auto"}, headers={"Accept": "text/event-stream"})
    events = answer.text.split("\n\n")
    assert [json.loads(event.removeprefix("data: "))["text"] for event in events[:3]] == ["A。", "B。", "C。"]
    assert events[3:] == ["event: end\ndata: {}", ""]


def test_a_stream_that_fails_says_so_in_its_last_line(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service()

    def fail(*arguments: Any, **settings: Any) -> Any:
        raise UsageError("the term cannot be written")

    monkeypatch.setattr(echo_of(service), "translate_n_best", fail)
    answer = ask(make_app(service), "POST", "/weft/stream", json={**TEXT, "glossary": {"一": "🙂"}})
    assert json.loads(answer.text) == {"error": "the term cannot be written"}
    refused = ask(make_app(service), "POST", "/translate", json=TEXT)
    assert (refused.status_code, refused.json()) == (400, {"error": "the term cannot be written"})


@pytest.fixture
def real_app(tiny_run: Any) -> Any:
    """A service with the tiny model itself."""
    return make_app(service_of(tiny_run / "run"))


def test_a_text_without_letters_is_not_refused_for_a_language_that_it_is_not_in(make_service: MakeService) -> None:
    service = make_service()
    for found, target, source in (
        (Detection("de", 0.0), "en", "en"),  # nothing translates from German, and the text stays as it is
        (Detection("zh", 0.0), "en", "zh"),
        (Detection("de", 80.0), "en", "de"),  # which is refused
    ):
        assert service.source_of(found, target) == source


@pytest.mark.parametrize("path", ["/weft/explain", "/weft/alternatives", "/translate"])
@pytest.mark.parametrize("target", ["", "eſ", "ıt", "en-", "eN"])
def test_only_a_target_of_the_server_is_taken(real_app: Any, path: str, target: str) -> None:
    answer = ask(real_app, "POST", path, json={"q": "我", "source": "auto", "target": target, "prefix": ""})
    assert answer.status_code == (200 if target == "eN" else 400)


def test_a_named_model_is_given_a_text_that_is_in_another_models_language(
    tiny_run: Path, tmp_path: Path, make_service: MakeService
) -> None:
    service = make_service()
    (model,) = service.models
    service.models.directions = {("de", "en"): "other", model.direction: model.id}
    asked = weft_api.ExplainRequest.model_construct(q="Hello friend", source="auto", target="en", model=model.id)
    assert asyncio.run(weft_api.model_of(asked, service)) is model


def test_alternatives_at_a_place_go_on_from_the_prefix(real_app: Any) -> None:
    asked = {"q": "我有两个苹果。", "source": "zh", "target": "en", "prefix": "I have", "best": 3}
    found = ask(real_app, "POST", "/weft/alternatives", json=asked).json()["alternatives"]
    assert 1 <= len(found) <= 3
    assert all(one["text"].startswith("I have") and one.keys() == {"word", "text", "score"} for one in found)


def test_the_translation_of_an_explained_text_has_limits_too(real_app: Any) -> None:
    asked = {"q": "我有两个苹果。", "source": "zh", "target": "en"}
    for path, field in (("/weft/alternatives", "prefix"), ("/weft/explain", "translation")):
        refused = ask(real_app, "POST", path, json={**asked, field: "I" * 1601})
        assert (refused.status_code, "at most 1600 characters" in refused.json()["error"]) == (400, True)
        refused = ask(real_app, "POST", path, json={**asked, field: "9" * 500})
        most = 128 if field == "prefix" else 200
        assert (refused.status_code, f"up to {most} pieces" in refused.json()["error"]) == (400, True)


def test_alternatives_that_are_searched_for_one_by_one_are_the_same(
    real_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"q": "我有两个苹果。", "source": "zh", "target": "en", "prefix": "I", "best": 4}
    together = ask(real_app, "POST", "/weft/alternatives", json=asked).json()
    monkeypatch.setattr(weft_api, "PIECES_AT_ONCE", 1)
    apart = ask(real_app, "POST", "/weft/alternatives", json=asked).json()
    assert [one["word"] for one in apart["alternatives"]] == [one["word"] for one in together["alternatives"]]
    assert apart["alternatives"][0]["score"] == pytest.approx(together["alternatives"][0]["score"], abs=1e-4)


def test_a_traditional_prefix_is_looked_up_as_the_simplified_one_that_it_was() -> None:
    app = make_app(service_of(Path("en-zh")))
    asked = {"q": "I saw her open the door.", "source": "en", "best": 2}
    one, other = (
        ask(app, "POST", "/weft/alternatives", json={**asked, "target": target, "prefix": prefix}).json()
        for target, prefix in (("zh", "我看见她"), ("zh-Hant", "我看見她"))
    )
    for simplified, traditional in zip(one["alternatives"], other["alternatives"], strict=True):
        assert convert_translation(simplified["text"], "traditional") == traditional["text"]
        assert simplified["score"] == traditional["score"]


def test_alternatives_are_not_found_for_a_text_of_endless_pieces(real_app: Any) -> None:
    text = {"q": "😀" * 100, "prefix": "", "source": "zh", "target": "en"}
    answer = ask(real_app, "POST", "/weft/alternatives", json=text)
    assert answer.status_code == 400 and "up to 128 pieces of the model" in answer.json()["error"]


@pytest.mark.parametrize(("best", "status"), [(2.0, 200), (2.5, 400), ("2", 400)])
def test_an_integer_may_be_written_as_5_0_in_json(real_app: Any, best: float, status: int) -> None:
    asked = {"q": "我有两个苹果。", "source": "zh", "target": "en", "best": best}
    assert ask(real_app, "POST", "/weft/alternatives", json=asked).status_code == status


def test_alternatives_that_are_no_longer_wanted_are_abandoned(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def endless(*arguments: Any) -> Any:
        try:
            while True:
                arguments[-1]()
                time.sleep(0.001)
        finally:
            ended.set()

    monkeypatch.setattr(tasks_alternatives, "find_beginnings", endless)
    app = make_app(make_service(seconds=2))
    asked = {"q": "一", "source": "zh", "target": "en", "prefix": "I"}
    assert ask(app, "POST", "/weft/alternatives", json=asked).status_code == 503
    assert ended.wait(60)


def test_an_explanation_has_a_row_of_attention_for_each_target_piece(real_app: Any) -> None:
    found = ask(
        real_app, "POST", "/weft/explain", json={"q": "我有两个苹果。", "source": "auto", "target": "en"}
    ).json()
    assert len(found["attention"]) == len(found["target_pieces"])
    assert all(abs(sum(row) - 1) < 1e-2 for row in found["attention"])
    assert found["beam"]["nodes"][0].keys() >= {"id", "parent", "step", "piece", "log_prob", "state"}
    asked = {"q": "我有两个苹果。", "source": "zh", "target": "en", "translation": ""}
    assert ask(real_app, "POST", "/weft/explain", json=asked).json() == found
    empty = ask(real_app, "POST", "/weft/explain", json={"q": " ", "source": "zh", "target": "en"})
    assert empty.status_code == 400
    asked = {"q": "hello", "source": "auto", "target": "en"}
    copied = ask(real_app, "POST", "/weft/explain", json=asked)
    assert copied.status_code == 400 and "copied and not translated" in copied.json()["error"]
    english = ask(real_app, "POST", "/weft/explain", json={**asked, "translation": "hello"})
    assert english.json()["source"] == "hello"  # there is one model to ask about, whatever the text looks like


def test_a_reload_needs_a_key(make_service: MakeService) -> None:
    refused = ask(make_app(make_service()), "POST", "/weft/reload")
    assert (refused.status_code, "kill -HUP" in refused.json()["error"]) == (403, True)
    service = make_service(KEYS)
    before = echo_of(service)
    assert ask(make_app(service), "POST", "/weft/reload").status_code == 401
    answer = ask(make_app(service), "POST", "/weft/reload", headers={"Authorization": f"Bearer {KEY}"})
    assert (answer.status_code, answer.json()) == (200, {"status": "reloaded"})
    assert echo_of(service) is not before


def test_if_new_models_fail_to_load_the_old_ones_stay(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(KEYS)
    before = echo_of(service)

    def fail(*arguments: Any) -> Any:
        raise UsageError("there is no model")

    monkeypatch.setattr(models, "load_for", fail)
    app = make_app(service)
    answer = ask(app, "POST", "/weft/reload", headers={"Authorization": f"Bearer {KEY}"})
    assert (answer.status_code, answer.json()) == (409, {"error": "there is no model"})
    assert echo_of(service) is before
    assert ask(app, "POST", "/translate", json={**TEXT, "api_key": KEY}).status_code == 200


def test_new_models_loaded_before_one_that_fails_are_freed(
    tiny_run: Path, tmp_path: Path, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").symlink_to(tiny_run / "run")
    make_service()  # models are Echoes from here on
    load_for, workers = models.load_for, []

    class Noted(Worker):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            workers.append(self)

    monkeypatch.setattr(models, "Worker", Noted)
    served = Models([Source(str(tiny_run / "run")), Source(str(tmp_path / "other"))])
    assert len(workers) == 2

    def fail(folder: str, *arguments: Any) -> Any:
        if folder.endswith("other"):
            raise UsageError("there is no model")
        return load_for(folder, *arguments)

    monkeypatch.setattr(models, "load_for", fail)
    with pytest.raises(UsageError, match="there is no model"):
        asyncio.run(served.reload())
    assert len(workers) == 3
    workers[2].thread.join(timeout=10)
    assert [worker.thread.is_alive() for worker in workers] == [True, True, False]
    served.close(10)


def test_a_reload_is_finished_without_its_client_and_a_second_one_waits(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service()
    before, load_for = echo_of(service), models.load_for
    began, may_end, loads = threading.Event(), threading.Event(), []

    def slow(*arguments: Any) -> Any:
        loads.append(arguments)
        began.set()
        assert may_end.wait(60)
        return load_for(*arguments)

    monkeypatch.setattr(models, "load_for", slow)

    async def leave() -> None:
        first = asyncio.create_task(reload_models(service))
        assert await asyncio.to_thread(began.wait, 60)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        second = asyncio.create_task(reload_models(service))
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(loads) == 1 and echo_of(service) is before
        second.cancel()  # it has not begun, and never will
        may_end.set()
        async with asyncio.timeout(60):
            while echo_of(service) is before:
                await asyncio.sleep(0.001)
        await reload_models(service)

    asyncio.run(leave())
    assert len(loads) == 2
    assert 'weft_reloads_total{outcome="done"} 2.0' in service.state.metrics.export().decode()


def test_a_model_is_freed_after_its_last_request(make_service: MakeService) -> None:
    service = make_service()
    (held,) = service.models
    thread = held.worker.thread
    assert ask(make_app(service), "POST", "/translate", json=HELLO).status_code == 200  # its last batch was a search
    asyncio.run(service.models.reload())
    assert thread.is_alive()
    del held
    gc.collect()  # the answer's task and its exceptions refer to one another
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_a_model_is_called_as_its_folder_and_a_link_as_it_is_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "run").mkdir(parents=True)
        (tmp_path / f"to-{name}").symlink_to(tmp_path / name / "run")
    monkeypatch.chdir(tmp_path / "one")
    assert ids_of([Source("."), Source("../to-one"), Source("run/"), Source("../to-two")]) == [
        "one",
        "to-one",
        "run",
        "to-two",
    ]


def test_models_of_equal_names_are_refused() -> None:
    with pytest.raises(UsageError, match="several models are called zh-en"):
        ids_of([Source("a/zh-en"), Source("b/zh-en")])


def test_a_model_is_named_with_its_license_and_card(make_service: MakeService) -> None:
    app = make_app(make_service())
    (model,) = ask(app, "GET", "/frontend/settings").json()["models"]
    assert model == {"id": "run", "source": "zh", "target": "en", "license": None}
    card = ask(app, "GET", "/weft/card/run")
    assert card.headers["content-type"] == "text/plain; charset=utf-8"
    assert ask(app, "GET", "/weft/card/other").status_code == 404
