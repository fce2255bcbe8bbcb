"""How often a client may ask, and that no number of clients makes the server remember more."""

import pytest

from weft.serving import rates
from weft.serving.rates import RateLimiter, network_of


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_request_counts_for_a_minute_and_one_that_was_refused_does_not() -> None:
    clock = Clock()
    rate = RateLimiter(2, clock)
    found = []
    for clock.now in (0.0, 30.0, 59.0, 60.0, 61.0, 89.0, 90.0):
        found.append(rate.allow("a"))
    assert found == [True, True, False, True, False, False, True]


def test_clients_are_forgotten_after_a_minute_and_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MAX_CLIENTS", 3)
    clock = Clock()
    rate = RateLimiter(1, clock)
    for clock.now, client in enumerate("abcd"):
        assert rate.allow(client)
    assert list(rate.allowed) == ["b", "c", "d"]
    clock.now = 62.0
    assert rate.allow("e")
    assert list(rate.allowed) == ["d", "e"]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("", ""),
        ("unix socket", "unix socket"),
    ],
)
def test_a_client_with_ipv6_is_its_network(address: str, network: str) -> None:
    assert network_of(address) == network
