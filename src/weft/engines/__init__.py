"""Runs models that were exported (weft.export) for other engines. Knows ids; text is the business of tasks."""
