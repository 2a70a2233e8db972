"""Explaining more rows than one process can: on Ray, on Spark, or on any engine that hands over tables.

`Explain` is a function of batches for Ray Data, `explain_in_pandas` one of Spark's, `explain_frame` takes any frame. Each process
loads the explainer and the model once. Nothing of Ray, Spark or pandas is imported before it is needed.
"""

from aimwise.scale.explain import SCHEMA as SCHEMA
from aimwise.scale.explain import Explain as Explain
from aimwise.scale.explain import explain_frame as explain_frame
from aimwise.scale.explain import explain_in_pandas as explain_in_pandas
from aimwise.scale.explain import schema as schema
from aimwise.scale.pool import Pool as Pool
