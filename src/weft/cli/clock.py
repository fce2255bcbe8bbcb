"""Time as verbs tell it while they work."""

PLAIN_EVERY = 10.0
"""Seconds between two lines about the same work, where stderr is no terminal."""


def clock(seconds: float) -> str:
    """3725 -> 1:02:05, 65 -> 1:05."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
