"""The page of `weft serve` in a real browser, before a real server: what people see is what the server says."""

import hashlib
import json
import math
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opencc import OpenCC
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Route, expect, sync_playwright
from tests.serving.conftest import service_of, serving
from tests.watching import tiny_recipe

from weft.runs.train import train
from weft.serving.keys import Keys

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=f"no browser is on the path: {', '.join(BROWSERS)}")

SENTENCE = "我有三个苹果。"
TWO = f"{SENTENCE}你有两个梨。"
LONG = "我有三个苹果。你有两个梨。\n\n他有一个书包。"
KEY = "a key for the tests"
LIMIT = 300
REFUSAL = "Failed to load resource"
"""How a browser's console begins to speak of every refusal, wanted or not."""

Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def run(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the corpus of tiny_run, long enough for several words and for several answers to a text."""
    recipe = tiny_recipe(
        model={"model_dim": 32, "ff_dim": 32, "dropout": 0.0},
        training={
            **{"batch_sentences": 14, "epochs": 40, "learning_rate": 1e-2, "label_smoothing": 0.0},
            "validate_every": "40 epochs",
        },
        decoding={"beam_size": 4, "max_length_extra": 4},
    )
    return train(recipe, run=tmp_path_factory.mktemp("page") / "run", data=tiny_run)


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    """Where the page of this model is."""
    with serving(service_of(run, characters=LIMIT), grace=0.0) as (address, _):
        yield f"{address}/"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        expect.set_options(timeout=20_000)  # of a busy machine
        arguments = ["--no-sandbox", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def faults() -> list[str]:
    """What the browser's console complained of; a test that provokes it takes it out."""
    return []


@pytest.fixture(scope="module")
def contexts(browser: Browser) -> dict[tuple[Any, ...], BrowserContext]:
    """One for each kind of reader, so that the browser's cache is warm."""
    return {}


@pytest.fixture
def visit(
    browser: Browser, contexts: dict[tuple[Any, ...], BrowserContext], address: str, faults: list[str]
) -> Iterator[Visit]:
    """Opens the page; afterwards, no request has gone elsewhere and the console is empty."""
    pages: list[Page] = []
    requests: list[str] = []
    addresses: list[str] = []

    def visit(*, at: str = address, width: int = 1200, dark: bool = False, locale: str = "en-US") -> Page:
        kind = width, dark, locale
        if kind not in contexts:
            scheme = "dark" if dark else "light"
            contexts[kind] = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, locale=locale
            )
            contexts[kind].grant_permissions(["clipboard-read", "clipboard-write"])
        page = contexts[kind].new_page()
        pages.append(page)
        addresses.append(at)
        page.set_default_timeout(20_000)
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: note(message))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(at)
        expect(page.locator("#target option")).not_to_have_count(0)
        return page

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            faults.append(message.text)

    yield visit
    for page in pages:
        page.evaluate("localStorage.clear()")
        page.close()
    assert requests
    assert [url for url in requests if not url.startswith(tuple(addresses))] == []
    assert faults == []


def ask(address: str, path: str, **body: Any) -> Any:
    """What the server itself answers."""
    return httpx.post(address + path, json=body, timeout=30).json()


def explained(address: str, text: str = SENTENCE) -> dict[str, Any]:
    return ask(address, "weft/explain", q=text, source="zh", target="en")


def doubt_of(told: dict[str, Any]) -> int:
    """How strongly the first word of an explained translation is underlined."""
    word = told["target_words"][0]
    probability = math.exp(sum(told["log_probs"][word["first"] : word["last"] + 1]))
    return sum(probability < least for least in (0.8, 0.5, 0.2))


def translate(page: Page, text: str = SENTENCE) -> Locator:
    """Translates by the keyboard; the place of the answer."""
    page.locator("#text").fill(text)
    page.locator("#text").press("Control+Enter")
    expect(page.locator("#note")).to_contain_text(re.compile("Done|用时"))
    return page.locator("#answer")


def add_term(page: Page, term: str, translation: str) -> None:
    page.get_by_role("button", name="Add a term").click()
    page.keyboard.type(term)
    page.keyboard.press("Tab")
    page.keyboard.type(translation)


def shares(words: Locator) -> list[float]:
    read = "words => words.map(word => Number(getComputedStyle(word).getPropertyValue('--share')))"
    return words.evaluate_all(read)


def refuse(status: int, message: str, **headers: str) -> Callable[[Route], None]:
    return lambda route: route.fulfill(status=status, json={"error": message}, headers=headers)


def broken_off(source: str, text: str) -> Callable[[Route], None]:
    """A stream that ends after its first sentence."""
    lines = [{"index": 0, "source": source, "before": "", "text": text}, {"error": "the model is gone"}]
    body = "".join(json.dumps(line) + "\n" for line in lines)
    return lambda route: route.fulfill(body=body, content_type="application/x-ndjson")


def take_refusals(faults: list[str], number: int) -> None:
    """The console says of every refused request that it was; these were wanted."""
    assert [fault[: len(REFUSAL)] for fault in faults] == [REFUSAL] * number
    faults.clear()


# ---- translating --------------------------------------------------------------------------------------------------


def test_a_text_is_translated_as_the_server_translates_it(visit: Visit, address: str) -> None:
    page = visit()
    expect(translate(page)).to_have_text(
        ask(address, "translate", q=SENTENCE, source="zh", target="en")["translatedText"]
    )
    expect(page.locator("#spoken")).to_contain_text(page.locator("#answer").inner_text())


def test_the_language_is_detected_as_one_writes(visit: Visit) -> None:
    page = visit()
    page.locator("#text").fill(SENTENCE)
    expect(page.locator("#source option:checked")).to_have_text("Chinese (detected)")
    page.locator("#text").fill("I have three apples.")
    expect(page.locator("#source option:checked")).to_have_text("English (detected)")
    page.locator("#go").click()
    expect(page.locator("#error")).to_contain_text("This looks like English")


def test_traditional_chinese_is_a_target_of_its_own(visit: Visit) -> None:
    with serving(service_of(Path("en-zh")), grace=0.0) as (address, _):
        page = visit(at=f"{address}/")
        answers = []
        for target in ("zh", "zh-Hant"):
            page.locator("#target").select_option(target)
            answers.append(translate(page, "I saw her open the door.").inner_text())
    assert OpenCC("s2twp").convert(answers[0]) == answers[1] != answers[0]


def test_another_language_is_named_and_not_translated(visit: Visit) -> None:
    page = visit()
    for text, language in (("Договор будет подписан сегодня.", "Russian"), ("Bonjour, comment allez-vous ?", "French")):
        page.locator("#text").fill(text)
        expect(page.locator("#source option:checked")).to_have_text(f"{language} (detected)")
        expect(page.locator("#note")).to_contain_text(f"This looks like {language}")
        expect(page.locator("#answer .word")).to_have_count(0)
        page.locator("#go").click()
        expect(page.locator("#error")).to_contain_text(f"This looks like {language}, which this server does not")
    page.locator("#text").fill("Hello")
    expect(page.locator("#source option:checked")).to_have_text("English? (not sure)")


def test_a_text_is_translated_when_no_key_has_come_for_a_while(visit: Visit) -> None:
    page = visit()
    page.locator("#text").press_sequentially(SENTENCE, delay=20)
    expect(page.locator("#answer .word").first).to_be_visible()
    page.locator("#history summary").click()  # the text is left, and what became of it kept
    expect(page.locator("#history li button")).to_have_count(1)


def test_the_boxes_have_a_largest_height_and_scroll(visit: Visit) -> None:
    page = visit()
    page.locator("#source").select_option("zh")
    page.locator("#text").fill("\n".join(["我有三个苹果。"] * 35))
    expect(page.locator("#answer .sentence").nth(30)).to_be_attached(timeout=30_000)
    for box in (".writing", "#answer"):
        height, inner = page.locator(box).evaluate("box => [box.clientHeight, box.scrollHeight]")
        assert height < 600 < inner
    assert page.locator("#go").evaluate("button => button.getBoundingClientRect().bottom < innerHeight")


SUBTITLES = f"1\\n00:00:01,000 --> 00:00:02,000\\n{SENTENCE}\\n\\n2\\n00:00:05,000\\n"
DROP = f"""boxes => {{
    const files = new DataTransfer();
    files.items.add(new File(["{SUBTITLES}"], "a.srt"));
    boxes.dispatchEvent(new DragEvent("drop", {{ dataTransfer: files, bubbles: true, cancelable: true }}));
}}"""


def test_typing_does_not_stop_a_file_and_is_translated_after_it(visit: Visit) -> None:
    page, held = visit(), list[Route]()
    page.route("**/translate_file", lambda route: held.append(route), times=1)
    page.locator(".boxes").evaluate(DROP)
    expect(page.locator("#note")).to_contain_text("a.srt")
    page.locator("#text").fill(SENTENCE)
    page.wait_for_timeout(1500)  # three times the pause after which what is typed is translated
    expect(page.locator("#stop")).to_be_visible()
    held[0].continue_()
    expect(page.get_by_role("link", name="Download a.srt")).to_be_visible()
    expect(page.locator("#answer")).not_to_be_empty()


def test_a_file_that_is_dropped_is_translated_and_what_was_not_is_counted(visit: Visit) -> None:
    page = visit()
    page.locator(".boxes").evaluate(DROP)
    expect(page.locator("#file")).to_contain_text("Translated parts: 1; kept as they are: 0; not understood: 1.")
    page.locator("#text").fill("12345")  # whoever goes on typing keeps the file
    with page.expect_download() as download:
        page.get_by_role("link", name="Download a.srt").click()
    content = download.value.path().read_text(encoding="utf-8")
    assert content.startswith("1\n00:00:01,000 --> 00:00:02,000\n") and SENTENCE not in content


def test_a_file_can_be_chosen_by_a_button(visit: Visit) -> None:
    page = visit()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Translate a file").press("Enter")
    content = SUBTITLES.encode().decode("unicode_escape").encode("latin-1")
    chooser.value.set_files({"name": "a.srt", "mimeType": "text/plain", "buffer": content})
    expect(page.get_by_role("link", name="Download a.srt")).to_be_visible()


def test_icons_and_the_names_of_models_need_no_request_of_their_own(visit: Visit, address: str) -> None:
    page = visit()
    expect(page.locator("#models")).to_contain_text("run")
    assert page.get_by_role("link", name="run").get_attribute("href") == "weft/card/run"
    page.route("**/frontend/settings", lambda route: route.fulfill(json={"models": [{"id": "50%?"}]}))
    page.reload()
    assert page.get_by_role("link", name="50%?").get_attribute("href") == "weft/card/50%25%3F"
    for use in page.locator("svg.icon use").all():
        href = use.get_attribute("href") or ""
        assert page.locator(href).count() == 1, href


@pytest.mark.parametrize("text", ["12345"])
def test_a_language_that_is_not_recognized_changes_nothing(visit: Visit, text: str) -> None:
    page = visit()
    page.locator("#text").fill(text)
    expect(page.locator("#source option:checked")).to_have_text("Language not recognized")
    expect(page.locator("#target")).to_have_value("en")
    translate(page, text)
    page.locator("#text").fill(SENTENCE)
    expect(page.locator("#source option:checked")).to_have_text("Chinese (detected)")


def test_what_an_input_method_composes_is_no_text_yet(visit: Visit) -> None:
    page = visit()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.post_data or ""))
    page.clock.install()
    page.reload()  # a timer of the page that began before the clock was installed would run by the real one
    expect(page.locator("#target option")).not_to_have_count(0)
    keys = page.context.new_cdp_session(page)
    page.locator("#text").focus()
    keys.send("Input.imeSetComposition", {"text": "wo you", "selectionStart": 6, "selectionEnd": 6})
    page.locator("#target").dispatch_event("change")  # which has the text translated, too
    page.clock.run_for(1000)
    keys.send("Input.insertText", {"text": SENTENCE})
    page.clock.run_for(1000)
    expect(page.locator("#source option:checked")).to_have_text("Chinese (detected)")
    assert {json.loads(body)["q"] for body in asked if body} == {SENTENCE}
    page.route("**/translate", lambda route: None)
    page.locator("#go").click()
    escape = "key => key.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', isComposing: true, bubbles: true}))"
    page.locator("#text").evaluate(escape)
    expect(page.locator("#stop")).to_be_visible()


def test_a_text_that_was_cleared_comes_back_and_outlives_a_reload(visit: Visit) -> None:
    page = visit()
    text = page.locator("#text")
    page.keyboard.type("three apples")
    page.locator("#clear").click()
    expect(text).to_have_value("")
    page.keyboard.press("Control+z")
    expect(text).to_have_value("three apples")
    page.reload()
    expect(text).to_have_value("three apples")
    expect(page.locator("#counter")).to_have_text(f"12 / {LIMIT}")


def test_other_translations_stand_below_and_change_places_with_the_one_above(visit: Visit, address: str) -> None:
    page = visit()
    answer = translate(page)
    said = ask(address, "translate", q=SENTENCE, source="zh", target="en", alternatives=3)
    others = page.locator("#others li")
    expect(others).to_have_text(said["alternatives"])
    others.first.get_by_role("button").click()
    expect(answer).to_have_text(said["alternatives"][0])
    expect(others).to_have_text([said["translatedText"], *said["alternatives"][1:]])
    answer.locator(".word").first.hover()
    expect(page.locator("#readout")).to_contain_text("sure")
    page.locator("#beam summary").click()
    expect(page.locator("#beam")).to_contain_text("The plain search did not find this translation")


def test_a_long_text_comes_sentence_by_sentence_and_keeps_its_lines(visit: Visit, address: str) -> None:
    page = visit()
    answer = translate(page, LONG)
    asked = {"q": LONG, "source": "zh", "target": "en"}
    lines = httpx.post(f"{address}weft/stream", json=asked, timeout=30).text.splitlines()
    sentences = [json.loads(line) for line in lines]
    assert len(sentences) == 3
    expect(answer.locator(".sentence")).to_have_text([sentence["text"] for sentence in sentences])
    assert answer.evaluate("answer => answer.textContent") == "".join(one["before"] + one["text"] for one in sentences)


def test_sentences_of_a_short_text_are_chosen_and_looked_into_one_by_one(visit: Visit, address: str) -> None:
    page = visit()
    answer = translate(page, TWO)
    sentences = answer.locator(".sentence")
    expect(sentences).to_have_count(2)
    page.locator("#beam summary").click()
    expect(page.locator("#beam .node").first).to_be_visible()
    page.get_by_role("combobox", name="Sentence").select_option("1")
    expect(page.locator("#beam .node.best").nth(1)).to_be_visible()
    second = sentences.last.inner_text()
    answer.locator(".word").first.click()
    page.locator("#choices li button").last.click()
    expect(page.locator("#choices")).to_be_hidden()
    expect(sentences).to_have_count(2)
    expect(sentences.last).to_have_text(second)
    told = explained(address, TWO[len(SENTENCE) :])
    page.get_by_role("button", name="Confidence").click()
    expect(sentences.last.locator(".word").first).to_have_attribute("data-doubt", str(doubt_of(told)))


def test_a_short_text_that_is_one_sentence_after_all_has_other_translations_too(visit: Visit) -> None:
    page = visit()
    expect(translate(page, "“我有三个苹果！”他说。").locator(".sentence")).to_have_count(1)
    expect(page.locator("#others li").first).to_be_visible()


def test_what_a_text_typed_over_is_answered_with_is_no_answer_to_the_new_one(visit: Visit) -> None:
    page = visit()
    held: list[Route] = []
    page.route("**/translate", lambda route: held.append(route))
    page.locator("#text").fill(SENTENCE)
    with page.expect_request("**/translate"):
        page.locator("#go").click()
    page.route("**/detect", lambda route: None)  # what is typed from now on is not translated by itself
    page.locator("#text").fill("你有两个梨。")
    held[0].continue_()
    expect(page.locator("#answer .word").first).to_be_visible()
    expect(page.locator("#answer")).to_have_class("stale")
    expect(page.locator("#note")).to_contain_text("have changed since")
    page.locator("#text").fill(SENTENCE)
    expect(page.locator("#answer")).not_to_have_class("stale")


def test_swapping_turns_an_answer_around_and_back_but_no_half_one(visit: Visit) -> None:
    page = visit()
    both = [{"code": "zh", "name": "", "targets": ["en"]}, {"code": "en", "name": "", "targets": ["zh"]}]
    page.route("**/languages", lambda route: route.fulfill(json=both))
    page.reload()
    text, stale = page.locator("#text"), page.locator("#answer.stale")
    answer = translate(page).inner_text()
    page.locator("#swap").click()
    expect(text).to_have_value(answer)
    expect(page.locator("#answer")).to_have_text(SENTENCE)
    expect(stale).to_have_count(0)
    page.locator("#swap").click()
    expect(text).to_have_value(SENTENCE)
    expect(stale).to_have_count(0)
    page.locator("#swap").click()
    page.locator("#swap").click()
    page.route("**/weft/stream", broken_off(SENTENCE, "Three."))
    text.fill(LONG)
    page.locator("#go").click()
    expect(page.locator("#answer")).to_have_text("Three.")
    page.locator("#swap").click()
    expect(text).to_have_value(LONG)


# ---- looking inside -----------------------------------------------------------------------------------------------


def test_pointing_at_a_word_shades_what_it_looked_at_by_its_attention(visit: Visit, address: str) -> None:
    page = visit()
    answer, told = translate(page), explained(address)
    words = answer.locator(".word")
    number = next(i for i, word in enumerate(told["target_words"]) if word["text"] == words.nth(1).inner_text())
    words.nth(1).hover()
    word = told["target_words"][number]
    rows = told["attention"][word["first"] : word["last"] + 1]
    expected = [
        sum(sum(row[one["first"] : one["last"] + 1]) for row in rows) / len(rows) for one in told["source_words"]
    ]
    expect(page.locator("#readout")).to_contain_text(f"{word['text']}: ")
    assert shares(page.locator(".shade")) == pytest.approx(expected, abs=1e-4)
    page.locator("h1").hover()
    expect(page.locator("#readout")).to_have_text("")
    assert shares(page.locator(".shade")) == [0] * len(expected)


def test_pointing_at_a_word_of_the_source_shades_the_words_that_looked_at_it(visit: Visit, address: str) -> None:
    page = visit()
    answer, told = translate(page), explained(address)
    words = answer.locator(".word")
    words.first.hover()
    expect(page.locator("#readout")).to_contain_text("sure")
    page.locator(".shade").nth(1).hover(force=True)
    expect(page.locator("#readout")).to_contain_text(told["source_words"][1]["text"])
    source = told["source_words"][1]
    expected = {}
    for word in told["target_words"]:
        rows = told["attention"][word["first"] : word["last"] + 1]
        expected.setdefault(
            word["text"], sum(sum(row[source["first"] : source["last"] + 1]) for row in rows) / len(rows)
        )
    first = words.first.inner_text()
    assert shares(words)[0] == pytest.approx(expected[first], abs=1e-4)


def test_confidence_underlines_words_by_their_probability(visit: Visit, address: str) -> None:
    page = visit()
    answer, told = translate(page), explained(address)
    page.get_by_role("button", name="Confidence").click()
    expect(answer.locator(".word").first).to_have_attribute("data-doubt", str(doubt_of(told)))
    page.get_by_role("button", name="Confidence").click()
    expect(answer.locator(".word").first).to_have_attribute("data-doubt", "")


def test_confidence_goes_on_behind_a_sentence_that_has_none_and_after_a_wait(visit: Visit, faults: list[str]) -> None:
    page = visit()
    answer = translate(page, LONG)
    refusals = [refuse(429, "", **{"Retry-After": "0.01"}), refuse(400, "too long to explain")]
    page.route("**/weft/explain", lambda route: refusals.pop(0)(route) if refusals else route.fallback())
    page.get_by_role("button", name="Confidence").click()
    sentences = answer.locator(".sentence")
    for index in range(3):
        word = sentences.nth(index).locator(".word").first
        expect(word).to_have_attribute("data-doubt", re.compile("unknown" if index == 0 else "[0-3]"))
    expect(page.locator("#readout")).to_contain_text("Gray: not known. No explanation:")
    expect(page.locator("#readout")).to_contain_text("too long to explain")
    take_refusals(faults, 2)


def test_an_explanation_that_another_word_has_called_off_is_asked_for_again(visit: Visit) -> None:
    page = visit()
    answer = translate(page, LONG)
    page.route("**/weft/explain", lambda route: None, times=1)  # it never comes
    with page.expect_request("**/weft/explain"):
        page.locator("#beam summary").click()
    answer.locator(".word").last.click()
    page.locator("#choices li button").first.click()
    expect(page.locator("#beam .node").first).to_be_visible()


def test_the_tree_of_the_search_is_drawn_and_folds(visit: Visit, address: str) -> None:
    page = visit()
    translate(page)
    page.locator("#beam summary").click()
    told = explained(address)["beam"]["nodes"]
    nodes = page.locator("#beam .node")
    expect(nodes).to_have_count(sum(node["state"] != "dropped" for node in told))
    page.get_by_label("Show dropped branches").check()
    expect(nodes).to_have_count(len(told))
    best = sum(node["state"] == "best" for node in told)
    expect(page.locator("#beam .node.best")).to_have_count(best)
    nodes.first.focus()
    nodes.first.press("Enter")
    expect(nodes).to_have_count(1)
    expect(nodes.first).to_have_attribute("aria-expanded", "false")
    expect(nodes.first).to_contain_text(f"{len(told) - 1} more")


def test_a_word_is_replaced_by_another_and_the_translation_goes_on_from_it(visit: Visit, address: str) -> None:
    page = visit()
    answer = translate(page)
    before = answer.inner_text()
    word = answer.locator(".word").nth(1)
    prefix = before[: before.index(word.inner_text(), 1)].rstrip()
    word.click()
    said = ask(address, "weft/alternatives", q=SENTENCE, source="zh", target="en", prefix=prefix)["alternatives"]
    others = [choice for choice in said if choice["text"] != before]
    choices = page.locator("#choices li button")
    expect(choices).to_have_count(len(others))
    choices.last.click()
    expect(answer).to_have_text(others[-1]["text"])
    expect(page.locator("#choices")).to_be_hidden()


def test_a_word_of_ones_own_can_be_put_in(visit: Visit) -> None:
    page = visit()
    answer = translate(page)
    answer.locator(".word").first.click()
    page.get_by_role("textbox", name="Another word").fill("Six")
    page.keyboard.press("Enter")
    expect(answer).to_have_text(re.compile("^Six"))


def test_choices_that_come_leave_somebody_who_writes_a_word_alone(visit: Visit) -> None:
    page = visit()
    answer = translate(page)
    held: list[Route] = []
    page.route("**/weft/alternatives", lambda route: held.append(route))
    with page.expect_request("**/weft/alternatives"):
        answer.locator(".word").first.click()
    own = page.get_by_role("textbox", name="Another word")
    own.click()
    held[0].continue_()
    expect(page.locator("#choices li").first).to_be_visible()
    expect(own).to_be_focused()


# ---- what the browser keeps ---------------------------------------------------------------------------------------


def test_terms_of_the_glossary_are_held_and_kept(visit: Visit) -> None:
    page = visit()
    page.locator("#text").fill(SENTENCE)
    page.locator("#glossary summary").click()
    add_term(page, "苹果", "pear")
    expect(translate(page)).to_contain_text("pear")
    page.reload()
    expect(page.locator("#glossary .count")).to_have_text("1")
    page.locator("#glossary summary").click()
    expect(page.get_by_label("Its translation")).to_have_value("pear")
    page.get_by_role("button", name="Remove the term").click()
    expect(page.locator("#glossary table")).to_have_count(0)


def test_a_choice_that_drops_a_term_says_so(visit: Visit) -> None:
    page = visit()
    page.locator("#text").fill(SENTENCE)
    page.locator("#glossary summary").click()
    add_term(page, "苹果", "pear")
    answer = translate(page)
    expect(answer).to_contain_text("pear")
    said = {"alternatives": [{"word": "I", "text": text} for text in ("I have three.", "I have three Pears.")]}
    page.route("**/weft/alternatives", lambda route: route.fulfill(json=said))
    for warned in (True, False):
        answer.locator(".word").first.click()
        page.locator("#choices li button").first.click()
        expect(page.locator("#flags").get_by_text("contains these terms of the glossary: pear")).to_be_visible(
            visible=warned
        )


def test_a_row_of_the_glossary_is_named_by_its_term_and_marked_where_a_later_one_has_it_too(visit: Visit) -> None:
    page = visit()
    page.locator("#text").fill(SENTENCE)
    page.locator("#glossary summary").click()
    for translation in ("apple", "pear"):
        add_term(page, "苹果", translation)
    expect(page.get_by_role("button", name="Remove the term 苹果")).to_have_count(2)
    terms = page.get_by_label("Term", exact=True)
    expect(terms.first).to_have_attribute("aria-invalid", "true")
    expect(terms.last).to_have_attribute("aria-invalid", "false")
    expect(page.get_by_text("occurs more than once")).to_be_visible()
    terms.last.fill("梨")
    expect(terms.first).to_have_attribute("aria-invalid", "false")
    expect(page.get_by_text("occurs more than once")).to_be_hidden()


def test_two_tabs_keep_the_terms_and_the_history_of_both(visit: Visit) -> None:
    one, other = visit(), visit()
    for page, term in ((one, "苹果"), (other, "梨")):
        page.locator("#text").fill(SENTENCE)
        expect(page.locator("#glossary")).to_contain_text("From Chinese")
        page.locator("#glossary summary").click()
        add_term(page, term, "fruit")
    translate(one, SENTENCE)
    translate(other, "你有两个梨。")
    for page in (one, other):
        expect(page.locator("#glossary .count")).to_have_text("2")
        expect(page.locator("#history .count")).to_have_text("2")


def test_a_click_in_the_history_counts_though_it_ends_the_typing_of_a_text_that_is_kept_then(visit: Visit) -> None:
    page = visit()
    for text in (SENTENCE, "你有两个梨。"):
        translate(page, text)
    page.locator("#history summary").click()
    rows = page.locator("#history li button")
    page.locator("#text").fill("他有三本书。")
    expect(page.locator("#note")).to_contain_text("Done")
    rows.last.click()
    expect(page.locator("#text")).to_have_value(SENTENCE)
    expect(rows).to_have_count(3)


def test_the_history_is_restored_cleared_and_can_be_off(visit: Visit) -> None:
    page = visit()
    first = translate(page).inner_text()
    translate(page, "你有两个梨。")
    page.reload()
    page.locator("#history summary").click()
    rows = page.locator("#history li button")
    expect(rows).to_have_count(2)
    rows.last.click()
    expect(page.locator("#text")).to_have_value(SENTENCE)
    expect(page.locator("#answer")).to_have_text(first)
    page.get_by_role("button", name="Clear the history").click()
    expect(rows).to_have_count(0)
    page.get_by_label("Keep a history").uncheck()
    translate(page)
    expect(rows).to_have_count(0)
    assert "苹果" not in page.evaluate("JSON.stringify(localStorage)")


def test_what_looks_wrong_with_a_translation_is_said_of_it_in_the_history_too(visit: Visit) -> None:
    page = visit()
    wrong = {"translatedText": "I have I have I have", "alternatives": ["I have two."], "flags": ["repetition"]}
    page.route("**/translate", lambda route: route.fulfill(json=wrong), times=1)
    translate(page)
    flags = page.locator("#flags").get_by_text("The translation repeats itself")
    expect(flags).to_be_visible()
    for is_flagged in (False, True):  # another translation, and the flagged one again
        page.locator("#others button").click()
        expect(flags).to_be_visible(visible=is_flagged)
    translate(page, "你有两个梨。")
    expect(flags).to_be_hidden()
    page.locator("#history summary").click()
    page.locator("#history li button").last.click()
    expect(flags).to_be_visible()


def test_the_answer_is_copied_and_the_command_that_asks_for_it(visit: Visit) -> None:
    page = visit()
    text = "他说：'我有三个苹果。'"
    answer = translate(page, text).inner_text()
    page.locator("#copy").click()
    expect(page.locator("#note")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == answer
    page.locator("#curl").click()
    expect(page.locator("#note")).to_have_text("Copied.")
    words = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    assert words[:3] == ["curl", "-X", "POST"]
    assert words[4:6] == ["-H", "Content-Type: application/json"]
    assert ask(words[3], "", **json.loads(words[-1]))["translatedText"] == answer


def test_the_command_asks_for_the_text_that_was_only_just_written(visit: Visit) -> None:
    page = visit()
    page.locator("#text").fill("I have three apples.")
    expect(page.locator("#source option:checked")).to_have_text("English (detected)")
    page.locator("#text").fill(SENTENCE)
    page.locator("#curl").click()
    expect(page.locator("#note")).to_have_text("Copied.")
    body = json.loads(shlex.split(page.evaluate("navigator.clipboard.readText()"))[-1])
    assert body == {"q": SENTENCE, "source": "zh", "target": "en"}


# ---- errors -------------------------------------------------------------------------------------------------------


def test_a_text_over_the_limit_is_counted_and_never_sent(visit: Visit) -> None:
    page = visit()
    page.locator("#source").select_option("zh")
    expect(page.locator("#counter")).to_have_text(f"0 / {LIMIT}")
    page.locator("#text").fill("𠀀" * (LIMIT + 1))
    expect(page.locator("#counter")).to_have_text(f"{LIMIT + 1} / {LIMIT}")
    expect(page.locator("#text")).to_have_attribute("aria-invalid", "true")
    sent: list[str] = []
    page.route("**/translate", lambda route: sent.append(route.request.url))
    page.locator("#go").click()
    expect(page.get_by_role("alert")).to_contain_text(f"The text is 1 over the limit of {LIMIT} characters.")
    assert sent == []


def test_a_refusal_stands_in_place_and_what_was_there_stays(visit: Visit, faults: list[str]) -> None:
    page = visit()
    before = translate(page).inner_text()
    page.route("**/translate", refuse(503, "256 requests wait", **{"Retry-After": "7"}))
    page.locator("#go").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The server is busy. 256 requests wait Try again in 7 s.")
    expect(page.locator("#answer")).to_have_text(before)
    page.unroute("**/translate")
    alert.get_by_role("button", name="Try again").click()
    expect(alert).to_be_hidden()
    expect(page.locator("#note")).to_contain_text("Done")
    page.route("**/translate", lambda route: route.abort())
    page.locator("#go").click()
    expect(alert).to_contain_text("The server does not answer.")
    take_refusals(faults, 2)


def test_an_error_speaks_the_language_of_the_page_and_goes_with_its_cause(visit: Visit) -> None:
    page = visit()
    with page.expect_response("**/detect"):
        page.locator("#text").fill("我" * (LIMIT + 1))
    page.locator("#go").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("over the limit")
    page.get_by_role("button", name="中文").click()
    expect(alert).to_contain_text("超出")
    page.locator("#text").fill("我")
    expect(alert).to_be_hidden()


def test_what_is_tried_again_by_the_keyboard_keeps_the_focus(visit: Visit, faults: list[str]) -> None:
    page = visit()
    page.route("**/translate", refuse(503, "256 requests wait"), times=1)
    page.locator("#text").fill(SENTENCE)
    page.locator("#go").click()
    page.get_by_role("button", name="Try again").press("Enter")
    expect(page.locator("#note")).to_contain_text("Done")
    expect(page.locator("#go")).to_be_focused()
    take_refusals(faults, 1)


def test_a_page_that_could_not_ask_for_the_languages_asks_again_before_it_translates(
    visit: Visit, faults: list[str]
) -> None:
    page = visit()
    page.route("**/languages", lambda route: route.abort(), times=1)
    page.reload()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The server does not answer.")
    page.locator("#text").fill(SENTENCE)
    expect(alert).to_be_visible()
    translate(page)
    expect(alert).to_be_hidden()
    take_refusals(faults, 1)


def test_escape_stops_what_is_under_way(visit: Visit) -> None:
    page = visit()
    before = translate(page).inner_text()
    page.route("**/translate", lambda route: None)
    page.locator("#go").click()
    expect(page.locator("#note")).to_have_text("Translating …")
    page.keyboard.press("Escape")
    expect(page.locator("#note")).to_have_text("Stopped.")
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.locator("#answer")).to_have_text(before)


def test_a_stream_that_breaks_off_leaves_what_came(visit: Visit) -> None:
    page = visit()
    page.route("**/weft/stream", broken_off(SENTENCE, "Three."))
    page.locator("#text").fill(LONG)
    page.locator("#go").click()
    expect(page.get_by_role("alert")).to_contain_text("The answer was cut off")
    expect(page.get_by_role("alert")).to_contain_text("the model is gone")
    expect(page.locator("#answer")).to_have_text("Three.")


def test_text_of_the_server_is_never_markup(visit: Visit) -> None:
    page = visit()
    evil = "<img src=x onerror=alert(1)><b>bold</b>"
    page.route("**/translate", lambda route: route.fulfill(json={"translatedText": evil, "alternatives": [evil]}))
    expect(translate(page)).to_have_text(evil)
    expect(page.locator("#others li")).to_have_text(evil)
    expect(page.locator("main img, #answer b")).to_have_count(0)


def test_a_server_with_keys_has_a_field_for_one(visit: Visit, run: Path, faults: list[str]) -> None:
    keys = Keys((hashlib.sha256(KEY.encode()).digest(),))
    with serving(service_of(run, keys, characters=LIMIT), grace=0.0) as (address, _):
        page = visit(at=f"{address}/")
        page.locator("#source").select_option("zh")
        page.locator("#text").fill(SENTENCE)
        page.locator("#go").click()
        expect(page.get_by_role("alert")).to_contain_text("The server requires a valid API key.")
        take_refusals(faults, 1)
        page.get_by_label("API key").fill(KEY)
        answer = translate(page)
        answer.locator(".word").first.hover()
        expect(page.locator("#readout")).to_contain_text("sure")
        page.locator("#curl").click()
        expect(page.locator("#note")).to_contain_text("YOUR_KEY")
        assert KEY not in page.evaluate("navigator.clipboard.readText()")
        assert KEY not in page.evaluate("JSON.stringify(localStorage)")


# ---- for everyone -------------------------------------------------------------------------------------------------


def test_the_page_speaks_the_language_of_the_browser_and_switches(visit: Visit) -> None:
    page = visit(locale="zh-CN")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    expect(page.locator("#go")).to_contain_text("翻译")
    translate(page).locator(".word").first.hover()
    expect(page.locator("#readout")).to_contain_text("把握")
    page.get_by_role("button", name="English").click()
    expect(page.locator("#go")).to_contain_text("Translate")
    page.reload()
    expect(page.locator("#go")).to_contain_text("Translate")


def test_what_is_written_from_right_to_left_runs_so(visit: Visit) -> None:
    page = visit()
    arabic = "أنا أحب التفاح (2 كغ)."
    page.route("**/translate", lambda route: route.fulfill(json={"translatedText": arabic, "alternatives": [arabic]}))
    answer = translate(page)
    page.locator("#text").fill(arabic)
    page.locator("#history summary").click()
    direction = "element => getComputedStyle(element).direction"
    for place in ("#answer", "#text", "#shades", "#others button", "#history li span:last-child"):
        assert page.locator(place).evaluate(direction) == "rtl", place
    assert page.locator("#history li span").first.evaluate(direction) == "ltr"
    answer.locator(".word").first.press("ArrowLeft")
    expect(answer.locator(".word").nth(1)).to_be_focused()


def test_both_languages_of_the_page_say_the_same_things(visit: Visit) -> None:
    page = visit()
    texts = page.evaluate("import('/texts.js').then(texts => texts.TEXTS)")
    assert texts["en"].keys() == texts["zh"].keys()
    for key, english in texts["en"].items():
        assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", texts["zh"][key])), key
    folder = Path(__file__).parents[2] / "src/weft/serving/page"
    written = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.*") if path.name != "texts.js")
    made = ("state_", "flag_")  # these keys are put together
    assert [key for key in texts["en"] if f'"{key}"' not in written and not key.startswith(made)] == ["title"]


def test_the_ring_around_the_text_lies_inside_of_the_box_that_would_cut_it_off(visit: Visit) -> None:
    text = visit().locator("#text")
    expect(text).to_be_focused()
    found = (
        "one => { const s = getComputedStyle(one); return parseFloat(s.outlineOffset) + parseFloat(s.outlineWidth) }"
    )
    assert text.evaluate(found) <= 0


def test_everything_can_be_done_by_the_keyboard_alone(visit: Visit) -> None:
    page = visit()
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type(SENTENCE)
    page.keyboard.press("Control+Enter")
    words = page.locator("#answer .word")
    expect(words.first).to_be_visible()
    page.locator("#text").focus()
    page.keyboard.press("Tab")  # clear
    page.keyboard.press("Tab")
    expect(words.first).to_be_focused()
    expect(page.locator("#readout")).to_contain_text("sure")
    page.keyboard.press("ArrowRight")
    expect(words.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    choices = page.locator("#choices li button")
    expect(choices.first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#choices")).to_be_hidden()
    expect(words.nth(1)).to_be_focused()
    reached = set()
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.closest('[id]')?.id"))
    assert {"confidence", "copy", "curl", "go", "others", "beam", "glossary", "history", "interface", "dark"} <= reached
    assert {"source", "target", "text"} <= reached


def test_nothing_sticks_out_at_360_pixels(visit: Visit) -> None:
    page = visit(width=360)
    answer = translate(page)
    for name in ("beam", "glossary", "history"):
        page.locator(f"#{name} summary").click()
    page.get_by_role("button", name="Add a term").click()
    expect(page.locator("#beam .node").first).to_be_visible()
    answer.locator(".word").last.click()
    expect(page.locator("#choices li").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_dark_follows_the_system_and_the_switch(visit: Visit) -> None:
    page = visit(dark=True)
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Dark colors").click()
    light = page.evaluate(ground)
    assert brightness(dark) < 60 < 200 < brightness(light)
    page.reload()
    assert page.evaluate(ground) == light
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name="Dark colors").click()
    assert page.evaluate(ground) == dark


def brightness(color: str) -> float:
    red, green, blue = map(int, re.findall(r"\d+", color)[:3])
    return (red + green + blue) / 3


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_axe_finds_no_serious_fault(visit: Visit, dark: bool, locale: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = visit(dark=dark, locale=locale)
    answer = translate(page)
    page.locator("#confidence").click()
    for name in ("beam", "glossary", "history"):
        page.locator(f"#{name} summary").click()
    page.locator("#glossary .body > button").click()
    expect(page.locator("#beam .node").first).to_be_visible()
    for state in ("plain", "choosing"):
        if state == "choosing":
            answer.locator(".word").first.click()
            expect(page.locator("#choices li").first).to_be_visible()
        page.wait_for_timeout(150)  # colors that change
        found = Axe().run(page).response["violations"]
        grave = [fault for fault in found if fault["impact"] in ("serious", "critical")]
        assert [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in grave] == [], state
