"""The version of weft, which any module can import without importing the package; the build reads it too."""

__version__ = "0.1.0"
