"""Writes models for other engines. What it writes, weft.engines runs."""
