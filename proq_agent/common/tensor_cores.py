"""TF32: products of float32 matrices on a GPU's tensor cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch as th


@contextmanager
def tensor_cores(device: th.device) -> Iterator[bool]:
    """
    Let products of matrices within the block be of ten bits instead of twenty-three, several times as fast on a GPU.

    Safe for losses and their gradients, whose noise is larger. Not for what is compared, as the nearest of states, nor
    for acting, which is to be the same on every device.

    :param device: where the products are computed; on others than CUDA nothing changes
    :return: whether products are rounded
    """
    if device.type != "cuda":
        yield False
        return
    before = th.get_float32_matmul_precision()
    th.set_float32_matmul_precision("high")
    try:
        yield True
    finally:
        th.set_float32_matmul_precision(before)
