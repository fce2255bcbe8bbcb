"""A model survives being packed and unpacked to the last bit; an archive that is more or less than a model, nothing."""

import hashlib
import json
import os
import pickle
import random
import shutil
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pickles import Payload

from weft.errors import ModelError, RunError, UsageError, WeftError
from weft.folders import archive as model_archive
from weft.folders.archive import pack, unpack
from weft.folders.finding import find_model
from weft.folders.model_folder import load_model
from weft.translating.translator import Translator

FILES = [
    *("README.md", "config.toml", "manifest.json", "model.safetensors"),
    *("tokenizer.source.model", "tokenizer.target.model"),
]
Members = list[tuple[zipfile.ZipInfo, bytes]]


@pytest.fixture
def members(tiny_run: Path) -> Members:
    """The files of a model as the members of an archive that has nothing wrong with it."""
    return [(zipfile.ZipInfo(name), (tiny_run / "run" / name).read_bytes()) for name in FILES]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "model.zip"


def write(archive: Path, members: Members, compression: int = zipfile.ZIP_STORED) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(archive, "w", compression) as zipped:
        warnings.simplefilter("ignore")  # two members of one name are what some archives here are about
        for member, content in members:
            zipped.writestr(member, content, compression)


def content(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


# There and back


def test_what_is_unpacked_is_what_was_packed(tiny_run: Path, archive: Path, tmp_path: Path) -> None:
    assert pack(tiny_run / "run", archive) == tiny_run / "run"
    unpack(archive, tmp_path / "again")
    assert content(tmp_path / "again") == {name: (tiny_run / "run" / name).read_bytes() for name in FILES}
    texts = ["我有一个苹果。", "两个朋友"]
    ours, theirs = (Translator(load_model(find_model(folder))) for folder in (tiny_run / "run", tmp_path / "again"))
    assert ours.translate(texts) == theirs.translate(texts)


def test_the_standard_library_finds_the_same_in_it(tiny_run: Path, archive: Path) -> None:
    pack(tiny_run / "run", archive)
    with zipfile.ZipFile(archive) as zipped:
        assert zipped.namelist() == FILES and zipped.testzip() is None
        assert all(zipped.read(name) == (tiny_run / "run" / name).read_bytes() for name in FILES)


def test_of_a_checkpoint_only_the_model_is_packed(tiny_run: Path, archive: Path) -> None:
    checkpoint = tiny_run / "run/checkpoints/step-2"
    assert {"training.safetensors", "training.json"} <= {file.name for file in checkpoint.iterdir()}
    pack(checkpoint, archive)
    assert zipfile.ZipFile(archive).namelist() == FILES


def test_the_same_files_give_the_same_bytes_whoever_owns_them_and_whenever_they_were_written(
    tiny_run: Path, tmp_path: Path
) -> None:
    pack(tiny_run / "run", tmp_path / "a.zip")
    copy = shutil.copytree(tiny_run / "run", tmp_path / "elsewhere")
    for file in copy.iterdir():
        os.utime(file, (1_000_000_000, 1_000_000_000))
        file.chmod(0o700)
    pack(copy, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_a_card_that_was_edited_comes_along_and_one_that_was_taken_away_is_not_missed(
    tiny_run: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(tiny_run / "run", tmp_path / "copy")
    (copy / "README.md").write_text("license: cc-by-4.0\n", encoding="utf-8")
    pack(copy, tmp_path / "a.zip")
    unpack(tmp_path / "a.zip", tmp_path / "a")
    assert (tmp_path / "a/README.md").read_text(encoding="utf-8") == "license: cc-by-4.0\n"
    (copy / "README.md").unlink()
    pack(copy, tmp_path / "b.zip")
    unpack(tmp_path / "b.zip", tmp_path / "b")
    assert not (tmp_path / "b/README.md").exists()


def test_an_archive_that_somebody_else_zipped_and_compressed_is_as_good(
    members: Members, archive: Path, tmp_path: Path
) -> None:
    write(archive, list(reversed(members)), zipfile.ZIP_DEFLATED)
    unpack(archive, tmp_path / "model")
    assert content(tmp_path / "model") == {member.filename: data for member, data in members}


# Nothing half-written


def test_a_model_that_would_not_load_is_not_packed_and_the_old_archive_stays(
    tiny_run: Path, tmp_path: Path, archive: Path
) -> None:
    copy = shutil.copytree(tiny_run / "run", tmp_path / "copy")
    pack(copy, archive)
    with open(copy / "model.safetensors", "ab") as file:
        file.write(b"x")
    before = content(tmp_path)
    with pytest.raises(ModelError, match=r"model\.safetensors .*was changed or damaged"):
        pack(copy, archive)
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("model.tar", r"\.zip"),
        ("run/manifest.json", r"\.zip"),
        ("nowhere/model.zip", "nowhere is not a folder"),
        ("folder.zip", "is not a file that can be replaced"),
    ],
)
def test_a_place_where_no_archive_can_be_is_refused(tiny_run: Path, tmp_path: Path, name: str, says: str) -> None:
    shutil.copytree(tiny_run / "run", tmp_path / "run")
    (tmp_path / "folder.zip").mkdir()
    before = content(tmp_path)
    with pytest.raises(WeftError, match=says):
        pack(tmp_path / "run", tmp_path / name)
    assert content(tmp_path) == before


@pytest.mark.parametrize("place", ["file", "folder", "link", "nowhere/model"])
def test_what_is_there_already_is_never_unpacked_over(tiny_run: Path, tmp_path: Path, place: str) -> None:
    pack(tiny_run / "run", tmp_path / "model.zip")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "missing")
    before = content(tmp_path)
    with pytest.raises(UsageError):
        unpack(tmp_path / "model.zip", tmp_path / place)
    assert content(tmp_path) == before


@pytest.mark.parametrize("command", ["pack", "unpack"])
def test_a_disk_that_fills_up_leaves_nothing_behind(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    pack(tiny_run / "run", tmp_path / "model.zip")
    before = content(tmp_path)
    monkeypatch.setattr("weft.files.sync", full)
    monkeypatch.setattr("weft.training.run_folder.sync", full)
    with pytest.raises((WeftError, RunError), match="could not be written: No space left on device"):
        if command == "pack":
            pack(tiny_run / "run", tmp_path / "other.zip")
        else:
            unpack(tmp_path / "model.zip", tmp_path / "model")
    assert content(tmp_path) == before


# Archives that mean harm, or are damaged


def named(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)
    member.create_system = 3
    member.external_attr = mode << 16
    return member


def with_member(name: str, mode: int = stat.S_IFREG | 0o644, data: bytes = b"x") -> Callable[[Path, Members], None]:
    return lambda archive, members: write(archive, [*members, (named(name, mode), data)])


def patched(
    offset: int, form: str, value: int, compression: int = zipfile.ZIP_STORED
) -> Callable[[Path, Members], None]:
    """Another number in the first entry of the table of contents."""

    def build(archive: Path, members: Members) -> None:
        write(archive, members, compression)
        data = bytearray(archive.read_bytes())
        struct.pack_into(form, data, data.index(b"PK\x01\x02") + offset, value)
        archive.write_bytes(data)

    return build


def raw(data: bytes) -> Callable[[Path, Members], None]:
    def build(archive: Path, members: Members) -> None:
        archive.write_bytes(data)

    return build


def cut_short(archive: Path, members: Members) -> None:
    write(archive, members)
    archive.write_bytes(archive.read_bytes()[:-100])


def one_byte_changed(archive: Path, members: Members) -> None:
    write(archive, members)
    data = archive.read_bytes()
    middle = data.index(b"encoder_norm") + 9
    archive.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])


def replaced(name: str, data: bytes, *, sealed: bool = False) -> Callable[[Path, Members], None]:
    """Another content for one file; `sealed`: with the digest that makes the manifest true again."""

    def build(archive: Path, members: Members) -> None:
        contents = {member.filename: old for member, old in members} | {name: data}
        if sealed:
            manifest = json.loads(contents["manifest.json"])
            manifest["files"][name] = hashlib.sha256(data).hexdigest()
            contents["manifest.json"] = json.dumps(manifest).encode()
        write(archive, [(zipfile.ZipInfo(file), content) for file, content in contents.items()])

    return build


def without(name: str) -> Callable[[Path, Members], None]:
    return lambda archive, members: write(archive, [pair for pair in members if pair[0].filename != name])


def many(archive: Path, members: Members) -> None:
    write(archive, [*members, *((zipfile.ZipInfo(f"f{number}"), b"x") for number in range(200))])


def a_hundred_thousand(archive: Path, members: Members) -> None:
    """One file, listed 100,000 times."""
    write(archive, members[:1])
    data = archive.read_bytes()
    begin, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    entries = data[begin:end] * 100_000
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, len(entries), begin, 0)
    archive.write_bytes(data[:begin] + entries + tail)


def bomb(archive: Path, members: Members) -> None:
    """A thousand times as large as it is packed."""
    write(archive, [*members, (named("bomb"), bytes(20_000_000))], zipfile.ZIP_DEFLATED)


def overlapping(archive: Path, members: Members) -> None:
    """Two hundred entries for the same bytes, which together would grow two hundred times."""
    write(archive, [(zipfile.ZipInfo("f"), bytes(50_000))], zipfile.ZIP_DEFLATED)
    data = archive.read_bytes()
    begin, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    entries = data[begin:end] * 200
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 200, 200, len(entries), begin, 0)
    archive.write_bytes(data[:begin] + entries + tail)


PICKLE = pickle.dumps(Payload())
LEADS_OUT = "leads out of the folder"
NO_PLAIN_FILE = "is a link, a device or a folder"

HOSTILE: dict[str, tuple[Callable[[Path, Members], None], str]] = {
    "a path upward": (with_member("../evil"), LEADS_OUT),
    "a path upward, later on": (with_member("a/../../evil"), LEADS_OUT),
    "an absolute path": (with_member("/tmp/evil"), LEADS_OUT),
    "a drive": (with_member("C:evil"), LEADS_OUT),
    "a path of Windows": (with_member("..\\evil"), LEADS_OUT),
    "a folder inside": (with_member("sub/config.toml"), LEADS_OUT),
    "a name of control characters": (with_member("\x1b[2Jevil"), r"\\x1b\[2Jevil"),
    "a hidden file": (with_member(".evil"), LEADS_OUT),
    "a name that is too long": (with_member("n" * 300), LEADS_OUT),
    "a symbolic link": (with_member("evil", stat.S_IFLNK | 0o777, b"/etc/hostname"), NO_PLAIN_FILE),
    "a device": (with_member("evil", stat.S_IFBLK | 0o666), NO_PLAIN_FILE),
    "a folder by its mode": (with_member("evil", stat.S_IFDIR | 0o777), NO_PLAIN_FILE),
    "one name twice": (with_member("config.toml"), "has the name of another file"),
    "one name in two cases": (with_member("Config.TOML"), "has the name of another file"),
    "a file that is no part of the model": (with_member("notes.txt"), "notes.txt .*is not a file of this model"),
    "a file that is no part of the model but listed": (
        replaced("export.json", b'{"engine": "onnx", "precision": "fp32", "longest": 64}', sealed=True),
        "export.json .*is not a file of this model",
    ),
    "a pickle beside the model": (with_member("payload.pt", data=PICKLE), "payload.pt .*weft opens none; convert it"),
    "a pickle for weights": (replaced("model.safetensors", PICKLE, sealed=True), "begins like a pickle.*convert it"),
    "a file missing": (without("tokenizer.source.model"), r"tokenizer\.source\.model .*is missing"),
    "no manifest": (without("manifest.json"), r"manifest\.json .*is missing"),
    "an altered file": (replaced("config.toml", b"seed = 2\n"), r"config\.toml .*was changed or damaged"),
    "settings that cannot be": (replaced("config.toml", b"[model]\nx = 1\n", sealed=True), "unknown key"),
    "an encrypted file": (patched(8, "<H", 1), "is encrypted"),
    "a file that lies behind the end": (patched(42, "<L", 2**32 - 2), "is not within the archive"),
    "a size that is too small": (patched(24, "<L", 10), "cannot be read"),
    "a size that is too large": (patched(24, "<L", 5000), r"README\.md .*is not as large as the archive says"),
    "a packed size that is too large": (patched(20, "<L", 10**9, zipfile.ZIP_DEFLATED), "holds less than it declares"),
    "an unusual compression": (patched(10, "<H", 14), "is compressed in a way that weft does not read"),
    "one file for many": (overlapping, "its files overlap"),
    "a bomb": (bomb, r"bomb .*would grow from [\d,]+ to 20,000,000 bytes"),
    "too many files": (many, "holds 206 files; a model has at most 200"),
    "a hundred thousand files": (a_hundred_thousand, "its table of contents is too large"),
    "one byte changed": (one_byte_changed, "cannot be read: Bad CRC-32"),
    "cut short": (cut_short, "cannot be read"),
    "no archive": (raw(b"not an archive at all"), "cannot be read: File is not a zip file"),
    "nothing": (raw(b""), "cannot be read"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_with_its_reason_and_nothing_is_written(
    name: str, members: Members, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a payload would leave its file
    build, says = HOSTILE[name]
    build(archive, members)
    before, above = content(tmp_path), set(os.listdir(tmp_path.parent))
    with pytest.raises(ModelError, match=f"(?s){says}") as raised:
        unpack(archive, tmp_path / "model")
    assert str(raised.value).startswith(f"{archive} has")
    assert content(tmp_path) == before and set(os.listdir(tmp_path.parent)) == above


def test_all_that_is_wrong_is_said_at_once(members: Members, archive: Path, tmp_path: Path) -> None:
    link = (named("link", stat.S_IFLNK | 0o777), b"x")
    write(archive, [*members, (named("../a"), b"x"), link, (named("x.bin"), b"x")])
    with pytest.raises(ModelError) as raised:
        unpack(archive, tmp_path / "model")
    assert [problem.where for problem in raised.value.problems] == ["../a", "link", "x.bin"]


def test_more_than_a_model_may_take_is_neither_packed_nor_unpacked(
    tiny_run: Path, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(tiny_run / "run", archive)
    monkeypatch.setattr(model_archive, "LARGEST_MODEL", 5000)
    with pytest.raises(ModelError, match=r"would take [\d,]+ bytes, more than 5,000"):
        unpack(archive, tmp_path / "model")
    with pytest.raises(ModelError, match=r"take [\d,]+ bytes, more than 5,000"):
        pack(tiny_run / "run", tmp_path / "other.zip")
    assert os.listdir(tmp_path) == ["model.zip"]


def test_a_card_without_end_is_neither_packed_nor_unpacked(
    tiny_run: Path, members: Members, archive: Path, tmp_path: Path
) -> None:
    endless = b"word " * 900_000
    write(archive, [(member, endless if member.filename == "README.md" else data) for member, data in members])
    with pytest.raises(ModelError, match=r"README.md +is larger than 4 MiB; a card has a page or two"):
        unpack(archive, tmp_path / "model")
    shutil.copytree(tiny_run / "run", tmp_path / "run")
    (tmp_path / "run" / "README.md").write_bytes(endless)
    with pytest.raises(ModelError, match=r"README.md +is larger than 4 MiB"):
        pack(tmp_path / "run", tmp_path / "other.zip")
    assert {*os.listdir(tmp_path)} == {"model.zip", "run"}


def test_an_archive_of_whatever_bytes_is_a_model_or_an_error(members: Members, archive: Path, tmp_path: Path) -> None:
    write(archive, members)
    data, rng = archive.read_bytes(), random.Random(1)
    contents = data.index(b"PK\x01\x02")
    for _ in range(200):
        spoiled = bytearray(data)
        for _ in range(rng.choice([1, 2, 8])):
            spoiled[rng.randrange(contents, len(data))] = rng.randrange(256)
        archive.write_bytes(spoiled)
        try:
            unpack(archive, tmp_path / "model")
        except ModelError:
            assert os.listdir(tmp_path) == ["model.zip"]
        else:
            shutil.rmtree(tmp_path / "model")
