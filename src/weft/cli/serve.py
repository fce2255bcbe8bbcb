"""`weft serve`: translation over HTTP: a web page, and the APIs of LibreTranslate and OpenAI."""

import ipaddress
import os
import re
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from typer import BadParameter, Context, Option, echo

from weft.cli.loading import require_task, without_collections
from weft.cli.options import A_MODEL, Engine, GlossaryFile, KeyOverrides, MemoryFile, Threads, finite
from weft.cli.rules import Rule, check_options
from weft.errors import MissingExtraError, UsageError
from weft.serving.limits import LEAST_SECONDS, Limits

LIMITS = Limits()

LIBRARIES = {
    "fastapi": "FastAPI",
    "h11": "h11",
    "lxml": "lxml",
    "markdown_it": "markdown-it-py",
    "mdit_py_plugins": "mdit-py-plugins",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic-core",
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
    """A callback for names to compare with a Host header, which has no scheme, and here no port."""
    for name in names or ():
        if re.fullmatch(HOST, name.lower()) is None:
            raise BadParameter(f"{name!r} is not just the name of a host, such as translate.example.org or [::1]")
    return names


def origins(names: list[str] | None) -> list[str] | None:
    """A callback for values to compare with an Origin header, as browsers write it."""
    for name in names or ():
        if re.fullmatch(ORIGIN, name) is None or re.fullmatch(DEFAULT_PORT, name):
            raise BadParameter(
                f"{name!r} is not an origin as browsers write it, such as https://example.org or "
                "http://localhost:3000: in lower case, without a path and without the scheme's default port"
            )
    return names


def addresses(proxies: list[str] | None) -> list[str] | None:
    """A callback for addresses and networks, or a single * for all."""
    for proxy in proxies or ():
        try:
            if proxies != ["*"]:
                ipaddress.ip_network(proxy)
        except ValueError as error:
            raise BadParameter(f"{error}; give an address such as 127.0.0.1 or a network such as 10.0.0.0/8") from None
    return proxies


ServedModels = Annotated[list[str] | None, Option("--model", help=f"{A_MODEL} Repeat the option for several models.")]
Host = Annotated[str, Option("--host", help="The address to listen on.")]
Port = Annotated[int, Option("--port", min=0, max=65535, help="The port to listen on; 0 takes a free one.")]
ApiKeys = Annotated[Path | None, Option("--api-keys", help="A file with the SHA-256 of each accepted key.")]
NewKey = Annotated[
    str | None,
    Option("--make-key", metavar="NAME", help="Print a new key, add its SHA-256 to --api-keys, and exit."),
]
Insecure = Annotated[bool, Option("--insecure", help="Serve without keys on an address that others can reach.")]
AllowHost = Annotated[
    list[str] | None,
    Option("--allow-host", metavar="NAME", callback=host_names, help="Accept this name in Host headers; repeatable."),
]
AllowOrigin = Annotated[
    list[str] | None,
    Option(
        "--allow-origin", metavar="ORIGIN", callback=origins, help="Let pages of this site send requests; repeatable."
    ),
]
TrustProxy = Annotated[
    list[str] | None,
    Option(
        "--trust-proxy", metavar="ADDRESS", callback=addresses, help="Trust this proxy's X-Forwarded-For; repeatable."
    ),
]
MaxBytes = Annotated[int, Option("--max-bytes", min=1, help="Most bytes of a request's body.")]
MaxCharacters = Annotated[int, Option("--max-characters", min=1, help="Most characters of a text.")]
MaxTexts = Annotated[int, Option("--max-texts", min=1, help="Most texts of a request.")]
MaxAlternatives = Annotated[int, Option("--max-alternatives", min=0, help="Most alternatives for a text.")]
MaxBeam = Annotated[int, Option("--max-beam", min=1, help="Largest beam that a request may ask for.")]
MaxQueue = Annotated[int, Option("--max-queue", min=1, help="Most requests waiting or being answered; more get a 503.")]
MaxSeconds = Annotated[
    float, Option("--max-seconds", min=LEAST_SECONDS, callback=finite, help="Longest time for an answer.")
]
MaxDocumentSeconds = Annotated[
    float,
    Option(
        "--max-document-seconds",
        min=LEAST_SECONDS,
        callback=finite,
        help="Longest time for the answer to a file or a stream.",
    ),
]
MaxRequests = Annotated[
    int | None,
    Option(
        "--max-requests",
        min=0,
        help="Most requests of a client per minute; 0 for no limit.",
        show_default="60, on a loopback address 0",
    ),
]
Grace = Annotated[
    float,
    Option("--grace", min=0, callback=finite, help="Seconds between the 503 of /ready and the closing of the socket."),
]
LogTexts = Annotated[bool, Option("--log-texts", help="Write the translated texts into the log.")]

RULES = [Rule(("--make-key",), only_with=("--api-keys", "--host", "--port"), why="it makes a key and exits")]


def serve(
    context: Context,
    models: ServedModels = None,
    host: Host = "127.0.0.1",
    port: Port = 5000,
    api_keys: ApiKeys = None,
    make_key: NewKey = None,
    insecure: Insecure = False,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    trust_proxy: TrustProxy = None,
    engine: Engine = None,
    overrides: KeyOverrides = None,
    glossary: GlossaryFile = None,
    memory: MemoryFile = None,
    threads: Threads = None,
    max_bytes: MaxBytes = LIMITS.body_bytes,
    max_characters: MaxCharacters = LIMITS.characters,
    max_texts: MaxTexts = LIMITS.texts,
    max_alternatives: MaxAlternatives = LIMITS.alternatives,
    max_beam: MaxBeam = LIMITS.beam_size,
    max_queue: MaxQueue = LIMITS.queue,
    max_seconds: MaxSeconds = LIMITS.seconds,
    max_document_seconds: MaxDocumentSeconds = LIMITS.document_seconds,
    max_requests: MaxRequests = None,
    grace: Grace = 1.0,
    log_texts: LogTexts = False,
) -> None:
    """Serve models over HTTP: a web page, LibreTranslate's and OpenAI's APIs, streams, files, metrics."""
    if hasattr(signal, "SIGHUP"):  # it would end a process that does not handle it yet (server.py)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    require_libraries()
    check_options(context, RULES)
    if make_key is not None:
        print_new_key(make_key, api_keys)
        return
    is_public = host not in LOOPBACK
    if is_public and api_keys is None and not insecure:
        raise UsageError(
            f"--host {host} is open to everyone who can reach it; give --api-keys FILE (weft serve --make-key NAME "
            "makes a key), or --insecure"
        )
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
    from weft.serving.keys import Keys, read_keys

    # oneDNN would cache what it compiles for a thousand shapes, a gigabyte; few of them come again
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    keys = Keys() if api_keys is None else read_keys(api_keys)
    if not models:
        raise UsageError("--model is missing: a model or run folder, or a model that comes with weft, such as zh-en")
    with without_collections():
        require_task(models, "serve", "translation", "language-model")
        from weft.serving import server
        from weft.serving.admission import LOOPBACK_NAMES, ServerState
        from weft.serving.app import make_app
        from weft.serving.detection import Detector
        from weft.serving.metrics import Metrics
        from weft.serving.models import Models, Source
        from weft.serving.service import Service

    names = frozenset(name.lower() for name in allow_host or ())
    hosts = (names | LOOPBACK_NAMES) if names or not is_public else None
    state = ServerState(limits, Metrics(), keys, hosts)
    sources = [Source(folder, engine, tuple(overrides or ()), glossary, memory) for folder in models]
    served = Models(sources, state.metrics.observe_batch)
    service = Service(served, state, Detector(served.languages), log_texts)
    server.log_to_stderr()
    address = server.Address(host, port, tuple(trust_proxy or ()), grace)
    server.run(make_app(service, allow_origin or ()), service, address)


def require_libraries() -> None:
    """Raise MissingExtraError for the first library of the extra [serve] that is not installed."""
    for module, name in LIBRARIES.items():
        if find_spec(module) is None:
            raise MissingExtraError(name, "serve")


def print_new_key(name: str, path: Path | None) -> None:
    """Print a new key to stdout, and then add its SHA-256 to the file; without a file print that to stderr."""
    if sys.stdout is None:  # closed by the parent process
        raise UsageError("there is no standard output to print the new key to")
    from weft.serving.keys import add_key, check_key_file, line_for
    from weft.serving.keys import make_key as new_key

    key = new_key()
    if path is None:
        echo(f"add this line to a file and serve with --api-keys FILE:\n{line_for(key, name)}", err=True)
        echo(key)
        return
    check_key_file(path)
    echo(key)
    sys.stdout.flush()
    add_key(path, key, name)
    echo(f"{path} holds the SHA-256 of this key; the key itself is not stored", err=True)
