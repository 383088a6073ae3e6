"""From what a run time is predicted, in words."""

from core.estimating.prediction import PredictedBy

PREDICTED_BY = {
    PredictedBy.FAMILY: "earlier runs of its family",
    PredictedBy.EXPECTED: "its user's word",
    PredictedBy.TENANT: "its tenant's other work",
    PredictedBy.SIZE: "work of its size",
    PredictedBy.FLEET: "all that ran",
    PredictedBy.DEFAULT: "nothing but a default",
}
"""From what a run time is known, for people."""
assert set(PREDICTED_BY) == set(PredictedBy)
