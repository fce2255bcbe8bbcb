"""How often a client may ask in a minute, and what is remembered of it."""

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable

WINDOW = 60.0
"""Seconds in which requests are counted."""
MOST_CLIENTS = 16_384
"""That are remembered at once; of more the one that was let in longest ago is forgotten."""


class Rates:
    """When each client was let in during the last minute."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`most` requests of one client in a minute."""
        self.most, self.clock = most, clock
        self.let_in: OrderedDict[str, deque[float]] = OrderedDict()
        """The client that was let in last at the end."""

    def admit(self, client: str) -> bool:
        """Whether the client may ask once more; it is counted where it may."""
        now = self.clock()
        while self.let_in and next(iter(self.let_in.values()))[-1] <= now - WINDOW:
            self.let_in.popitem(last=False)
        times = self.let_in.get(client) or deque()
        while times and times[0] <= now - WINDOW:
            times.popleft()
        if len(times) >= self.most:
            return False
        times.append(now)
        self.let_in[client] = times
        self.let_in.move_to_end(client)
        if len(self.let_in) > MOST_CLIENTS:
            self.let_in.popitem(last=False)
        return True


def network_of(address: str) -> str:
    """Of IPv6 the first 64 bits, since whoever has one address there has all of its network; else the address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:  # a socket that is no network's, or what a proxy says
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(found) >> 64 << 64)}/64"
