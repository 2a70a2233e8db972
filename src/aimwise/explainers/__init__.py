"""The methods, all behind `fit` and `explain`."""

from __future__ import annotations

from aimwise.explainers.aim import AIM as AIM
from aimwise.explainers.base import Explainer as Explainer
from aimwise.explainers.fastshap import FastSHAP as FastSHAP
from aimwise.explainers.fi import FunctionalInformation as FunctionalInformation
from aimwise.explainers.gradients import GradientXInput as GradientXInput
from aimwise.explainers.gradients import SmoothGrad as SmoothGrad
from aimwise.explainers.ig import IntegratedGradients as IntegratedGradients
from aimwise.explainers.invase import INVASE as INVASE
from aimwise.explainers.inverse import Inverse as Inverse
from aimwise.explainers.kernel_shap import KernelSHAP as KernelSHAP
from aimwise.explainers.l2x import L2X as L2X
from aimwise.explainers.lexicon import Lexicon as Lexicon
from aimwise.explainers.lime import Lime as Lime
from aimwise.explainers.maple import MAPLE as MAPLE
from aimwise.explainers.occlusion import Occlusion as Occlusion
from aimwise.explainers.random import Random as Random
from aimwise.explainers.realx import REALX as REALX
from aimwise.explainers.vibi import VIBI as VIBI

METHODS: dict[str, type[Explainer]] = {
    "aim": AIM,
    "inverse": Inverse,
    "kernel_shap": KernelSHAP,
    "lexicon": Lexicon,
    "lime": Lime,
    "maple": MAPLE,
    "occlusion": Occlusion,
    "random": Random,
    "l2x": L2X,
    "vibi": VIBI,
    "invase": INVASE,
    "fastshap": FastSHAP,
    "realx": REALX,
    "ig": IntegratedGradients,
    "gradient_x_input": GradientXInput,
    "smoothgrad": SmoothGrad,
    "fi": FunctionalInformation,
}
