# SPDX-License-Identifier: MIT
"""Values that may be absent, and never without a reason."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel

from harness.yamlfile import about

Reasons = Annotated[dict[str, str], about("why, for each field of this object that is null; and for no other")]
Model = TypeVar("Model", bound=BaseModel)


def check_reasons(model: Model) -> Model:
    """Validator of models that have a field `absent: Reasons`: its keys must be exactly the fields that are null."""
    null = {name for name, value in model if value is None}
    reasons = set(getattr(model, "absent"))  # noqa: B009  (every model that uses this has it)
    if null - reasons:
        raise ValueError(f"{', '.join(sorted(null - reasons))} is null without a reason in absent")
    if reasons - null:
        raise ValueError(f"absent has a reason for {', '.join(sorted(reasons - null))}, which is not null")
    return model
