"""LibreTranslate's documented requests, answered in its shapes."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.serving.conftest import MakeService, ask, echo_of

from weft.serving.app import make_app
from weft.serving.documents import read_document
from weft.serving.refusals import Refused
from weft.serving.translating import TranslationOptions
from weft.translating.translation import Translation

HELLO = {"q": "你好!", "source": "zh", "target": "en"}


@pytest.fixture
def app(make_service: MakeService) -> Any:
    return make_app(make_service(characters=100, texts=4, alternatives=3))


def translate(app: Any, **fields: Any) -> Any:
    answer = ask(app, "POST", "/translate", json={**HELLO, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_text_is_answered_by_a_text(app: Any) -> None:
    assert translate(app, q="hello!") == {"translatedText": "HELLO!"}


def test_a_list_is_answered_by_a_list_in_its_order(app: Any) -> None:
    assert translate(app, q=["one", "it", "", "one"]) == {"translatedText": ["ONE", "IT", "", "ONE"]}


def test_auto_says_which_language_it_found(app: Any) -> None:
    found = translate(app, q="你好，朋友", source="auto")
    assert found["detectedLanguage"]["language"] == "zh"
    assert found["detectedLanguage"]["confidence"] > 90
    page = '<p class="first line"><a href="https://example.com/page">点击</a></p>'
    found = translate(app, q=page, source="auto", format="html")
    assert found["detectedLanguage"] == {"confidence": 100.0, "language": "zh"}
    several = translate(app, q=["你好a", "Hello, friend"], source="auto")
    assert [one["language"] for one in several["detectedLanguage"]] == ["zh", "en"]
    assert several["translatedText"] == ["你好A", "Hello, friend"]  # what is English already is not translated


def test_alternatives_are_as_many_as_asked_for_and_different(app: Any) -> None:
    assert translate(app, q="hi", alternatives=2) == {"translatedText": "HI", "alternatives": ["HI'", "HI''"]}
    several = translate(app, q=["a", "b"], alternatives=1)
    assert several == {"translatedText": ["A", "B"], "alternatives": [["A'"], ["B'"]]}


def test_html_keeps_its_tags(app: Any) -> None:
    page = '<p class="green">hello <b>you</b> &amp; me</p><script>if (a<b) run()</script>'
    found = translate(app, q=page, format="html", alternatives=1)
    assert found["translatedText"] == page.replace("hello", "HELLO").replace("you", "YOU").replace(" me", " ME")
    assert found["alternatives"][0].startswith('<p class="green">')


def test_forms_are_read_as_json_is(app: Any) -> None:
    form = {"q": "hello&=+", "source": "zh-CN", "target": "en", "alternatives": "1"}
    encoded = ask(app, "POST", "/translate", data=form)
    parted = ask(app, "POST", "/translate", files={name: (None, value) for name, value in form.items()})
    assert encoded.json() == parted.json() == {"translatedText": "HELLO&=+", "alternatives": ["HELLO&=+'"]}
    several = ask(app, "POST", "/translate", data={**form, "q": ["a", "b"], "glossary": '{"a": "x"}'})
    assert several.json()["translatedText"] == ["A", "B"]


def test_a_field_that_a_form_leaves_empty_is_left_out_unless_it_is_a_text(app: Any) -> None:
    form = {"q": "", "source": "zh", "target": "en", "api_key": "", "beam_size": "", "alternatives": "", "glossary": ""}
    assert ask(app, "POST", "/translate", data=form).json() == {"translatedText": ""}
    refused = ask(app, "POST", "/translate", data={**form, "source": ""})
    assert refused.status_code == 400 and "source" in refused.json()["error"]


def test_a_form_as_curl_sends_it_is_read_though_nothing_in_it_is_escaped(app: Any) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = ask(app, "POST", "/translate", content="q=我有 a&source=auto&target=en".encode(), headers=kind)
    assert answer.json()["translatedText"] == "我有 A"


@pytest.mark.parametrize(
    "fields",
    [
        {"format": None},
        {"format": ""},
        {"api_key": None},
        {"alternatives": None},
        {"alternatives": "0"},
        {"beam_size": "2"},
        {"source": "ZH", "target": "EN"},
        {"source": "zt"},
        {"source": "zh-Hant-TW", "target": "en_US"},
        {"source": "AUTO"},
    ],
)
def test_what_libretranslate_accepts_is_accepted(app: Any, fields: dict[str, Any]) -> None:
    assert translate(app, q="你好a", **fields)["translatedText"] == "你好A"


@pytest.mark.parametrize("text", [" hello", "hello\n", "\n\n  hello\t\r\n", "\u3000hello\u3000", " ", "\n"])
def test_white_space_around_a_text_stays(app: Any, text: str) -> None:
    found = translate(app, q=[text], alternatives=1)
    assert found["translatedText"] == [text.upper()]
    assert not text.strip() or found["alternatives"] == [[text.upper().replace("HELLO", "HELLO'")]]


def test_parameters_in_the_address_are_read(app: Any) -> None:
    """As deep-translator's client sends them."""
    fields = {"q": "hello&=+", "source": "zh", "target": "en", "format": "text"}
    assert ask(app, "POST", "/translate", params=fields).json() == {"translatedText": "HELLO&=+"}
    del fields["q"]
    for sent in ({"data": {"q": "hi"}}, {"files": {"q": (None, "hi")}}):
        assert ask(app, "POST", "/translate", params=fields, **sent).json() == {"translatedText": "HI"}
    assert ask(app, "POST", "/detect", params={"q": "你好"}).json() == [{"confidence": 100.0, "language": "zh"}]
    assert ask(app, "POST", "/translate", params=fields, json=HELLO).status_code == 200  # a JSON body has them all


@pytest.mark.parametrize("sent", [{}, {"json": {}}, {"data": {"x": ""}}, {"params": {"api_key": ""}}])
def test_what_is_missing_is_told_as_libretranslate_tells_it(app: Any, sent: dict[str, Any]) -> None:
    answer = ask(app, "POST", "/detect", **sent)
    assert (answer.status_code, answer.json()) == (400, {"error": "Invalid request: missing q parameter"})


def test_what_is_in_no_language_of_the_server_is_not_translated_silently(app: Any) -> None:
    french = "Bonjour, comment allez-vous ?"
    (found,) = ask(app, "POST", "/detect", json={"q": french}).json()
    assert found["language"] == "fr" and found["confidence"] > 90
    refused = ask(app, "POST", "/translate", json={"q": french, "source": "auto", "target": "en"})
    assert (refused.status_code, refused.json()) == (400, {"error": "French is not translated to English here"})


def test_the_settings_of_a_request_reach_the_search(make_service: MakeService) -> None:
    service = make_service()
    app = make_app(service)
    translate(app, q="hi", beam_size=7, glossary={"hi": "hello", "a": "b"}, alternatives=8)
    translate(app, q="hi", beam_size=7.0, glossary={"hi": "hello", "a": "b"}, alternatives=8.0)
    settings, again = echo_of(service).settings
    assert settings["beam_size"] == again["beam_size"] == 9  # as many as translations
    assert settings["glossary"].terms["hi"].targets == ("hello",)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"q": None}, "q: "),
        ({"q": "x" * 101}, "at most 100 characters"),
        ({"q": ["x"] * 5}, "at most 4 items"),
        ({"q": 5}, "q"),
        ({"source": "de"}, "source: 'de' is not supported; choose from auto, en, zh"),
        ({"target": "zh"}, "target: 'zh' is not supported; choose from en"),
        ({"alternatives": 4}, "alternatives: should be at most 3"),
        ({"alternatives": "one"}, "alternatives: Input should be a valid integer"),
        ({"alternatives": "4"}, "alternatives: should be at most 3"),
        ({"alternatives": True}, "alternatives: Input should be a valid integer"),
        ({"beam_size": 11}, "beam_size"),
        ({"format": "pdf"}, "format"),
        ({"glossary": {"": "x"}}, "glossary"),
        ({"glossary": {str(number): "x" for number in range(201)}}, "glossary: should have at most 200 terms, has 201"),
        (
            {"glossary": {str(number): 5 for number in range(201)}},
            "request: glossary: should have at most 200 terms, has 201",
        ),
        ({"model": "other"}, "model: there is no model 'other'; there are run"),
    ],
)
def test_invalid_fields_are_reported_in_libretranslates_shape(app: Any, fields: dict[str, Any], message: str) -> None:
    answer = ask(app, "POST", "/translate", json={**HELLO, **fields})
    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("q", "message"),
    [
        ("x" * 101, "q: should have at most 100 characters, has 101"),
        (["x"] * 5, "q: should have at most 4 items, has 5"),
        (["x", 5], "q.1: Input should be a valid string"),
        ({}, "q: Input should be a valid string"),
    ],
)
def test_a_text_is_not_refused_for_not_being_a_list_and_the_other_way_round(app: Any, q: Any, message: str) -> None:
    answer = ask(app, "POST", "/translate", json={**HELLO, "q": q})
    assert answer.json() == {"error": f"Invalid request: {message}"}


def test_if_the_texts_of_one_language_are_refused_those_of_others_are_cancelled(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, was_left = make_service(), []

    async def translate(model: Any, texts: list[str], *arguments: Any, **settings: Any) -> Any:
        if texts != ["你好，朋友"]:
            raise Refused(503, "no room")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            was_left.append(texts)
            raise

    monkeypatch.setattr(service, "translate", translate)
    asked = {"q": ["你好，朋友", "Hello, friend"], "source": "auto", "target": "en"}
    answer = ask(make_app(service), "POST", "/translate", json=asked)
    assert (answer.status_code, was_left) == (503, [["你好，朋友"]])


def test_all_problems_are_reported_at_once(app: Any) -> None:
    error = ask(app, "POST", "/translate", json={"target": "de"}).json()["error"]
    assert "missing q parameter" in error and "missing source parameter" in error and "'de' is not supported" in error


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"q": "\xff"}', "cannot be read: 'utf-8' codec can't decode byte 0xff in position 7"),
        (b"[" * 100_000, "cannot be read: maximum recursion depth exceeded"),
        (b'{"q": NaN}', "q: Input should be a valid string"),
        (b'{"q": ' + b"9" * 10_000 + b"}", "cannot be read: Exceeds the limit"),
        (b"", "the body is not a JSON object"),
        (b"[1]", "the body is not a JSON object"),
        (b"{q: 1}", "the body is not JSON: Expecting property name"),
        (b'{"q": "\\ud800", "source": "zh", "target": "en"}', "q"),
    ],
)
def test_an_invalid_body_is_refused(app: Any, body: bytes, message: str) -> None:
    answer = ask(app, "POST", "/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_an_invalid_form_is_refused(app: Any) -> None:
    kinds = {
        "application/x-www-form-urlencoded": b"q=%ff&source=zh&target=en",
        "application/x-www-form-urlencoded; charset=utf-8": b"q=\xff&source=zh&target=en",
        "multipart/form-data": b"--x",
        "multipart/form-data; boundary=x": b"--x\r\nbroken",
    }
    for kind, body in kinds.items():
        assert ask(app, "POST", "/translate", content=body, headers={"Content-Type": kind}).status_code == 400, kind
    assert ask(app, "POST", "/translate", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert ask(app, "GET", "/translate").status_code == 405


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/translate", "multipart/form-data; boundary=x"),
        ("/translate_file", "multipart/form-data; boundary=x"),
        ("/translate", "application/x-www-form-urlencoded"),
    ],
)
def test_a_form_in_another_charset_than_utf_8_is_refused(app: Any, path: str, kind: str) -> None:
    fields = {"q": "hello", "source": "zh", "target": "en"}
    parts = "".join(f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{fields[key]}\r\n' for key in fields)
    body = f'{parts}--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhi\r\n--x--\r\n'
    content = body if "multipart" in kind else "q=hello&source=zh&target=en"

    def status(charset: str) -> int:
        headers = {"Content-Type": f"{kind}{charset}"}
        return ask(app, "POST", path, content=content.encode(), headers=headers).status_code

    assert {status(f"; charset={name}") for name in ("utf-8", "UTF-8", "utf8", "Utf_8", '"utf-8"')} == {200}
    others = ("punycode", "PUNYCODE", '"punycode"', "utf-7", "idna", "latin-1", "utf-8-sig", "", "utf-8; charset=idna")
    assert {status(f"; charset={name}") for name in others} == {415}
    assert status("; Charset=punycode") == status(";charset=punycode") == 415


def test_a_form_field_next_to_a_file_has_a_length_limit(app: Any) -> None:
    sent = {"file": ("notes.txt", b"one " * 10_000)}
    fields = {"source": "zh", "target": "en"}
    assert ask(app, "POST", "/translate_file", files=sent, data=fields).status_code == 200
    refused = ask(app, "POST", "/translate_file", files=sent, data={**fields, "x": "y" * 5_000})
    assert (refused.status_code, "maximum size" in refused.json()["error"]) == (400, True)


def test_detect_languages_and_settings_have_their_shapes(app: Any) -> None:
    detected = ask(app, "POST", "/detect", data={"q": "Hello, my friend."}).json()
    assert detected[0].keys() == {"confidence", "language"} and detected[0]["language"] == "en"
    assert ask(app, "GET", "/languages").json() == [
        {"code": "en", "name": "English", "targets": []},
        {"code": "zh", "name": "Chinese", "targets": ["en"]},
        {"code": "zh-Hant", "name": "Chinese (Traditional)", "targets": ["en"]},
    ]
    settings = ask(app, "GET", "/frontend/settings").json()
    assert settings["language"]["source"] == {"code": "zh", "name": "Chinese"}
    assert (settings["charLimit"], settings["keyRequired"], settings["filesTranslation"]) == (100, False, True)
    assert ".docx" in settings["supportedFilesFormat"]
    assert ask(app, "GET", "/health").json() == {"status": "ok"}


def test_to_the_other_chinese_script_the_words_of_files_and_pages_are_converted_and_nothing_else(
    make_service: MakeService,
) -> None:
    page = '<a href="/软件">软件</a><script>var 软件=1</script> <b>默认</b>'
    options, service = TranslationOptions(script="traditional"), make_service()

    async def convert() -> tuple[str, bytes]:
        (found,) = await service.translate(None, [page], options, form="html")
        file = read_document("notes.txt", "软件\n\n  默认\n".encode())
        return found.text, await service.translate_document(None, file, options)

    found, file = asyncio.run(convert())
    assert found == '<a href="/软件">軟體</a><script>var 软件=1</script> <b>預設</b>'
    assert file.decode() == "軟體\n\n  預設\n"


@pytest.mark.parametrize(("name", "encoding"), [("a.html", "utf-8"), ("a.md", "utf-8"), ("a.txt", "gb18030")])
def test_what_is_in_the_target_language_comes_back_as_it_is(app: Any, name: str, encoding: str) -> None:
    page = "<p>A &amp; B &nbsp; are\nhere</p>\n\n你好，我的朋友。\n再见"  # which would be written in another way
    sent, fields = {"file": (name, page.encode(encoding))}, {"source": "en", "target": "en"}
    if name == "a.html":
        assert translate(app, q=page, format="html", **fields) == {"translatedText": page}
    answer = ask(app, "POST", "/translate_file", files=sent, data=fields)
    fetched = ask(app, "GET", answer.json()["translatedFileUrl"])
    assert fetched.content == page.encode(encoding)
    assert ("utf-8" in fetched.headers["content-type"]) == (encoding == "utf-8")


def test_a_file_is_answered_by_a_link_to_its_translation(app: Any) -> None:
    sent = {"file": ("notes.txt", b"one\n\n  two\n")}
    answer = ask(app, "POST", "/translate_file", files=sent, data={"source": "zh", "target": "en"})
    assert answer.status_code == 200, answer.text
    fetched = ask(app, "GET", answer.json()["translatedFileUrl"])
    assert fetched.text == "ONE\n\n  TWO\n"
    assert fetched.headers["content-disposition"] == 'attachment; filename="translated.txt"'
    assert ask(app, "GET", "/download_file/..%2f..%2fetc%2fpasswd").status_code == 404


def test_the_answer_to_a_file_counts_what_was_and_was_not_translated(app: Any) -> None:
    subtitles = b"1\n00:00:01,000 --> 00:00:02,000\n- one\n- two\n\n2\n00:00:05,000 00:00:06\nthree\n"
    for name, data, target, counts in (
        ("a.srt", subtitles, "en", (3, 0, 1)),
        ("a.md", b"# one\n\n    code\n", "en", (1, 1, 0)),
    ):
        answer = ask(
            app, "POST", "/translate_file", files={"file": (name, data)}, data={"source": "zh", "target": target}
        )
        assert tuple(answer.json()["segments"].values()) == counts
    answer = ask(
        app, "POST", "/translate_file", files={"file": ("a.txt", b"one")}, data={"source": "en", "target": "en"}
    )
    assert tuple(answer.json()["segments"].values()) == (0, 1, 0)


def test_an_unsupported_or_missing_file_is_refused(app: Any) -> None:
    fields = {"source": "zh", "target": "en"}
    for name, data in (("x.pdf", b"%PDF"), ("../../x", b""), ("x.docx", b"PK"), ("x.txt", b"\xff"), ("x.srt", b"hi")):
        answer = ask(app, "POST", "/translate_file", files={"file": (name, data)}, data=fields)
        assert answer.status_code == 400 and answer.json().keys() == {"error"}, name
    assert ask(app, "POST", "/translate_file", data=fields, files={"x": b""}).status_code == 400


def test_a_translation_that_loops_is_searched_again_and_flagged(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service()
    echo = echo_of(service)
    asked: list[dict[str, Any]] = []

    def looping(texts: list[str], best: int, **settings: Any) -> list[list[Translation]]:
        asked.append(settings)
        text = "one" if settings["no_repeat_ngram"] else "the cat " * 20
        return [[Translation(source, text, 0.0, 0.0)] for source in texts]

    monkeypatch.setattr(echo, "translate_n_best", looping)
    found = translate(make_app(service), q="猫")
    assert found == {"translatedText": "one", "flags": ["repetition"]}
    assert [settings["no_repeat_ngram"] for settings in asked] == [0, 3]
    assert 'weft_flagged_total{flag="repetition",model="run"} 1.0' in service.state.metrics.export().decode()


def test_metrics_are_readable_by_prometheus(app: Any) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    translate(app, q=["one", "three"])
    written = ask(app, "GET", "/metrics").text
    samples = {
        (sample.name, sample.labels.get("route") or sample.labels.get("model")): sample.value
        for family in text_string_to_metric_families(written)
        for sample in family.samples
        if sample.labels.get("status", "200") == "200"
    }
    assert samples["weft_requests_total", "/translate"] == 1
    assert samples["weft_characters_total", "run"] == 8
    assert samples["weft_batch_sentences_sum", "run"] == 2
    assert samples["weft_sentences_waiting", "run"] == 0


def test_the_openapi_document_lists_every_path_with_its_limits_and_refusals(app: Any, tmp_path: Path) -> None:
    description = ask(app, "GET", "/openapi.json").json()
    assert ask(app, "GET", "/spec").json() == description
    assert json.dumps(description)  # no NaN, nothing but JSON
    assert {"/translate", "/detect", "/languages", "/v1/chat/completions", "/weft/stream"} <= description[
        "paths"
    ].keys()
    post = description["paths"]["/translate"]["post"]
    assert {"200", "400", "401", "403", "408", "413", "415", "421", "429", "503"} == post["responses"].keys()
    schemas = description["components"]["schemas"]
    schema = schemas["TranslateRequest"]["properties"]
    assert schema["q"]["oneOf"][0]["maxLength"] == 100 and schema["q"]["oneOf"][1]["maxItems"] == 4
    places = schemas["ChatRequest"]["properties"]["n"]["anyOf"][0]
    best = schemas["AlternativesRequest"]["properties"]["best"]
    bounds = [(each["minimum"], each["maximum"]) for each in (schema["alternatives"], places, best)]
    assert bounds == [(0, 3), (1, 4), (1, 10)]
    assert "422" not in json.dumps(description)
