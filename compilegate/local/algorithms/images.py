"""Which image is a built-in algorithm, and what stands for it here. Reads no file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

_PROGRAMS = Path(__file__).with_name("programs")
_IMAGE = re.compile(r"(?:(?P<registry>[^/]+)/)?(?P<name>[a-z0-9\-]+)(?::(?P<tag>[^@/]+))?(?:@.*)?")
_ECR = re.compile(
    r"\d{12}\.(?:dkr\.ecr(?:-fips)?\.[a-z0-9\-]+\.(?:amazonaws\.com(?:\.cn)?|amazonaws\.eu|c2s\.ic\.gov"
    r"|sc2s\.sgov\.gov|csp\.hci\.ic\.gov|cloud\.adc-e\.uk)|dkr-ecr(?:-fips)?\.[a-z0-9\-]+\.on\.aws)"
)
"""The registries of all partitions, with their endpoints for FIPS and for IPv6."""

XGBOOST = "XGBoost"
LINEAR_LEARNER = "Linear Learner"
K_MEANS = "K-Means"


@dataclass(frozen=True)
class Algorithm:
    """A built-in algorithm at one version of its image."""

    name: str
    program: Path | None
    """What trains here; None where nothing does."""
    arguments: tuple[str, ...] = ()
    library: str | None = None
    """What the program needs of the image's environment."""
    package: str | None = None
    """What pip installs to have it."""
    beside: tuple[Path, ...] = ()
    """What the program finds in its folder."""

    @property
    def refusal(self) -> str:
        """Why it cannot train here, and what to do."""
        here = ", ".join(sorted({made.name for made in _KNOWN.values() if made.program}))
        return (
            f"the image is the built-in algorithm {self.name}, which is in AWS's images only (of "
            f"them {here} train here); let a command do the step (--command), "
            "or leave it out (--skip)"
        )


def _known(name: str) -> Algorithm:
    return Algorithm(name, None)


_XGBOOST = Algorithm(
    XGBOOST, _PROGRAMS / "xgboost_training.py", library="xgboost", package="xgboost-cpu"
)


def _by_numpy(name: str, program: str) -> Algorithm:
    return Algorithm(
        name,
        _PROGRAMS / program,
        library="numpy",
        package="numpy",
        beside=(_PROGRAMS / "contract.py",),
    )


_KNOWN: Mapping[str, Algorithm] = {
    "sagemaker-xgboost": _XGBOOST,
    "xgboost": _XGBOOST,
    "blazingtext": _known("BlazingText"),
    "factorization-machines": _known("Factorization Machines"),
    "forecasting-deepar": _known("DeepAR"),
    "image-classification": _known("Image Classification"),
    "ipinsights": _known("IP Insights"),
    "kmeans": _by_numpy(K_MEANS, "kmeans.py"),
    "knn": _known("k-NN"),
    "lda": _known("LDA"),
    "linear-learner": _by_numpy(LINEAR_LEARNER, "linear_learner.py"),
    "ntm": _known("NTM"),
    "object-detection": _known("Object Detection"),
    "object2vec": _known("Object2Vec"),
    "pca": _known("PCA"),
    "randomcutforest": _known("Random Cut Forest"),
    "semantic-segmentation": _known("Semantic Segmentation"),
    "seq2seq": _known("Sequence-to-Sequence"),
}
"""By the name of the image's repository."""

_PICKLED = re.compile(r"(latest|1|0\..*|1\.[0-2]-.*)")
"""Tags of XGBoost images whose model file is a pickle: those before 1.3."""


def built_in_algorithm(image: str) -> Algorithm | None:
    """The algorithm of an image URI; None for any other image."""
    match = _IMAGE.fullmatch(image)
    if match is None or match["name"] not in _KNOWN:
        return None
    if match["registry"] is not None and not _ECR.fullmatch(match["registry"]):
        return None
    algorithm = _KNOWN[match["name"]]
    if algorithm is _XGBOOST and _PICKLED.fullmatch(match["tag"] or "latest"):
        return replace(algorithm, arguments=("--pickle",))
    return algorithm
