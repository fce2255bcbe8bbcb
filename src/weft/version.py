"""The version of weft, in a module of its own so that any room can import it; the build reads it from here."""

__version__ = "0.1.0"
