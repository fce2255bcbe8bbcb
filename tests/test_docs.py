"""The guide says what the code does: twins in both languages, links, commands, options, keys and tests that exist."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from weft.cli.main import app
from weft.config import resolve
from weft.config.keys import all_keys, tables_in
from weft.config.toml import read_toml, write_value
from weft.folders.recipes import TranslationRecipe

ROOT = Path(__file__).parents[1]
PAGES = sorted(path.name for path in (ROOT / "docs" / "en").glob("*.md"))
TWINS = [("README.md", "README.zh.md"), *((f"docs/en/{page}", f"docs/zh/{page}") for page in PAGES)]
DOCUMENTS = [document for twins in TWINS for document in twins]
COMMANDS = typer.main.get_command(app)
KEYS = all_keys(TranslationRecipe)


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str) -> list[tuple[str, str]]:
    """(language, content) of the code blocks: fenced, or indented by four spaces after an empty line."""
    fenced = r"^```(?P<language>\w*)\n(?P<fenced>.*?)^```$"
    indented = r"(?<=\n\n)(?P<indented>(?:    [^\n]+\n)+)"
    found = re.finditer(f"{fenced}|{indented}", text_of(document), re.DOTALL | re.MULTILINE)
    return [(match["language"] or "", match["fenced"] or match["indented"] or "") for match in found]


def outside_blocks(document: str) -> str:
    return re.sub(r"^```.*?^```$", "", text_of(document), flags=re.DOTALL | re.MULTILINE)


def without_comments(block: str) -> list[str]:
    """Its lines without what follows a `#` and a space; a line that was nothing else is left out."""
    lines = [re.sub(r"(^|\s)# .*", "", line).rstrip() for line in block.splitlines()]
    return [line for line in lines if line]


def inline_code(document: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", outside_blocks(document))


def commands(document: str) -> Iterator[list[str]]:
    """The words after `weft` in every command of the blocks."""
    for language, block in blocks(document):
        for line in without_comments(block) if language in ("", "console", "bash") else ():
            match = re.fullmatch(r"(?:\$ )?(?:\S*/)?weft (.*)", line.strip())
            if match:
                yield shlex.split(match[1].partition(" > ")[0])


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words call, and the words left for it; a KeyError names a verb that is not there."""
    command, rest = COMMANDS, list(words)
    while rest and (verbs := verbs_of(command)) and not rest[0].startswith("-"):
        command = verbs[rest.pop(0)]
    return command, rest


def verbs_of(command: Any) -> dict[str, Any]:
    """What can follow a command that has verbs of its own; empty for any other."""
    return getattr(command, "commands", {})


def options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


def documented_keys(document: str) -> dict[str, str]:
    """dotted key -> what the column of defaults says, from the tables under each `[table]` heading of recipes.md."""
    keys, table = {}, ""
    for line in text_of(document).split("\n## `--set`")[0].splitlines():
        if heading := re.fullmatch(r"## `\[(\w+)\]`", line):
            table = f"{heading[1]}."
        elif row := re.fullmatch(r"\| `([\w.]+)` \| ([^|]+) \| [^|]+ \|", line):
            keys[table + row[1]] = row[2]
    return keys


@pytest.mark.parametrize(("english", "chinese"), TWINS)
def test_every_page_has_a_twin_with_the_same_headings_and_the_same_code(english: str, chinese: str) -> None:
    levels = [re.findall(r"^#+(?= )", outside_blocks(document), re.MULTILINE) for document in (english, chinese)]
    assert levels[0] == levels[1]
    ours, theirs = ([(lang, without_comments(block)) for lang, block in blocks(d)] for d in (english, chinese))
    assert ours == theirs


@pytest.mark.parametrize("chinese", [chinese for _, chinese in TWINS])
def test_no_line_of_a_chinese_page_breaks_between_two_characters(chinese: str) -> None:
    """Where Markdown is shown, a line break is a blank."""
    found = re.findall(r".{0,9}[\u3400-\u9fff]\n *[\u3400-\u9fff].{0,9}", outside_blocks(chinese))
    assert found == []


def test_no_chinese_page_is_without_an_english_one() -> None:
    assert sorted(path.name for path in (ROOT / "docs" / "zh").glob("*.md")) == PAGES


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_relative_link_leads_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^)\s]+)[^)]*\)", outside_blocks(document))
    relative = [link for link in links if "://" not in link]
    assert [link for link in relative if not leads_somewhere(link, document)] == []


def leads_somewhere(link: str, document: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (ROOT / document).parent / path if path else ROOT / document
    return target.exists() and (not anchor or anchor in anchors(str(target)))


def anchors(document: str) -> set[str]:
    """What GitHub calls the headings: in small letters, without signs but - and _, where a space is - too; and with a
    number behind what another heading above is called."""
    headings = re.findall(r"^#+ (.+)$", outside_blocks(document), re.MULTILINE)
    names = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    above = (names[:place].count(name) for place, name in enumerate(names))
    return {f"{name}-{number}" if number else name for name, number in zip(names, above, strict=True)}


def test_an_anchor_is_what_github_calls_a_heading(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# In time: `--budget`\n## 限定时间：`--budget`\n## Twice\n```\n# no heading\n```\n## Twice\n", "utf-8"
    )
    assert anchors(str(page)) == {"in-time---budget", "限定时间--budget", "twice", "twice-1"}
    assert leads_somewhere("page.md#twice-1", str(page)) and leads_somewhere("#twice", str(page))
    assert not leads_somewhere("page.md#thrice", str(page)) and not leads_somewhere("other.md#twice", str(page))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_and_option_exists(document: str) -> None:
    inline = [code.split()[1:] for code in inline_code(document) if code.startswith("weft ")]
    for words in [*commands(document), *inline]:
        command, rest = command_of(words)
        if command is COMMANDS:  # as in `weft --debug train`
            command, rest = command_of(rest[1:])
            assert words[0] in options_of(COMMANDS), words
        given = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert given <= options_of(command), words


def test_the_pages_hold_commands_recipes_and_names_of_tests() -> None:
    assert sum(1 for document in DOCUMENTS for _ in commands(document)) > 200
    assert sum(kind == "toml" for document in DOCUMENTS for kind, _ in blocks(document)) > 20
    named = r"`tests/[\w/]+\.py(?:::\w+)?`"
    assert sum(len(re.findall(named, text_of(document))) for document in DOCUMENTS) > 100


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_key_that_a_command_sets_or_explains_exists(document: str) -> None:
    for words in commands(document):
        named = [value.partition("=")[0] for option, value in pairwise(words) if option == "--set"]
        named += words[2:] if words[:2] == ["config", "explain"] else []
        assert [key for key in named if key not in KEYS] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_piece_of_a_recipe_can_be_read(document: str) -> None:
    least = {"source": "zh", "target": "en", "train": ["train.tsv"], "valid": ["valid.tsv"]}
    for language, block in blocks(document):
        if language == "toml":
            resolve({"data": least, **read_toml(block)}, TranslationRecipe, document)


@pytest.mark.parametrize("document", [twin for twin in DOCUMENTS if twin.endswith("recipes.md")])
def test_the_page_about_recipes_lists_every_key_and_no_other_with_its_default(document: str) -> None:
    required, left_out = ("必填", "不写") if "/zh/" in document else ("required", "not set")
    in_tables = {key for key, field in KEYS.items() if "." in key or not tables_in(field.annotation)}
    documented = documented_keys(document)
    assert documented.keys() == in_tables
    for key, said in documented.items():
        field = KEYS[key]
        default = None if field.is_required() else field.get_default(call_default_factory=True, validated_data={})
        expected = required if field.is_required() else left_out if default is None else f"`{write_value(default)}`"
        assert said == expected, key


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_test_that_is_named_exists(document: str) -> None:
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text_of(document)):
        assert (ROOT / path).is_file(), path
        assert not name or f"def {name}(" in text_of(path), f"{path}::{name}"


@pytest.mark.parametrize(("document", "heading"), [("README.md", "Set up"), ("README.zh.md", "安装")])
def test_setting_up_takes_exactly_two_commands(document: str, heading: str) -> None:
    section = text_of(document).split(f"\n## {heading}\n")[1].split("\n## ")[0]
    said = [line.strip() for _, block in blocks(document) if block in section for line in without_comments(block)]
    assert said == ["make demo", "make test"]
