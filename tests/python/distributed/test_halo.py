"""Borders, cuts and operations between ranks, compared with NumPy on the whole box."""

import shutil

import numpy as np
import pytest
from rank_processes import run_ranks

import quadrants as qd

# For a number of ranks: shape, width, periodic, axes, parts, corners.
CUTS = {
    1: [([5], 1, True, None, None, True), ([6, 5], [2, 1], [True, False], None, None, True)],
    2: [
        ([7, 5], 1, False, None, None, True),
        ([6, 7, 4], [2, 1, 1], True, None, None, True),
        ([4, 9], 1, [False, True], [1], None, True),
    ],
    3: [([3, 9, 3], 1, True, [1, 2], [1, 3, 1], False)],
    4: [([7, 6, 5], 1, [True, False, True], None, [2, 1, 2], True), ([8, 9], 2, True, None, [2, 2], False)],
}


@pytest.mark.parametrize("ranks", CUTS)
def test_borders_of_every_kind_of_container(ranks):
    results = run_ranks(ranks, *(("exchange", *cut) for cut in CUTS[ranks]))
    for cut, found in zip(CUTS[ranks], results, strict=True):
        for result in found:
            assert result["wrong"] == {}, cut
            assert cut[4] is None or result["parts"] == cut[4]


@pytest.mark.parametrize("ranks,shape,width", [(1, [3, 3], 1), (2, [9, 5], 2), (4, [4, 4, 4], 2)])
def test_added_borders_and_the_boxes_of_a_part(ranks, shape, width):
    added, wrapped, boxes = run_ranks(
        ranks, ("add_borders", [8, 7], 2, False), ("add_borders", [8, 7], 2, True), ("boxes_of_a_part", shape, width)
    )
    assert added == wrapped == [0] * ranks  # the borders reach every part that stores the cell
    assert boxes == [[1, 1, 0]] * ranks  # interior and rim are each cell once


@pytest.mark.skipif(not shutil.which("clang-22"), reason="needs clang-22")
def test_exchanges_on_a_gpu_through_the_processor(tmp_path):
    [results] = run_ranks(2, ("exchange_on_an_emulated_gpu", str(tmp_path)), QD_ARCH="")
    for result in results:
        assert result["arch"] == "cuda" and result["staged"]
        assert not any(result["wrong"].values()), result["wrong"]
        assert result["streams"] == [0, 1, 0, 1]  # only what may overlap leaves the default stream


def test_members_of_structs_along_a_ring_of_ranks():
    [[first, second]] = run_ranks(2, ("halo_of_a_struct_without_decomposition",))
    assert first == [[2, 2, 1, 1, 2, 2]] * 2
    assert second == [[1, 1, 2, 2, 1, 1]] * 2


def test_operations_between_ranks():
    results, drawn, again = run_ranks(3, ("operations",), ("random_numbers",), ("random_numbers",))
    for rank, result in enumerate(results):
        assert result["sum"] == [6.0] * 3
        assert result["min"] == 0 and result["max"] == [2, 0] and result["all"] == [0, 1, 2]
        expected = [[] if rank == 0 else np.full((peer, rank), 10 * peer + rank).tolist() for peer in range(3)]
        assert result["received"] == expected
        assert result["local"] == [rank, 3]
        assert result["threads"] >= 1
        assert "Invalid scalar type" in result["problems"][0] and "product" in result["problems"][1]
    assert len(set(drawn)) == 3 and again == drawn
    assert run_ranks(1, ("random_numbers",))[0][0] == drawn[0]  # the first rank draws what one process draws


MISTAKES = {
    "shapes differ": "disagree about the arguments of Decomposition: rank 0 has ((8, 6)",
    "wide border": "ValueError: a box of (2, 4) cannot be cut for 2 ranks along the axes (0,) into (2, 1): at most (1, 1)",
    "faces differ": "disagree about the arguments of Halo: rank 0 has ([('f32', ())], (8, 4)",
    "types differ": "disagree about the arguments of Halo: rank 0 has ([('f64'",
    "too many parts": "a box of (3, 3) cannot be cut for 2 ranks",
    "different calls": "disagree about what to do: rank 0 has Halo, rank 1 has Decomposition",
    "another shape": "rank 0: a container of shape (8, 8), and parts of shape (6, 6)",
    "no container": "rank 1: a field, ndarray or tensor is expected, got ndarray",
    "runtime": "rank 1: TypeError: option opt_level takes a value of type int",
}


def test_a_mistake_of_one_rank_is_an_exception_on_every_rank():
    results = run_ranks(2, *(("mistake", which) for which in MISTAKES))
    for (which, text), messages in zip(MISTAKES.items(), results, strict=True):
        assert all(text in message for message in messages), (which, messages)


def test_without_init_nothing_is_exchanged():
    qd.init(arch=qd.cpu)
    with pytest.raises(qd.QuadrantsRuntimeError, match="call qd.distributed.init"):
        qd.distributed.Halo(qd.field(qd.f32, 8))
