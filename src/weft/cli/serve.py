"""`weft serve`: translation over HTTP, with a page, for LibreTranslate's and OpenAI's clients and for people."""

import ipaddress
import os
import re
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from weft.cli.options import finite, refuse_beside
from weft.cli.start import without_collections
from weft.errors import MissingExtraError, UsageError
from weft.serving.limits import LEAST_SECONDS, Limits

LIMITS = Limits()

LIBRARIES = {
    "fastapi": "FastAPI",
    "h11": "h11",
    "lxml": "lxml",
    "prometheus_client": "prometheus-client",
    "py3langid": "py3langid",
    "python_multipart": "python-multipart",
    "starlette": "Starlette",
    "uvicorn": "uvicorn",
}
LOOPBACK = ("localhost", "127.0.0.1", "::1")

HOST = r"([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])"
ORIGIN = rf"\*|null|[a-z][a-z0-9+.-]*://{HOST}(:\d+)?"
DEFAULT_PORT = r"http://.*:80|https://.*:443"


def host_names(names: list[str] | None) -> list[str] | None:
    """A callback for names that are compared with that of a Host header, which has no scheme, and here no port."""
    for name in names or ():
        if re.fullmatch(HOST, name.lower()) is None:
            raise typer.BadParameter(f"{name!r} is no name of a host alone, such as translate.example.org or [::1]")
    return names


def origins(names: list[str] | None) -> list[str] | None:
    """A callback for what is compared with an Origin header, as browsers write it."""
    for name in names or ():
        if re.fullmatch(ORIGIN, name) is None or re.fullmatch(DEFAULT_PORT, name):
            raise typer.BadParameter(
                f"{name!r} is no origin as browsers write it, such as https://example.org or http://localhost:3000: in "
                "small letters, without a path and without the port that the scheme has anyway"
            )
    return names


def addresses(proxies: list[str] | None) -> list[str] | None:
    """A callback for addresses and networks, or * for all, which uvicorn knows when it is alone."""
    for proxy in proxies or ():
        try:
            if proxies != ["*"]:
                ipaddress.ip_network(proxy)
        except ValueError as error:
            raise typer.BadParameter(
                f"{error}; give an address such as 127.0.0.1 or a network such as 10.0.0.0/8"
            ) from None
    return proxies


def serve(
    context: typer.Context,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            help="A model folder, a run folder, or the name of a model that comes with weft; may be repeated.",
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes one that is free.")] = 5000,
    api_keys: Annotated[
        Path | None,
        typer.Option("--api-keys", help="A file with the SHA-256 of each key that is let in.", show_default=False),
    ] = None,
    make_key: Annotated[
        str | None,
        typer.Option(
            "--make-key",
            metavar="NAME",
            help="Print a new key, add its SHA-256 to --api-keys, and end.",
            show_default=False,
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let everyone in who can reach an address that is not loopback.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            callback=host_names,
            help="A name by which this server may be asked for; repeatable.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="ORIGIN",
            callback=origins,
            help="A site whose pages may ask this server; repeatable.",
        ),
    ] = None,
    trust_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trust-proxy",
            metavar="ADDRESS",
            callback=addresses,
            help="A proxy whose X-Forwarded-For is believed; repeatable.",
        ),
    ] = None,
    engine: Annotated[
        Literal["native", "ctranslate2", "onnx"] | None,
        typer.Option("--engine", help="What computes; left out: what the folder was made for.", show_default=False),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a decoding key, such as decoding.beam_size=5."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="For the products of matrices.", show_default=False)
    ] = None,
    max_bytes: Annotated[int, typer.Option("--max-bytes", min=1, help="Of a request's body.")] = LIMITS.body_bytes,
    max_characters: Annotated[int, typer.Option("--max-characters", min=1, help="Of one text.")] = LIMITS.characters,
    max_texts: Annotated[int, typer.Option("--max-texts", min=1, help="Of one request.")] = LIMITS.texts,
    max_alternatives: Annotated[
        int, typer.Option("--max-alternatives", min=0, help="Of one text.")
    ] = LIMITS.alternatives,
    max_beam: Annotated[
        int, typer.Option("--max-beam", min=1, help="Hypotheses that a request may ask for.")
    ] = LIMITS.beam_size,
    max_queue: Annotated[
        int, typer.Option("--max-queue", min=1, help="Requests for a model that are in the house.")
    ] = LIMITS.queue,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", min=LEAST_SECONDS, callback=finite, help="For an answer.")
    ] = LIMITS.seconds,
    max_document_seconds: Annotated[
        float,
        typer.Option(
            "--max-document-seconds", min=LEAST_SECONDS, callback=finite, help="For the answer to a file or a stream."
        ),
    ] = LIMITS.document_seconds,
    max_requests: Annotated[
        int | None,
        typer.Option(
            "--max-requests",
            min=0,
            help="Of one client in a minute; 0 sets no such limit.",
            show_default="60, on a loopback address 0",
        ),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            "--grace", min=0, callback=finite, help="Seconds that /ready says 503 before the socket is closed."
        ),
    ] = 1.0,
    log_texts: Annotated[
        bool, typer.Option("--log-texts", help="Write what is translated into the log; without it no text is.")
    ] = False,
) -> None:
    """Serve models over HTTP: a page for people, LibreTranslate's and OpenAI's APIs, streams, files, metrics."""
    if hasattr(signal, "SIGHUP"):  # it would end a process that does not handle it yet (server.py)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    require_libraries()
    if make_key is not None:
        others = {str(parameter.name) for parameter in context.command.params} - {"make_key", "api_keys"}
        refuse_beside(context, "--make-key", others)
        print_new_key(make_key, api_keys)
        return
    is_public = host not in LOOPBACK
    if is_public and api_keys is None and not insecure:
        raise UsageError(
            f"--host {host} lets everyone in who can reach it; give --api-keys FILE (weft serve --make-key NAME makes "
            "a key), or say --insecure"
        )
    if threads is not None:  # read when torch is imported, which is below
        os.environ["OMP_NUM_THREADS"] = str(threads)
    # oneDNN would keep what it compiled for a thousand shapes of batches, a gigabyte; hardly one comes again
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    with without_collections():
        from weft.serving import server
        from weft.serving.admission import LOOPBACK_NAMES, House
        from weft.serving.app import make_app
        from weft.serving.detection import Detector
        from weft.serving.keys import Keys, read_keys
        from weft.serving.metrics import Metrics
        from weft.serving.models import Models, Source
        from weft.serving.service import Service

    limits = Limits(
        body_bytes=max_bytes,
        characters=max_characters,
        texts=max_texts,
        alternatives=max_alternatives,
        beam_size=max_beam,
        queue=max_queue,
        seconds=max_seconds,
        document_seconds=max_document_seconds,
        requests_per_minute=max_requests if max_requests is not None else 60 if is_public else 0,
    )
    names = frozenset(name.lower() for name in allow_host or ())
    hosts = (names | LOOPBACK_NAMES) if names or not is_public else None
    keys = Keys() if api_keys is None else read_keys(api_keys)
    house = House(limits, Metrics(), keys, hosts)
    sources = [Source(folder, engine, tuple(overrides or ())) for folder in model or ()]
    models = Models(sources, house.metrics.observe_batch)
    service = Service(models, house, Detector(models.languages), log_texts)
    server.log_to_stderr()
    address = server.Address(host, port, tuple(trust_proxy or ()), grace)
    server.run(make_app(service, allow_origin or ()), service, address)


def require_libraries() -> None:
    """Raise MissingExtraError for the first library of the extra that is not there."""
    from importlib.util import find_spec

    for module, name in LIBRARIES.items():
        if find_spec(module) is None:
            raise MissingExtraError(name, "serve")


def print_new_key(name: str, path: Path | None) -> None:
    """The key goes to stdout, once, and what is kept of it to the file, or to stderr; nothing is of one that nobody
    sees."""
    if sys.stdout is None:  # closed by whoever started this
        raise UsageError("there is no standard output, to which the new key goes")
    from weft.serving.keys import add_key, line_for, refuse_to_spoil
    from weft.serving.keys import make_key as new_key

    key = new_key()
    if path is None:
        typer.echo(f"add this line to a file and start with --api-keys FILE:\n{line_for(key, name)}", err=True)
        typer.echo(key)
        return
    refuse_to_spoil(path)
    typer.echo(key)
    sys.stdout.flush()
    add_key(path, key, name)
    typer.echo(f"{path} has the SHA-256 of this key; the key itself is kept nowhere", err=True)
