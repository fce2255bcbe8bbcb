"""The work of preparation over the machines of a Ray cluster: an `Each` (workers.py) that is Ray Data's map.

This process reads the files and writes the results, and sends what lies between; the other machines need weft, in the
same version, and none of the files. Does not know what the work is.
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
from weft.errors import MissingExtraError, WeftError
from weft.runtime import usable_cores


@contextmanager
def cluster_workers() -> Iterator[Each]:
    """`map` over all cores of a Ray cluster, which holds only a few items for each of them at a time.

    The cluster is that of RAY_ADDRESS (`auto` is the one that runs on this machine), else one that is started here with
    the cores of this machine, and ends with the block. Raises MissingExtraError where Ray Data is not installed, and
    WeftError where the cluster cannot be reached or fails.
    """
    try:
        import ray.data  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtraError("Ray Data, which spreads the work over a cluster,", "cluster") from None
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
    """To a cluster that runs, or to one that is started here."""
    import ray  # pyright: ignore[reportMissingImports]
    from ray.exceptions import RayError  # pyright: ignore[reportMissingImports]

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers that it was started
    quiet = partial(ray.init, logging_level=logging.ERROR, log_to_driver=False)
    given = os.environ.get("RAY_ADDRESS")
    try:
        if given:
            knock(given)
            quiet()
        else:
            quiet(address="local", num_cpus=usable_cores(), include_dashboard=False)
    except (RayError, OSError, RuntimeError, ValueError) as error:
        place = f"at RAY_ADDRESS = {given}" if given else "on this machine"
        raise WeftError(f"no Ray cluster {place} can be used: {first_line(error)}") from error


def knock(address: str) -> None:
    """Raises OSError where nobody answers: Ray itself would try for minutes, and write of each time."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():  # else a word of Ray's, such as auto
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def each(function: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
    """The answers in the order of the items, which are sent in groups, so that what is under way stays small."""
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
    """What Ray Data carries as it is: of a list or an array it would make columns of its own types."""

    content: Any


def answer_row(function: Callable[[Any], Any], row: dict[str, Parcel]) -> dict[str, Parcel]:
    """On a machine of the cluster: the function's answer, or what a user is to be told instead."""
    try:
        answer = function(row["item"].content)
    except WeftError as error:
        answer = WeftError(str(error))  # its kind need not survive the way, and not every one would
    return {"answer": Parcel(answer)}


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


@contextmanager
def errors_only(*loggers: str) -> Iterator[None]:
    """Inside the block these say nothing that is not an error."""
    levels = {name: logging.getLogger(name).level for name in loggers}
    for name in loggers:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
