"""What a server counts, for Prometheus. Texts are counted in characters; no metric holds one."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120, 600)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """A registry of its own, so that several servers in one process do not share counts."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        ProcessCollector(registry=own)
        self.requests = Counter("weft_requests", "Answered requests.", ["route", "status"], registry=own)
        self.seconds = Histogram(
            "weft_request_seconds", "Time to the response.", ["route"], buckets=SECONDS, registry=own
        )
        self.refused = Counter("weft_refused", "Refused requests, by status.", ["why"], registry=own)
        self.cancelled = Counter("weft_cancelled", "Clients that left before the response.", registry=own)
        self.in_flight = Gauge("weft_requests_in_flight", "Requests in the queue.", registry=own)
        self.waiting = Gauge("weft_sentences_waiting", "Sentences that no batch has taken.", ["model"], registry=own)
        self.batches = Histogram(
            "weft_batch_sentences", "Sentences of a batch.", ["model"], buckets=SIZES, registry=own
        )
        self.characters = Counter("weft_characters", "Characters to translate.", ["model"], registry=own)
        self.flagged = Counter("weft_flagged", "Suspicious translations.", ["model", "flag"], registry=own)
        self.reloads = Counter("weft_reloads", "Reloads of the models.", ["outcome"], registry=own)

    def observe_batch(self, model: str, sentences: int) -> None:
        self.batches.labels(model).observe(sentences)

    def export(self) -> bytes:
        return generate_latest(self.registry)
