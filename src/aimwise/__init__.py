"""aimwise explains any black-box model: train a small explainer once, then one pass weighs every feature for every class.

A name is imported when it is first asked for, so that the command line answers before torch is there.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aimwise.blackbox import BlackBox as BlackBox
    from aimwise.blackbox import FunctionBox as FunctionBox
    from aimwise.blackbox import HttpBox as HttpBox
    from aimwise.blackbox import OnnxBox as OnnxBox
    from aimwise.blackbox import SklearnBox as SklearnBox
    from aimwise.blackbox import TextBox as TextBox
    from aimwise.blackbox import TorchBox as TorchBox
    from aimwise.explainers import AIM as AIM
    from aimwise.explainers import METHODS as METHODS
    from aimwise.explainers import Explainer as Explainer
    from aimwise.explainers import Random as Random
    from aimwise.explainers.saved import load as load
    from aimwise.explanation import Check as Check
    from aimwise.explanation import Explanation as Explanation
    from aimwise.features import Columns as Columns
    from aimwise.features import Features as Features
    from aimwise.features import Patches as Patches
    from aimwise.features import Pixels as Pixels
    from aimwise.features import Segments as Segments
    from aimwise.features import Tokens as Tokens
    from aimwise.features import Words as Words
    from aimwise.scores import Scores as Scores
    from aimwise.scores import compare as compare
    from aimwise.scores import evaluate as evaluate
else:
    HOMES = {
        "blackbox": "BlackBox FunctionBox HttpBox OnnxBox SklearnBox TextBox TorchBox",
        "explainers": "AIM METHODS Explainer Random",
        "explainers.saved": "load",
        "explanation": "Check Explanation",
        "features": "Columns Features Patches Pixels Segments Tokens Words",
        "scores": "Scores compare evaluate",
    }
    __all__ = sorted(name for names in HOMES.values() for name in names.split())

    def __getattr__(name):
        """A public name or a module of the package, imported now."""
        import importlib.util

        home = next((home for home, names in HOMES.items() if name in names.split()), None)
        if home is not None:
            globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            return globals()[name]
        if not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__} - {"HOMES", "TYPE_CHECKING"})
