"""The part of OpenAI's API that a translator answers."""

import json
from typing import Any

import pytest
from tests.serving.conftest import MakeService, ask

from weft.serving import translating
from weft.serving.app import make_app
from weft.serving.keys import Keys

CHAT = {"model": "run", "messages": [{"role": "system", "content": "Translate."}, {"role": "user", "content": "hello"}]}


@pytest.fixture
def app(make_service: MakeService) -> Any:
    return make_app(make_service())


def test_the_last_user_message_is_translated(app: Any) -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    messages = [*CHAT["messages"], {"role": "assistant", "content": "x"}, {"role": "user", "content": parts}]
    answer = ask(app, "POST", "/v1/chat/completions", json={**CHAT, "messages": messages, "temperature": 0.7, "n": 2})
    completion = answer.json()
    assert [one["message"]["content"] for one in completion["choices"]] == ["ONE\nTWO", "ONE'\nTWO'"]
    assert completion["choices"][0]["finish_reason"] == "stop"
    assert completion["usage"]["total_tokens"] > 0


def chunks_of(app: Any, content: str, **asked: Any) -> list[dict[str, Any]]:
    body = {**CHAT, "messages": [{"role": "user", "content": content}], "stream": True, **asked}
    answer = ask(app, "POST", "/v1/chat/completions", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, end, _ = answer.text.split("\n\n")
    assert end == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def test_a_stream_has_a_chunk_per_sentence_and_an_end(app: Any) -> None:
    choices = [chunk["choices"][0] for chunk in chunks_of(app, "a。b。\nc。")]
    assert [one["delta"].get("content") for one in choices] == ["A。", " B。", "\nC。", None]
    assert [one["delta"].get("role") for one in choices] == ["assistant", None, None, None]
    assert choices[-1]["finish_reason"] == "length"  # an echo in the target's pieces is as long as may be


def test_a_stream_reports_usage_if_asked(app: Any) -> None:
    usage = ask(app, "POST", "/v1/chat/completions", json={**CHAT, "n": 1}).json()["usage"]
    *chunks, last = chunks_of(app, "hello", stream_options={"include_usage": True})
    assert (last["choices"], last["usage"]) == ([], usage)
    assert [one["usage"] for one in chunks] == [None, None]
    for options in (None, {}, {"include_usage": False}, {"include_obfuscation": True}):
        assert all(one["choices"] and "usage" not in one for one in chunks_of(app, "hello", stream_options=options))


def test_a_truncated_translation_has_the_finish_reason_length(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def flags_of(source: str, *arguments: Any) -> frozenset[str]:
        return frozenset({"length"} if "cut" in source else {"repetition"})

    monkeypatch.setattr(translating, "flags_of", flags_of)
    for content, reason in (("cut. whole.", "length"), ("whole.", "stop")):
        asked = {**CHAT, "messages": [{"role": "user", "content": content}], "n": 2}
        choices = ask(app, "POST", "/v1/chat/completions", json=asked).json()["choices"]
        assert [one["finish_reason"] for one in choices] == [reason, "stop"]  # a flag is about the first
        assert chunks_of(app, content)[-1]["choices"][0]["finish_reason"] == reason


def test_other_messages_than_the_last_of_the_user_are_ignored(make_service: MakeService) -> None:
    app = make_app(make_service(characters=20))
    before = [
        {"role": "system", "content": "x" * 21},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]},
        {"role": "tool", "tool_call_id": "1", "content": "{}"},
    ]
    messages = [*before, {"role": "user", "content": "hello"}, {"role": "assistant"}]
    answer = ask(app, "POST", "/v1/chat/completions", json={**CHAT, "messages": messages})
    assert answer.json()["choices"][0]["message"]["content"] == "HELLO"
    for content in ("x" * 21, None, 5, [], [{"type": "image_url"}], [{"type": "text", "text": "x" * 21}]):
        wrong = [*before, {"role": "user", "content": content}]
        refused = ask(app, "POST", "/v1/chat/completions", json={**CHAT, "messages": wrong})
        assert refused.status_code == 400 and "content" in refused.json()["error"]["message"], content


def test_a_stream_has_one_choice(app: Any) -> None:
    refused = ask(app, "POST", "/v1/chat/completions", json={**CHAT, "n": 2, "stream": True})
    assert (refused.status_code, "one choice" in refused.json()["error"]["message"]) == (400, True)
    assert ask(app, "POST", "/v1/chat/completions", json={**CHAT, "n": 1, "stream": True}).status_code == 200
    assert ask(app, "POST", "/v1/chat/completions", json={**CHAT, "n": None, "stream": None}).status_code == 200


def test_models_are_listed_and_shown(app: Any) -> None:
    (model,) = ask(app, "GET", "/v1/models").json()["data"]
    assert model["id"] == "run"
    assert ask(app, "GET", "/v1/models/run").json() == model


def test_errors_have_openais_shape(make_service: MakeService) -> None:
    app = make_app(make_service(Keys((bytes(32),))))
    missing = ask(app, "POST", "/v1/chat/completions", json=CHAT)
    assert (missing.status_code, missing.json()["error"]["type"]) == (401, "authentication_error")
    app = make_app(make_service())
    unknown = ask(app, "POST", "/v1/chat/completions", json={**CHAT, "model": "gpt"})
    assert (unknown.status_code, unknown.json()["error"]["message"]) == (404, "there is no model gpt; there are run")
    half = {"type": "text", "text": "我" * 3000}
    parts = ask(
        app, "POST", "/v1/chat/completions", json={**CHAT, "messages": [{"role": "user", "content": [half, half]}]}
    )
    assert (parts.status_code, "6,001 characters, more than 5,000" in parts.json()["error"]["message"]) == (400, True)
    nobody = ask(app, "POST", "/v1/chat/completions", json={**CHAT, "messages": CHAT["messages"][:1]})
    assert nobody.status_code == 400
    empty = ask(app, "POST", "/v1/chat/completions", json={**CHAT, "messages": []})
    assert (empty.status_code, empty.json()["error"]["type"]) == (400, "invalid_request_error")
