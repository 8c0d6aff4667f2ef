# SPDX-License-Identifier: MIT
"""Least squares to the last digit: floats would be added in another order, and come out otherwise, on another CPU."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Intercept and slope of the line of least squares through (x, y)."""
    intercept, slope = solved([(1.0, x) for x, _ in points], [y for _, y in points])
    return intercept, slope


def solved(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """The x of least squares for which `rows` times x are the values. ValueError where they do not tell it."""
    exact = [[Fraction(cell) for cell in row] for row in rows]
    wanted = [Fraction(value) for value in values]
    size = len(exact[0])
    # The normal equations, then Gauss's elimination.
    left = [[sum((row[i] * row[j] for row in exact), Fraction(0)) for j in range(size)] for i in range(size)]
    right = [sum((row[i] * value for row, value in zip(exact, wanted, strict=True)), Fraction(0)) for i in range(size)]
    for column in range(size):
        pivot = next((row for row in range(column, size) if left[row][column]), None)
        if pivot is None:
            raise ValueError("the runs do not tell their parts apart")
        left[column], left[pivot] = left[pivot], left[column]
        right[column], right[pivot] = right[pivot], right[column]
        for row in range(size):
            if row != column and left[row][column]:
                factor = left[row][column] / left[column][column]
                left[row] = [one - factor * other for one, other in zip(left[row], left[column], strict=True)]
                right[row] -= factor * right[column]
    return [float(right[i] / left[i][i]) for i in range(size)]
