"""Functions that normalize scores to 0..100 (compare `framework/plugins/helper/normalize_score.go`)."""

from __future__ import annotations

import numpy as np

from sampan.scheduler.cache.arrays import Ints

MAX_SCORE = 100


def normalize_to_highest(scores: Ints, *, reverse: bool = False) -> Ints:
    """Scale scores so that the highest becomes 100, or 0 with `reverse`; if all are zero, all become 0, or 100."""
    highest = int(scores.max()) if len(scores) else 0
    if highest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    scaled = MAX_SCORE * scores // highest
    return MAX_SCORE - scaled if reverse else scaled


def normalize_min_max(scores: Ints) -> Ints:
    """Scale scores so that the lowest becomes 0 and the highest 100; equal scores all become 0."""
    if not len(scores):
        return scores
    lowest, highest = int(scores.min()), int(scores.max())
    if highest == lowest:
        return np.zeros_like(scores)
    return (MAX_SCORE * ((scores - lowest) / (highest - lowest))).astype(np.int64)
