"""The innermost product: four rows with sixteen columns of weights, written in the compiler's own vectors.

numba compiles it for the processor it finds (LLVM splits the vectors where the processor's are shorter), and adds up
every element in the same order, whatever else the pass computes.
"""

from collections.abc import Sequence

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

ROWS, COLUMNS = 4, 16
FLOAT, INDEX = ir.FloatType(), ir.IntType(32)
VECTOR = ir.VectorType(FLOAT, COLUMNS)
FUSED = ("contract",)  # a product and its sum may be rounded once, as all processors with fused operations do


def zeros(*shape: int) -> NDArray[np.float32]:
    """Zeros that start where a cache line does, so that no vector of sixteen lies across two."""
    size, line = int(np.prod(shape)), 4 * COLUMNS
    room = np.zeros(size + COLUMNS, np.float32)
    first = -room.ctypes.data % line // 4
    return room[first : first + size].reshape(shape)


def panels(weights: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Weights [out, in] of several layers, laid out for `multiply`: [layers, panels, in, 16].

    The last panel of a layer is filled up with zeros.
    """
    out, inner = weights[0].shape
    laid = zeros(len(weights), -(-out // COLUMNS), inner, COLUMNS)
    for weight, layer in zip(weights, laid, strict=True):
        whole = out // COLUMNS
        layer[:whole] = weight[: whole * COLUMNS].reshape(whole, COLUMNS, inner).transpose(0, 2, 1)
        if out % COLUMNS:
            layer[whole, :, : out % COLUMNS] = weight[whole * COLUMNS :].T
    return laid


@njit(cache=True)
def multiply(panel, x, rows, out, column):
    """out[:rows, column : column + 16] = x[:rows, :in] @ panel[:, :16]; rows is a multiple of four."""
    for row in range(0, rows, ROWS):
        target = out[row:, column:]
        _tile(
            panel.ctypes.data, panel.strides[0], x[row].ctypes.data, x.strides[0], x.strides[1], len(panel),
            target.ctypes.data, out.strides[0],
        )  # fmt: skip


@intrinsic
def _tile(context, panel, panel_stride, x, x_stride, x_step, inner, out, out_stride):
    """The same for four rows, from addresses and strides in bytes."""

    def build(context, builder, signature, arguments):
        panel, panel_stride, x, x_stride, x_step, inner, out, out_stride = arguments

        def at(base, offset, kind):
            return builder.inttoptr(builder.add(base, offset), kind.as_pointer())

        def times(stride, count: int):
            return builder.mul(stride, ir.Constant(stride.type, count))

        sums = [cgutils.alloca_once_value(builder, ir.Constant(VECTOR, [0.0] * COLUMNS)) for _ in range(ROWS)]
        with cgutils.for_range(builder, inner) as loop:
            weights = builder.load(at(panel, builder.mul(panel_stride, loop.index), VECTOR), align=4)
            step = builder.mul(x_step, loop.index)
            for row, total in enumerate(sums):
                value = builder.load(at(x, builder.add(times(x_stride, row), step), FLOAT))
                product = builder.fmul(weights, _spread(builder, value), flags=FUSED)
                builder.store(builder.fadd(builder.load(total), product, flags=FUSED), total)
        for row, total in enumerate(sums):
            builder.store(builder.load(total), at(out, times(out_stride, row), VECTOR), align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 8), build


def _spread(builder, value):
    """A vector of one value."""
    empty = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(INDEX, 0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(INDEX, COLUMNS), [0] * COLUMNS))
