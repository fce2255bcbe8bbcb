"""The tests of the server that are run by hand: what they compare by, and how they are told."""

import io
import math
from unittest.mock import Mock

import pytest
from bench.serving.__main__ import SUITE
from bench.serving.place import Served, percentile, whole_reply
from bench.serving.v6_keys import mann_whitney


def test_samples_that_are_apart_differ_and_samples_that_interleave_do_not() -> None:
    assert mann_whitney([1.0, 4.0, 5.0, 8.0], [2.0, 3.0, 6.0, 7.0]) == 1.0
    # U = 0 of n = m = 3: mean 4.5, variance 3 * 3 * 7 / 12 = 5.25
    z = 4.5 / math.sqrt(5.25)
    assert mann_whitney([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]) == pytest.approx(math.erfc(z / math.sqrt(2)))


def test_a_percentile_is_one_of_the_values_in_milliseconds() -> None:
    assert percentile([n / 1000 for n in range(1, 101)], 0.99) == 100.0
    assert percentile([n / 1000 for n in range(1, 101)], 0.5) == 51.0


@pytest.mark.parametrize(
    "body", [b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"]
)
def test_an_answer_is_read_whole_however_it_is_sent(body: bytes) -> None:
    received = b"HTTP/1.1 503 Service Unavailable\r\n" + body
    assert [whole_reply(received[:length]) for length in range(len(received))] == [None] * len(received)
    status, headers, found = whole_reply(received) or (0, {}, b"")
    assert (status, found, len(headers)) == (503, b"hello", 1)


def test_a_metric_may_be_that_of_one_label(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b'weft_reloads_total{outcome="done"} 2.0\nweft_reloads_total{outcome="refused"} 3.0\nweft_reloads 1.0\n'
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: io.BytesIO(lines))
    served = Served(Mock(), "localhost", 5000, "zh", "en")
    assert [served.metric("weft_reloads_total", label) for label in ("", 'outcome="done"')] == [5.0, 2.0]


def test_every_test_is_told_in_both_languages_and_has_a_quick_form() -> None:
    assert set(SUITE.quick) == set(SUITE.module_names())
    for name, module in zip(SUITE.module_names(), SUITE.modules(), strict=True):
        assert module.NAME.lower() == name.partition("_")[0]
        assert module.DOES.keys() == module.FOUND.keys() == {"en", "zh"}
