"""Leaving another house: models that other systems have trained become weft's."""
