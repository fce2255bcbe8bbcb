"""Distribute preparation over the machines of a Ray cluster: an `Each` (see workers.py) on top of Ray Data's map.

This process reads the files and writes the results. The other machines need the same version of weft, and none of the
files.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from weft.data.workers import ITEMS_AHEAD, Answer, Each, Item
from weft.errors import WeftError, needing
from weft.runtime import usable_cores


@contextmanager
def cluster_workers() -> Iterator[Each]:
    """Yield a `map` over all cores of a Ray cluster, which holds only a few items per core at a time.

    Uses the cluster at RAY_ADDRESS (`auto`: the one running on this machine), or starts one with the cores of this
    machine for the duration of the block. Raises MissingExtraError if Ray Data is not installed, WeftError if the
    cluster cannot be reached or fails.
    """
    with needing("Ray Data, which spreads the work over a cluster,", "cluster"):
        import ray.data  # pyright: ignore[reportMissingImports]
    was_connected = ray.is_initialized()
    with errors_only("ray", "ray.data"):
        if not was_connected:
            connect()
        settings = ray.data.DataContext.get_current().copy()
        settings.enable_progress_bars = False
        settings.execution_options.preserve_order = True
        try:
            with ray.data.DataContext.current(settings):
                yield each
        finally:
            if not was_connected:
                ray.shutdown()


def connect() -> None:
    """Connect to the cluster at RAY_ADDRESS, or start one on this machine."""
    import ray  # pyright: ignore[reportMissingImports]
    from ray.exceptions import RayError  # pyright: ignore[reportMissingImports]

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report its start to its makers
    quiet = partial(ray.init, logging_level=logging.ERROR, log_to_driver=False)
    given = os.environ.get("RAY_ADDRESS")
    try:
        if given:
            check_reachable(given)
            quiet()
        else:
            quiet(address="local", num_cpus=usable_cores(), include_dashboard=False)
    except (RayError, OSError, RuntimeError, ValueError) as error:
        place = f"at RAY_ADDRESS = {given}" if given else "on this machine"
        raise WeftError(f"cannot use a Ray cluster {place}: {first_line(error)}") from error


def check_reachable(address: str) -> None:
    """Raise OSError if nothing listens at the address; Ray itself would retry for minutes and log each attempt."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():  # otherwise a keyword of Ray, such as auto
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def each(function: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
    """Yield the answers in the order of the items, which are sent in groups to bound the memory."""
    import ray.data  # pyright: ignore[reportMissingImports]
    from ray.exceptions import RayError, UserCodeException  # pyright: ignore[reportMissingImports]

    rest = iter(items)
    while group := list(islice(rest, ITEMS_AHEAD * max(1, int(ray.cluster_resources().get("CPU", 0))))):
        rows = ray.data.from_items([{"item": Parcel(item)} for item in group], override_num_blocks=len(group))
        try:
            for row in rows.map(partial(answer_row, function)).iter_rows():
                answer = row["answer"].content
                if isinstance(answer, WeftError):
                    raise answer
                yield answer
        except UserCodeException:
            raise
        except RayError as error:
            raise WeftError(f"the Ray cluster failed: {first_line(error)}") from error


@dataclass(frozen=True)
class Parcel:
    """A wrapper that Ray Data passes on unchanged; it would convert lists and arrays to columns of its own types."""

    content: Any


def answer_row(function: Callable[[Any], Any], row: dict[str, Parcel]) -> dict[str, Parcel]:
    """Run on a machine of the cluster: return the function's answer, or the WeftError that it raised."""
    try:
        answer = function(row["item"].content)
    except WeftError as error:
        answer = WeftError(str(error))  # not every subclass can be pickled
    return {"answer": Parcel(answer)}


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


@contextmanager
def errors_only(*loggers: str) -> Iterator[None]:
    """Inside the block these loggers log only errors."""
    levels = {name: logging.getLogger(name).level for name in loggers}
    for name in loggers:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
