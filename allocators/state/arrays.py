"""Types of the engine's arrays and indices; imported for annotations only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

NodePair = tuple[int, int]
"""primary and secondary by index; the secondary is -1 where there is none"""
