"""`qd.ad`: derivatives of programs. `Tape` records kernels and runs their gradients (reverse mode), `FwdMode` runs their tangents."""

from __future__ import annotations

from .. import _runtime
from .._base import options as _options
from ..types.enums import SNodeGradType
from ._custom import grad_for, grad_replaced, no_grad
from ._forward import FwdMode
from ._jax import jax_op
from ._tape import Tape
from ._torch import torch_op

__all__ = ["FwdMode", "Tape", "clear_all_gradients", "grad_for", "grad_replaced", "jax_op", "no_grad", "torch_op"]

_KINDS = {SNodeGradType.ADJOINT: 1, SNodeGradType.DUAL: 2}


def clear_all_gradients(gradient_type: SNodeGradType = SNodeGradType.ADJOINT) -> None:
    """Set the adjoints of all containers to zero; with `gradient_type=SNodeGradType.DUAL` their tangents.

    Raises `QuadrantsRuntimeError` without a runtime.
    """
    _options.check_runtime()
    if gradient_type in _KINDS:
        _runtime.clear_shadows(_KINDS[gradient_type])


__dir__ = __all__.copy
