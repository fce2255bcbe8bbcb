"""How many requests a client may send in a minute, in bounded memory."""

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable

WINDOW = 60.0
"""Seconds over which requests are counted."""
MAX_CLIENTS = 16_384
"""Clients that are remembered; beyond it the one that was allowed longest ago is forgotten."""


class RateLimiter:
    """Remembers when each client was allowed during the last minute."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Allow each client `most` requests a minute."""
        self.most, self.clock = most, clock
        self.allowed: OrderedDict[str, deque[float]] = OrderedDict()
        """The client that was allowed last is at the end."""

    def allow(self, client: str) -> bool:
        """Whether the client may send another request, which is counted if so."""
        now = self.clock()
        while self.allowed and next(iter(self.allowed.values()))[-1] <= now - WINDOW:
            self.allowed.popitem(last=False)
        times = self.allowed.get(client) or deque()
        while times and times[0] <= now - WINDOW:
            times.popleft()
        if len(times) >= self.most:
            return False
        times.append(now)
        self.allowed[client] = times
        self.allowed.move_to_end(client)
        if len(self.allowed) > MAX_CLIENTS:
            self.allowed.popitem(last=False)
        return True


def network_of(address: str) -> str:
    """The first 64 bits of an IPv6 address, since its owner has the whole network; any other address as it is."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:  # a Unix socket, or what a proxy says
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(found) >> 64 << 64)}/64"
