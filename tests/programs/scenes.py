"""The scenes of the harness: what a user of the simulator writes, once for both packages.

A scene is a function of a displacement (added to the initial height, in meters) that builds a `Run`: how to step, and what of the state is
compared. Runs in the environment of the simulator; nothing here knows which `quadrants` is below it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Run:
    """A scene that is built: `step()` advances it, `read()` gives the compared arrays by name."""

    step: Callable[[], None]
    read: Callable[[], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Scene:
    """How to build a scene, and how many further steps are timed at a time."""

    build: Callable[[Any, float], Run]
    timed_steps: int
    is_chaotic: bool = False  # contacts amplify the last bit: the states of late steps say nothing
    options: dict[str, Any] = field(default_factory=dict)


def _to_numpy(value: Any) -> np.ndarray:
    return value.detach().cpu().numpy().copy() if hasattr(value, "detach") else np.array(value)


def _make(gs: Any, **options: Any) -> Any:
    return gs.Scene(show_viewer=False, **options)


def _rigid_run(scene: Any, entities: list[Any], environments: int) -> Run:
    scene.build(n_envs=environments if environments > 1 else 0)

    def read() -> dict[str, np.ndarray]:
        return {f"qpos{i}": _to_numpy(entity.get_qpos()) for i, entity in enumerate(entities)}

    return Run(scene.step, read)


def _make_input(gs: Any, numbers: np.ndarray, environments: int = 1) -> Any:
    """Numbers, once for each world, as a tensor of the device."""
    import torch

    return torch.as_tensor(numbers if environments == 1 else np.tile(numbers, (environments, 1)), dtype=gs.tc_float, device=gs.device)


def _boxes(environments: int) -> Callable[[Any, float], Run]:
    def build(gs: Any, displacement: float) -> Run:
        scene = _make(gs, sim_options=gs.options.SimOptions(dt=0.01))
        scene.add_entity(gs.morphs.Plane())
        boxes = [
            scene.add_entity(gs.morphs.Box(pos=(0.02 * i, 0.01 * i, 0.3 + 0.25 * i + displacement), size=(0.2, 0.2, 0.2))) for i in range(4)
        ]
        return _rigid_run(scene, boxes, environments)

    return build


def _arm(environments: int) -> Callable[[Any, float], Run]:
    def build(gs: Any, displacement: float) -> Run:
        scene = _make(gs, sim_options=gs.options.SimOptions(dt=0.01))
        scene.add_entity(gs.morphs.Plane())
        arm = scene.add_entity(gs.morphs.MJCF(file="xml/franka_emika_panda/panda.xml"))
        run = _rigid_run(scene, [arm], environments)
        target = np.array([0.3, 0.4, -0.2, -1.5, 0.1, 1.8, 0.5, 0.04, 0.04])
        target[:7] += displacement
        arm.control_dofs_position(_make_input(gs, target, environments))
        return run

    return build


def _quadruped(environments: int) -> Callable[[Any, float], Run]:
    def build(gs: Any, displacement: float) -> Run:
        scene = _make(gs, sim_options=gs.options.SimOptions(dt=0.01))
        scene.add_entity(gs.morphs.Plane())
        robot = scene.add_entity(gs.morphs.URDF(file="urdf/go2/urdf/go2.urdf", pos=(0.0, 0.0, 0.42 + displacement)))
        run = _rigid_run(scene, [robot], environments)
        joints = [robot.get_joint(f"{leg}_{part}_joint") for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf")]
        motors = [joint.dofs_idx_local[0] for joint in joints]
        robot.set_dofs_kp(_make_input(gs, np.full(12, 20.0)), motors)
        robot.set_dofs_kv(_make_input(gs, np.full(12, 0.5)), motors)
        standing = np.array([0.0, 0.8, -1.5] * 2 + [0.0, 1.0, -1.5] * 2)
        robot.control_dofs_position(_make_input(gs, standing, environments), motors)
        return run

    return build


def _deformable_run(scene: Any, read_state: Callable[[], tuple[Any, Any]]) -> Run:
    scene.build()

    def read() -> dict[str, np.ndarray]:
        positions, velocities = read_state()
        return {"pos": _to_numpy(positions), "vel": _to_numpy(velocities)}

    return Run(scene.step, read)


def _particle_run(scene: Any, entity: Any) -> Run:
    return _deformable_run(scene, lambda: (entity.get_particles_pos(), entity.get_particles_vel()))


def _mpm(gs: Any, displacement: float) -> Run:
    scene = _make(
        gs,
        sim_options=gs.options.SimOptions(dt=4e-3, substeps=10),
        mpm_options=gs.options.MPMOptions(lower_bound=(-0.5, -0.5, 0.0), upper_bound=(0.5, 0.5, 1.0), grid_density=64),
    )
    block = scene.add_entity(
        material=gs.materials.MPM.Elastic(sampler="regular"),
        morph=gs.morphs.Box(pos=(0.0, 0.0, 0.3 + displacement), size=(0.12, 0.12, 0.24)),
    )
    return _particle_run(scene, block)


def _sph(gs: Any, displacement: float) -> Run:
    scene = _make(
        gs,
        sim_options=gs.options.SimOptions(dt=4e-3, substeps=10),
        sph_options=gs.options.SPHOptions(lower_bound=(-0.5, -0.5, 0.0), upper_bound=(0.5, 0.5, 1.0), particle_size=0.02),
    )
    water = scene.add_entity(
        material=gs.materials.SPH.Liquid(sampler="regular"),
        morph=gs.morphs.Box(pos=(0.0, 0.0, 0.3 + displacement), size=(0.24, 0.24, 0.24)),
    )
    return _particle_run(scene, water)


def _cloth(gs: Any, displacement: float) -> Run:
    scene = _make(gs, sim_options=gs.options.SimOptions(dt=4e-3, substeps=10))
    scene.add_entity(gs.morphs.Plane())
    cloth = scene.add_entity(
        material=gs.materials.PBD.Cloth(),
        morph=gs.morphs.Mesh(file="meshes/cloth.obj", scale=0.5, pos=(0.0, 0.0, 0.3 + displacement), euler=(0.0, 0.0, 0.0)),
    )
    return _particle_run(scene, cloth)


@contextlib.contextmanager
def _without_output() -> Iterator[None]:
    """Drops what C code writes to stdout, such as TetGen's statistics."""
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _fem(gs: Any, displacement: float) -> Run:
    """Elements whose material stores one of its funcs, with an implicit solver."""
    scene = _make(gs, sim_options=gs.options.SimOptions(dt=0.01, substeps=2), fem_options=gs.options.FEMOptions(use_implicit_solver=True))
    with _without_output():
        block = scene.add_entity(
            material=gs.materials.FEM.Elastic(E=1e5, nu=0.3, rho=1000.0, model="linear_corotated"),
            morph=gs.morphs.Box(pos=(0.0, 0.0, 0.3 + displacement), size=(0.1, 0.1, 0.1)),
        )
        return _deformable_run(scene, lambda: (block.get_state().pos, block.get_state().vel))


SCENES: dict[str, Scene] = {
    "boxes": Scene(_boxes(1), 300, is_chaotic=True),
    "boxes256": Scene(_boxes(256), 20, is_chaotic=True),
    "arm": Scene(_arm(1), 300),
    "arm256": Scene(_arm(256), 50),
    "mpm": Scene(_mpm, 20),
    "sph": Scene(_sph, 20, is_chaotic=True),
    "cloth": Scene(_cloth, 5, is_chaotic=True),
    "fem": Scene(_fem, 10),
}

# Scenes of rigid bodies, in any number of worlds: how to build them, and whether contacts amplify what differs.
RIGID: dict[str, tuple[Callable[[int], Callable[[Any, float], Run]], bool]] = {
    "boxes": (_boxes, True),
    "arm": (_arm, False),
    "quadruped": (_quadruped, True),
}


def find_scene(name: str) -> Scene:
    """The scene of a name: one of `SCENES`, or one of `RIGID` with the number of its worlds behind it.

    Raises `KeyError` if there is none.
    """
    if name in SCENES:
        return SCENES[name]
    kind = name.rstrip("0123456789")
    build, is_chaotic = RIGID[kind]
    return Scene(build(int(name.removeprefix(kind) or 1)), 100, is_chaotic)


@dataclass
class Problem:
    """A loss of some numbers that a scene computes, by the scene: numbers at the start of a run, the loss at its end."""

    run: Callable[[Any], Any]  # torch tensor of the numbers → loss
    start: np.ndarray
    step: float  # of the central differences
    indices: tuple[int, ...]
    make_tensor: Callable[..., Any]

    def compute_gradient(self) -> np.ndarray:
        """The gradient by the simulator's own backward pass."""
        numbers = self._make(self.start)
        self.run(numbers).backward()
        return _to_numpy(numbers.grad)

    def difference(self, index: int) -> float:
        """The central difference of the loss along one of the numbers."""
        losses = []
        for sign in (1.0, -1.0):
            numbers = self.start.copy()
            numbers[index] += sign * self.step
            losses.append(float(self.run(self._make(numbers)).detach()))
        return (losses[0] - losses[1]) / (2 * self.step)

    def _make(self, numbers: np.ndarray) -> Any:
        return self.make_tensor(numbers.astype(np.float32), requires_grad=True)


def _find_tensor_type(gs: Any) -> Callable[..., Any]:
    """Older versions of the simulator differentiate their own kind of tensor only."""
    import torch

    return getattr(gs, "tensor", torch.tensor)


def _differentiable_mpm(gs: Any, displacement: float) -> Problem:
    scene = _make(
        gs,
        sim_options=gs.options.SimOptions(dt=2e-3, substeps=10, requires_grad=True),
        mpm_options=gs.options.MPMOptions(lower_bound=(-0.5, -0.5, 0.0), upper_bound=(0.5, 0.5, 1.0), grid_density=32),
    )
    block = scene.add_entity(
        material=gs.materials.MPM.Elastic(sampler="regular"),
        morph=gs.morphs.Box(pos=(0.0, 0.0, 0.4 + displacement), size=(0.15, 0.15, 0.15)),
    )
    scene.build()

    def run(velocity: Any) -> Any:
        scene.reset()
        block.set_velocity(velocity.expand(block.n_particles, 3))
        for _ in range(10):
            scene.step()
        return (block.get_state().pos.mean(dim=-2) ** 2).sum()

    return Problem(run, np.array([0.5, -0.3, -1.0]), 1e-2, (0, 1, 2), _find_tensor_type(gs))


def _differentiable_rigid(gs: Any, displacement: float) -> Problem:
    scene = _make(gs, sim_options=gs.options.SimOptions(dt=1e-2, substeps=1, requires_grad=True))
    scene.add_entity(gs.morphs.Plane())
    box = scene.add_entity(gs.morphs.Box(pos=(0.0, 0.0, 0.6 + displacement), size=(0.1, 0.1, 0.1)))
    scene.build()

    def run(position: Any) -> Any:
        scene.reset()
        box.set_pos(position)
        for _ in range(10):
            scene.step()
        return (box.get_state().pos ** 2).sum()

    return Problem(run, np.array([0.3, 0.1, 0.6]), 1e-2, (0, 1, 2), _find_tensor_type(gs))


GRADIENTS: dict[str, Callable[[Any, float], Problem]] = {"grad_mpm": _differentiable_mpm, "grad_rigid": _differentiable_rigid}
