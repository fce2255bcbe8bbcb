"""`weft prepare`: options that exclude each other."""

from collections.abc import Callable


def test_processes_of_this_machine_and_a_cluster_are_not_both(weft: Callable[..., tuple[int, str, str]]) -> None:
    code, out, error = weft("prepare", "none.toml", "--cluster", "--processes", "2")
    assert (code, out) == (2, "") and "give either --processes, for this machine, or --cluster" in error
