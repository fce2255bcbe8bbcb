"""A stand-in for torch, for verbs that read settings and compute nothing.

The settings of a model stand beside the network that they configure, whose module imports torch, which takes a second.
Where nothing is computed, classes may as well be made from empty stand-ins for nn.Module and the like.
"""

import sys
from abc import ABCMeta
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def stand_in_for_torch() -> None:
    """Let this process, which must compute nothing, import a stand-in; does nothing if torch is loaded already."""
    if "torch" not in sys.modules:
        sys.meta_path.insert(0, StandIns())


class Anything(ABCMeta):
    """A class with any attribute, that can be a base beside ABC too, a decorator, a type parameter or a constant."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})

    def __call__(cls, *arguments: Any, **settings: Any) -> Any:
        decorates = len(arguments) == 1 and callable(arguments[0]) and not settings
        return arguments[0] if decorates else Anything("Anything", (), {})

    def __or__(cls, other: Any) -> Any:  # type: ignore[override]
        return object

    __ror__ = __or__  # type: ignore[assignment]

    def __getitem__(cls, key: Any) -> Any:
        return cls


class StandIn(ModuleType):
    __path__ = []  # noqa: RUF012 (of a module)
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__.setdefault(name, Anything(name, (), {}))


class StandIns(MetaPathFinder, Loader):
    """Finds torch and its submodules before anything else does."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "torch" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...
