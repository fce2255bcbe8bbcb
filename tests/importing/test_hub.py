"""A published model arrives from a hub on this machine, is imported and translates; else only its parts are left."""

import errno
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from weft.data import download
from weft.errors import UsageError, WeftError
from weft.importing import hub as module
from weft.importing.hub import get_model
from weft.translating.loading import load_translator

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Serves a folder as the hub does; `cut` holds files whose next transfer ends after half, `moved` redirects."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files = {file.name: file.read_bytes() for file in folder.iterdir()}
        self.cut: set[str] = set()
        self.moved: dict[str, str] = {}
        self.about = {"sha": COMMIT, "siblings": [described(name, self.files[name]) for name in sorted(self.files)]}
        self.asked: list[tuple[str, str | None]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    server: Hub  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        path, wanted = self.path.partition("?")[0], self.headers.get("Range")
        name = path.rpartition("/")[2]
        self.server.asked.append((name, wanted))
        if name in self.server.moved:
            self.answer(302, b"", Location=self.server.moved.pop(name))
        elif path == "/api/models/some/tiny-model":
            self.answer(200, json.dumps(self.server.about).encode())
        elif path == f"/some/tiny-model/resolve/{COMMIT}/{name}" and name in self.server.files:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
            content = self.server.files[name]
            whole = f"bytes {begin}-{len(content) - 1}/{len(content)}"
            self.answer(206 if begin else 200, content[begin:], ETag='"one"', Content_Range=whole)
        else:
            self.answer(404, b"")

    def answer(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        name = self.path.rpartition("/")[2]
        self.wfile.write(body[: len(body) // 2] if name in self.server.cut else body)
        self.server.cut.discard(name)

    def log_message(self, format: str, *args: object) -> None:
        """Not on the tests' stderr."""


def described(name: str, content: bytes) -> dict[str, object]:
    if name.endswith((".safetensors", ".spm")):
        return {"rfilename": name, "lfs": {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}}
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    return {"rfilename": name, "size": len(content), "blobId": blob}


class Silent(NamedTuple):
    said: list[str]

    def on_message(self, text: str) -> None:
        self.said.append(text)

    def on_progress(self, name: str, done: int, total: int | None) -> None: ...


@pytest.fixture
def hub(folder_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(download, "PAUSES", (0.01, 0.01))
    with Hub(folder_of("marian-shared")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def get(hub: Hub, output: Path) -> Path:
    return get_model("hf:some/tiny-model", output, Silent([]), hub=hub.address)


def test_it_arrives_is_imported_and_translates(hub: Hub, tmp_path: Path, import_once: Callable[[str], Any]) -> None:
    folder = get(hub, tmp_path / "tiny")
    ours, direct = (load_translator(each) for each in (folder, import_once("marian-shared").folder))
    assert ours.translate(["我有三个苹果。"])[0].text == direct.translate(["我有三个苹果。"])[0].text
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tiny")] == ["tiny"]
    with pytest.raises(UsageError, match="exists"):
        get(hub, folder)


def test_a_transfer_that_is_cut_continues_where_it_stopped(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "PAUSES", ())
    hub.cut.add("model.safetensors")
    with pytest.raises(WeftError, match="the same command continues"):
        get(hub, tmp_path / "tiny")
    asked = len(hub.asked)
    get(hub, tmp_path / "tiny")
    half = len(hub.files["model.safetensors"]) // 2
    assert [one for one in hub.asked[asked:] if one[1]] == [("model.safetensors", f"bytes={half}-")]
    assert "source.spm" not in dict(hub.asked[asked:])  # what has arrived is not asked for again


def test_what_is_left_of_an_earlier_commit_or_of_other_work_is_not_imported(hub: Hub, tmp_path: Path) -> None:
    arriving = tmp_path / "tiny.partial" / "some" / "tiny-model"
    arriving.mkdir(parents=True)
    (arriving / "target_vocab.json").write_text("of an earlier commit", encoding="utf-8")
    (tmp_path / "tiny.partial" / "mine.txt").write_text("of other work", encoding="utf-8")
    get(hub, tmp_path / "tiny")
    assert [path.name for path in (tmp_path / "tiny.partial").iterdir()] == ["mine.txt"]


def test_a_wrong_digest_is_refused_and_named(hub: Hub, tmp_path: Path) -> None:
    hub.files["source.spm"] = bytes(len(hub.files["source.spm"]))
    with pytest.raises(WeftError, match=r"source\.spm.*sha256"):
        get(hub, tmp_path / "tiny")
    assert not (tmp_path / "tiny").exists()


def test_a_redirect_is_followed(hub: Hub, tmp_path: Path) -> None:
    hub.moved["vocab.json"] = f"{hub.address}/some/tiny-model/resolve/{COMMIT}/vocab.json"
    assert get(hub, tmp_path / "tiny").is_dir()


def test_what_is_not_there_is_told(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(WeftError, match="404"):
        get_model("hf:some/other-model", tmp_path / "other", Silent([]), hub=hub.address)
    del hub.files["config.json"]
    with pytest.raises(WeftError, match=r"config\.json.*404"):
        get(hub, tmp_path / "tiny")
    hub.about["siblings"] = []
    with pytest.raises(WeftError, match="not a model of transformers"):
        get(hub, tmp_path / "tiny")
    for name in ("opus", "hf:../..", "hf:a/b/c"):
        with pytest.raises(UsageError, match=r"opus-mt-zh-en.*hf:OWNER/NAME"):
            get_model(name, tmp_path / "strange", Silent([]), hub=hub.address)


def test_without_room_nothing_is_downloaded_or_lost(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(module.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1000})())
        with pytest.raises(WeftError, match="free, and the model takes"):
            get(hub, tmp_path / "tiny")
    assert {name for name, _ in hub.asked} == {"tiny-model"}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as changed:
        changed.setattr(download, "receive", full)
        with pytest.raises(WeftError, match="No space left"):
            get(hub, tmp_path / "tiny")
    assert get(hub, tmp_path / "tiny").is_dir()
