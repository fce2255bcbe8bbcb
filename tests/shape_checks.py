"""jaxtyping's checks, made once for each combination of types and shapes that a function is called with.

Whether annotations hold depends on the types, dtypes and shapes of arguments and result, and on short strings, which
may be those of a Literal. What has passed once passes again: to check it took two fifths of a short training run.
"""

import functools
import inspect
import threading
from collections.abc import Callable, Hashable
from dataclasses import is_dataclass
from types import FunctionType
from typing import Any

import jaxtyping
import numpy as np
import torch

LONGEST = 32
"""Items of a collection that are told apart; calls with longer ones are checked each time."""
LONGEST_LITERAL = 64  # characters
ALIKE: set[type] = {bool, int, float, type(None)}
"""Types whose values are all one to a check; others are found on the way."""
ARRAYS = (torch.Tensor, np.ndarray)

check_every_call = jaxtyping.jaxtyped


class TooLong(Exception):
    pass


def check_new_calls(function: Any = None, *, typechecker: Any) -> Any:
    """Does what `jaxtyping.jaxtyped` does, but for calls whose signature has passed before.

    Raises:
        jaxtyping.TypeCheckError: by the function, as jaxtyping's own.
    """
    if function is None:
        return functools.partial(check_new_calls, typechecker=typechecker)
    if is_dataclass(function):
        function.__init__ = check_new_calls(function.__init__, typechecker=typechecker)
        return function
    if not inspect.isfunction(function):
        return check_every_call(function, typechecker=typechecker)
    return remembering(function, typechecker)


def remembering(function: Callable[..., Any], typechecker: Any) -> Callable[..., Any]:
    given: set[Hashable] = set()  # signatures of arguments that have passed
    passed: set[Hashable] = set()  # those with the signature of what was returned
    returned = threading.local()  # .result, where the function has been called already

    def result_of(*args: Any, **kwargs: Any) -> Any:
        return returned.__dict__.pop("result") if returned.__dict__ else function(*args, **kwargs)

    # Annotations that are strings are looked up in the globals of the function that is checked.
    like = FunctionType(result_of.__code__, function.__globals__, closure=result_of.__closure__)
    checked = check_every_call(functools.wraps(function)(like), typechecker=typechecker)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            arguments = signature(args), signature(kwargs) if kwargs else None
            known = arguments in given
        except (TooLong, TypeError):  # TypeError: a symbolic shape has no hash
            return checked(*args, **kwargs)
        result = function(*args, **kwargs) if known else checked(*args, **kwargs)
        try:
            whole = arguments, signature(result)
            is_new = whole not in passed
        except (TooLong, TypeError):
            whole, is_new = None, True
        if is_new and known:
            returned.result = result
            checked(*args, **kwargs)
        given.add(arguments)
        if whole is not None:
            passed.add(whole)
        return result

    return call


def signature(value: Any) -> Hashable:
    """All that a check of `value` against an annotation looks at.

    Raises:
        TooLong: for a collection of more than LONGEST items.
    """
    kind = type(value)
    if kind in ALIKE:
        return kind
    if issubclass(kind, ARRAYS):
        return kind, value.dtype, value.shape
    if isinstance(value, tuple | list | dict | set | frozenset):
        if len(value) > LONGEST:
            raise TooLong
        return kind, *map(signature, value.items() if isinstance(value, dict) else value)
    if isinstance(value, str) and len(value) <= LONGEST_LITERAL:
        return kind, value
    if isinstance(value, type):
        return value
    if not isinstance(value, str):
        ALIKE.add(kind)
    return kind
