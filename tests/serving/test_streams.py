"""Streams have the time of a document, and report when it is over."""

import asyncio
import gc
import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
from tests.serving.conftest import MakeService, ask, echo_of

from weft.serving.app import make_app
from weft.serving.limits import Limits
from weft.serving.refusals import Refused
from weft.serving.service import Service
from weft.serving.streams import until_deadline

TEXT = {"q": "一。二。", "source": "zh", "target": "en"}
CHAT = {"model": "run", "messages": [{"role": "user", "content": "一。二。"}]}


@pytest.fixture
def stuck(make_service: MakeService) -> Iterator[Service]:
    """A service whose model does not answer, with hardly any time for documents."""
    service = make_service(document_seconds=0.1)
    gate = echo_of(service).gate
    gate.clear()
    yield service
    gate.set()


def events_of(text: str) -> list[str]:
    return [event.removeprefix("data: ") for event in text.split("\n\n") if event]


def test_a_stream_that_takes_too_long_ends_with_an_error(stuck: Service) -> None:
    app = make_app(stuck)
    says = "the answer took longer than 0.1 s"
    assert json.loads(ask(app, "POST", "/weft/stream", json=TEXT).text) == {"error": says}
    events = ask(app, "POST", "/weft/stream", json=TEXT, headers={"Accept": "text/event-stream"}).text
    assert events_of(events) == [json.dumps({"error": says}), "event: end\ndata: {}"]
    *chunks, error, end = events_of(ask(app, "POST", "/v1/chat/completions", json={**CHAT, "stream": True}).text)
    assert (chunks, end) == ([], "[DONE]")
    assert json.loads(error)["error"] == {"message": says, "type": "server_error", "param": None, "code": None}
    assert 'weft_refused_total{why="503"} 3.0' in stuck.state.metrics.export().decode()
    assert stuck.models.all["run"].worker.backlog == 0  # what nobody waits for any more


def test_a_chat_that_is_streamed_has_the_time_of_a_document_and_another_has_not(make_service: MakeService) -> None:
    service = make_service(seconds=0.2)
    echo_of(service).pause = 0.5
    app = make_app(service)
    streamed = ask(app, "POST", "/v1/chat/completions", json={**CHAT, "stream": True})
    assert events_of(streamed.text)[-1] == "[DONE]" and '"finish_reason": "length"' in streamed.text
    whole = ask(app, "POST", "/v1/chat/completions", json=CHAT)
    assert (whole.status_code, whole.json()["error"]["message"]) == (503, "the answer took longer than 0.2 s")


STREAMS = pytest.mark.parametrize(
    ("path", "asked"), [("/weft/stream", TEXT), ("/v1/chat/completions", {**CHAT, "stream": True})]
)


@STREAMS
def test_what_is_streamed_is_counted_and_logged(
    make_service: MakeService, caplog: pytest.LogCaptureFixture, path: str, asked: dict[str, Any]
) -> None:
    service = make_service()
    service.logs_texts = True
    with caplog.at_level("INFO", "weft.serving.texts"):
        ask(make_app(service), "POST", path, json=asked)
    texts = [record.getMessage() for record in caplog.records if record.name == "weft.serving.texts"]
    assert texts == ["run [('一。', '一。')]", "run [('二。', '二。')]"]
    metrics = service.state.metrics.export().decode()
    assert 'weft_characters_total{model="run"} 4.0' in metrics
    assert 'weft_flagged_total{flag="length",model="run"} 2.0' in metrics  # an echo is as long as may be


@STREAMS
def test_a_stream_whose_client_takes_no_more_leaves_the_queue_at_once(
    make_service: MakeService, path: str, asked: dict[str, Any]
) -> None:
    service = make_service(seconds=0.2)
    jobs: list[Any] = []
    (model,) = service.models
    submit = model.worker.submit
    model.worker.submit = lambda job: (jobs.append(job), submit(job))[1]  # type: ignore[method-assign]
    scope = {
        **{"type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "root_path": ""},
        **{"path": path, "raw_path": path.encode(), "query_string": b"", "client": ("127.0.0.1", 1)},
        **{"server": ("127.0.0.1", 1), "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")]},
    }

    async def main() -> None:
        bodies = [json.dumps(asked).encode()]

        async def receive() -> Any:
            if not bodies:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": bodies.pop()}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()  # as where the other side's buffers are full

        async with asyncio.timeout(10):
            await make_app(service)(scope, receive, send)
        assert [job.cancelled for job in jobs] == [True]

    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()


def test_items_that_are_always_ready_end_in_time_too_and_are_closed() -> None:
    closed = []

    async def endless() -> AsyncGenerator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    async def read() -> Any:
        async for _ in until_deadline(endless(), asyncio.get_running_loop().time() + 0.05, Limits()):
            pass

    with pytest.raises(Refused, match="longer than 600 s"):
        asyncio.run(read())
    assert closed == [True]
