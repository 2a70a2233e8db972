"""Methods scored side by side: the same inputs, the same black box, the same questions."""

from aimwise.scores.compare import Comparison as Comparison
from aimwise.scores.compare import compare as compare
from aimwise.scores.evaluate import evaluate as evaluate
from aimwise.scores.table import Scores as Scores
