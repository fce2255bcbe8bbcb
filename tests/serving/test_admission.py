"""Which requests are answered, decided before their body is read."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.serving.conftest import HELLO, KEY, KEYS, MakeService, ask

from weft.errors import UsageError
from weft.serving.admission import Admission, ServerState
from weft.serving.app import POLICIES, make_app
from weft.serving.keys import Keys
from weft.serving.limits import Limits
from weft.serving.metrics import Metrics
from weft.serving.service import Service


class Wire:
    """A raw ASGI request: counts the parts of the body that were received, and keeps what was sent."""

    def __init__(self, path: str, *, client: str = "127.0.0.1", parts: Sequence[bytes] = (), **headers: str) -> None:
        names = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
        self.scope: dict[str, Any] = {
            **{"type": "http", "method": "POST", "path": path, "client": (client, 1)},
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in names.items()],
        }
        self.parts, self.received = list(parts), 0
        self.sent: list[Any] = []

    async def receive(self) -> dict[str, Any]:
        self.received += 1
        if not self.parts:
            await asyncio.sleep(3600)
        return {"type": "http.request", "body": self.parts.pop(0), "more_body": bool(self.parts)}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}


class Endless:
    """An application that never responds."""

    is_cancelled = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            self.is_cancelled = True


async def empty(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def send(state: ServerState, wire: Wire, app: Any = empty, origins: Sequence[str] = ()) -> Wire:
    asyncio.run(Admission(app, state, POLICIES, origins)(wire.scope, wire.receive, wire.send))
    return wire


def make_state(keys: Keys | None = None, hosts: frozenset[str] | None = None, **limits: Any) -> ServerState:
    return ServerState(Limits(**limits), Metrics(), keys or Keys(), hosts)


def full(state: ServerState) -> ServerState:
    state.in_flight = state.limits.queue
    return state


@pytest.mark.parametrize(
    ("state", "headers", "status"),
    [
        (make_state(KEYS), {"authorization": "Bearer wrong"}, 401),
        (make_state(KEYS), {"authorization": "Bearer "}, 401),
        (make_state(KEYS), {"authorization": "bearer \xff\xfe"}, 401),
        (make_state(hosts=frozenset({"localhost"})), {"host": "evil.example"}, 421),
        (make_state(hosts=frozenset({"localhost"})), {"host": "localhost.evil.example:5000"}, 421),
        (make_state(body_bytes=1000), {"content_length": "1001"}, 413),
        (full(make_state(queue=3)), {}, 503),
    ],
)
def test_a_request_is_refused_before_a_byte_of_its_body_is_read(
    state: ServerState, headers: dict[str, str], status: int
) -> None:
    wire = send(state, Wire("/translate", parts=[b"x"], **headers))
    assert (wire.status, wire.received) == (status, 0)
    assert b"error" in wire.sent[1]["body"]
    assert status != 503 or wire.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/health", "10.1.2.3:5000", 200),
        ("/ready", "[2001:db8::1]:5000", 200),
        ("/metrics", "10.1.2.3", 200),
        ("/health", "", 200),
        ("/health", "evil.example", 421),
        ("/metrics", "10.1.2.3.evil.example", 421),
        ("/", "10.1.2.3", 421),
        ("/translate", "10.1.2.3", 421),
    ],
)
def test_probes_may_know_the_server_by_its_address(path: str, host: str, status: int) -> None:
    assert send(make_state(hosts=frozenset({"localhost"})), Wire(path, host=host, parts=[b""])).status == status


@pytest.mark.parametrize(("unread", "status"), [(0, 200), (64 << 10, 200), ((64 << 10) + 1, 400), (1 << 30, 400)])
def test_a_client_that_sends_much_before_its_response_is_refused(unread: int, status: int) -> None:
    for path in ("/", "/translate"):
        wire = Wire(path, parts=[b""])
        wire.scope["state"] = {"unread": lambda: unread}
        assert send(make_state(), wire).status == status
        assert status == 200 or wire.headers["connection"] == "close"


@pytest.mark.parametrize(
    "clients",
    [
        ["10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2"],
        ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1"],  # a network is one client
    ],
)
def test_each_client_has_its_own_rate(clients: list[str]) -> None:
    admission = Admission(empty, make_state(requests_per_minute=2), POLICIES)
    wires = [Wire("/translate", client=client, parts=[b""]) for client in clients]
    for wire in wires:
        asyncio.run(admission(wire.scope, wire.receive, wire.send))
    assert [wire.status for wire in wires] == [200, 200, 429, 200]


def test_a_body_larger_than_announced_is_cut_off() -> None:
    wire = send(make_state(body_bytes=10), Wire("/translate", parts=[b"12345678"] * 1000))
    assert (wire.status, wire.received, wire.headers["connection"]) == (413, 2, "close")


def test_a_body_that_is_not_received_in_time_is_refused() -> None:
    wire = send(make_state(body_seconds=0.05), Wire("/translate"))  # whose body comes in an hour
    assert (wire.status, wire.received) == (408, 1)


def test_a_response_that_takes_too_long_is_cancelled() -> None:
    state, app = make_state(seconds=0.05), Endless()
    wire = send(state, Wire("/translate", parts=[b""]), app)
    assert (wire.status, wire.headers["retry-after"], app.is_cancelled) == (503, "1", True)
    assert 'weft_refused_total{why="503"} 1.0' in state.metrics.export().decode()


def test_a_response_is_cancelled_when_its_client_disconnects() -> None:
    wire, state, app = Wire("/translate", parts=[b""]), make_state(), Endless()
    receive = wire.receive

    async def leave() -> Any:
        return await receive() if wire.parts else {"type": "http.disconnect"}

    wire.receive = leave
    assert (send(state, wire, app).sent, app.is_cancelled, state.in_flight) == ([], True, 0)


def test_a_client_that_does_not_read_its_response_is_dropped() -> None:
    wire = Wire("/translate", parts=[b""])

    async def stuck(message: Any) -> None:
        await asyncio.sleep(3600)

    wire.send = stuck
    state = make_state(seconds=0.05)
    send(state, wire)
    assert state.in_flight == 0


def test_an_internal_error_is_answered_and_logged_without_the_text(caplog: pytest.LogCaptureFixture) -> None:
    text = "".join(["priv", "ate"])  # so that it does not stand in the lines of the trace

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError(text)

    wire = send(make_state(), Wire("/translate", parts=[b""]), broken)
    assert wire.status == 500
    assert "private" not in wire.sent[1]["body"].decode() + caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_request_takes_a_slot_in_the_queue_until_it_is_answered() -> None:
    state = make_state(queue=2)
    counted = []

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        counted.append(state.in_flight)
        await empty(scope, receive, send)

    for _ in range(3):
        send(state, Wire("/translate", parts=[b""]), counting)
    assert (counted, state.in_flight) == ([1, 1, 1], 0)


def test_a_request_whose_body_is_missing_takes_no_slot() -> None:
    state = make_state(queue=1, body_seconds=60)
    admission = Admission(empty, state, POLICIES)

    async def with_silent_clients() -> Wire:
        silent = [Wire("/translate") for _ in range(5)]
        waiting = [asyncio.create_task(admission(one.scope, one.receive, one.send)) for one in silent]
        while not all(one.received for one in silent):
            await asyncio.sleep(0)
        await admission((wire := Wire("/translate", parts=[b""])).scope, wire.receive, wire.send)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return wire

    assert asyncio.run(with_silent_clients()).status == 200


def test_a_request_whose_body_comes_when_the_queue_has_filled_is_refused() -> None:
    state = make_state(queue=1)
    wire = Wire("/translate", parts=[b""])
    receive = wire.receive

    async def fill() -> Any:
        full(state)
        return await receive()

    wire.receive = fill
    assert (send(state, wire).status, wire.headers["retry-after"], state.in_flight) == (503, "1", 1)
    assert 'weft_refused_total{why="503"} 1.0' in state.metrics.export().decode()


def test_bodies_being_read_have_a_bound_together() -> None:
    state = make_state(queue=2, body_bytes=10)
    state.bytes_in_reading = 13  # of others
    assert send(state, Wire("/translate", parts=[b"1234", b"567"])).status == 200
    wire = send(state, Wire("/translate", parts=[b"1234", b"5678", b""]))
    assert (wire.status, wire.received, wire.headers["connection"]) == (503, 2, "close")
    assert state.bytes_in_reading == 13


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:5000", "http://localhost:5000", 200),
        ("localhost:5000", "http://LOCALHOST:5000", 200),
        ("[::1]:5000", "http://[::1]:5000", 200),
        ("name.example", "https://name.example", 200),  # a proxy speaks TLS
        ("name.example:443", "https://name.example", 200),
        ("name.example", "https://friend.example", 200),
        ("localhost:5000", "http://localhost:3000", 403),
        ("localhost:5000", "http://localhost", 403),
        ("localhost:5000", "http://evil.example", 403),
        ("localhost:5000", "https://friend.example:8443", 403),
        ("localhost:5000", "https://friend.example.evil.example", 403),
        ("localhost:5000", "file://localhost:5000", 403),
        ("localhost:5000", "localhost:5000", 403),
        ("localhost:5000", "null", 403),
        ("localhost:5000", "", 403),
        ("", "", 403),
    ],
)
def test_a_page_of_another_site_is_refused_before_its_form_is_read(host: str, origin: str, status: int) -> None:
    wire = Wire("/translate_file", host=host, origin=origin, parts=[b""])
    assert send(make_state(), wire, origins=["https://friend.example"]).status == status
    assert status == 200 or wire.received == 0


def test_a_link_from_another_site_is_answered_and_all_sites_may_be_allowed() -> None:
    evil = "http://evil.example"
    assert send(make_state(), Wire("/", origin=evil)).status == 200
    assert send(make_state(), Wire("/translate", origin=evil, parts=[b""]), origins=["*"]).status == 200


def test_an_internal_error_of_a_route_has_the_shape_of_its_api(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    text = "".join(["priv", "ate"])  # so that it does not stand in the lines of the trace

    def broken(*arguments: Any, **settings: Any) -> Any:
        raise ZeroDivisionError(text)

    monkeypatch.setattr(Service, "count", broken)
    app = make_app(make_service())
    says = "internal error; the server's log has the details"
    answer = ask(app, "POST", "/translate", json=HELLO)
    assert (answer.status_code, answer.json()) == (500, {"error": says})
    chat = {"model": "run", "messages": [{"role": "user", "content": text}]}
    answer = ask(app, "POST", "/v1/chat/completions", json=chat)
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, says)
    assert answer.json()["error"]["type"] == "server_error"
    assert caplog.text.count("ZeroDivisionError in /") == 2 and text not in caplog.text


def test_every_response_has_security_headers(make_service: MakeService) -> None:
    app = make_app(make_service())
    for path in ("/", "/languages", "/nothing", "/health"):
        headers = ask(app, "GET", path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers and "access-control-allow-origin" not in headers


def test_only_allowed_sites_may_send_requests_and_never_with_credentials(make_service: MakeService) -> None:
    app = make_app(make_service(), ["https://friend.example"])
    for origin, answer in (("https://friend.example", "https://friend.example"), ("https://evil.example", None)):
        headers = ask(app, "POST", "/translate", json=HELLO, headers={"Origin": origin}).headers
        assert headers.get("access-control-allow-origin") == answer
        assert "access-control-allow-credentials" not in headers


@pytest.mark.parametrize("path", ["/translate", "/detect", "/weft/stream"])
def test_a_key_may_be_in_the_header_or_in_the_body(make_service: MakeService, path: str) -> None:
    app = make_app(make_service(KEYS))
    body = {"q": "你好"} if path == "/detect" else HELLO
    assert ask(app, "POST", path, json=body).status_code == 401
    refused = ask(app, "POST", path, json={**body, "api_key": "钥匙"})
    assert refused.status_code == 401 and "not valid" in refused.text
    assert ask(app, "POST", path, json={**body, "api_key": KEY}).status_code == 200
    assert ask(app, "POST", path, json=body, headers={"Authorization": f"Bearer {KEY}"}).status_code == 200


def test_a_line_end_after_a_path_does_not_lead_around_its_policy(make_service: MakeService) -> None:
    app = make_app(make_service(KEYS))
    for method, path in (("GET", "/metrics%0A"), ("POST", "/weft/reload%0A"), ("POST", "/detect%0A?q=a")):
        assert ask(app, method, path).status_code == 404


def test_paths_without_private_data_need_no_key(make_service: MakeService) -> None:
    app = make_app(make_service(KEYS))
    for path in ("/", "/languages", "/frontend/settings", "/health", "/ready", "/openapi.json"):
        assert ask(app, "GET", path).status_code == 200, path
    for path in ("/metrics", "/v1/models", "/v1/models/run"):
        assert ask(app, "GET", path).status_code == 401, path
        assert ask(app, "GET", path, headers={"Authorization": f"Bearer {KEY}"}).status_code == 200, path


def test_refusals_of_routes_and_of_admission_are_counted_alike(make_service: MakeService) -> None:
    service = make_service(KEYS)
    app = make_app(service)
    assert ask(app, "POST", "/translate", json=HELLO).status_code == 401
    assert ask(app, "GET", "/v1/models").status_code == 401
    assert ask(app, "POST", "/translate", json={}).status_code == 400
    assert ask(app, "GET", "/health").status_code == 200
    assert ask(app, "GET", "/nowhere").status_code == 404
    assert ask(app, "GET", "/translate").status_code == 405
    written = service.state.metrics.export().decode()
    assert 'weft_refused_total{why="404"} 1.0' in written and 'weft_refused_total{why="405"} 1.0' in written
    assert 'weft_refused_total{why="401"} 2.0' in written and 'weft_refused_total{why="400"} 1.0' in written


def test_where_a_key_belongs_is_said_of_the_path_that_was_asked(make_service: MakeService) -> None:
    app = make_app(make_service(KEYS))
    for path, takes_body in (("/translate", True), ("/v1/chat/completions", False), ("/v1/models", False)):
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            answer = ask(app, "GET" if path == "/v1/models" else "POST", path, json=HELLO, headers=headers)
            assert answer.status_code == 401 and ("api_key" in answer.text) == takes_body, path


@pytest.mark.parametrize("logs_texts", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", {**HELLO, "q": "秘密", "api_key": "weft-unknown"}),
        ("/weft/stream", {**HELLO, "q": "秘密"}),
        ("/v1/chat/completions", {"model": "run", "stream": True, "messages": [{"role": "user", "content": "秘密"}]}),
        ("/v1/chat/completions", {"model": "run", "messages": [{"role": "user", "content": "秘密"}]}),
    ],
    ids=["translate", "stream", "chat stream", "chat"],
)
def test_texts_are_in_the_log_only_if_asked_for_and_keys_never(
    make_service: MakeService, caplog: pytest.LogCaptureFixture, path: str, body: dict[str, Any], logs_texts: bool
) -> None:
    caplog.set_level("INFO")
    answer = ask(make_app(make_service(logs_texts=logs_texts)), "POST", path, json=body)
    assert answer.status_code == 200 and ("秘密" in caplog.text) == logs_texts
    assert path in caplog.text and "weft-unknown" not in caplog.text


def test_a_path_that_takes_no_body_is_given_none() -> None:
    async def reading(scope: Any, receive: Any, send: Any) -> None:
        assert await receive() == {"type": "http.request", "body": b"", "more_body": False}
        await empty(scope, receive, send)

    assert send(make_state(), Wire("/nothing", parts=[b"x"] * 10), reading).status == 200


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"seconds": 0.0}, "lets nothing through"),
        ({"queue": 0}, "lets nothing through"),
        ({"requests_per_minute": -1}, "lets nothing through"),
        ({"seconds": float("inf")}, "seconds = inf is not finite; it cannot be switched off"),
        ({"body_bytes": 10**400}, "body_bytes does not fit into a machine word; it cannot be switched off"),
        ({"document_seconds": float("nan")}, "document_seconds = nan is not finite"),
    ],
)
def test_a_limit_that_is_too_low_or_not_finite_is_refused(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Limits(**limits)


def test_a_file_of_the_page_is_sent_once_and_compressed(make_service: MakeService) -> None:
    app = make_app(make_service())
    for path in ("/", "/weft.css", "/weft.js", "/icon.svg"):
        whole = ask(app, "GET", path, headers={"Accept-Encoding": "identity"})
        zipped = ask(app, "GET", path, headers={"Accept-Encoding": "gzip"})
        assert whole.status_code == zipped.status_code == 200 and whole.content == zipped.content
        assert zipped.headers["content-encoding"] == "gzip" and "content-encoding" not in whole.headers
        assert int(zipped.headers["content-length"]) < int(whole.headers["content-length"])
        for known in (whole.headers["etag"], f'"other", W/{whole.headers["etag"]}'):
            again = ask(app, "GET", path, headers={"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b"")
        assert ask(app, "GET", path, headers={"If-None-Match": '"other"'}).status_code == 200
