"""`python -m weft` is the `weft` command."""

from weft.cli.start import start

start()
