"""aimwise explains any black-box model: train a small explainer once, then one pass weighs every feature for every class."""

from aimwise.blackbox import BlackBox as BlackBox
from aimwise.blackbox import FunctionBox as FunctionBox
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
