"""One kernel over containers of several layouts."""

import pytest

import quadrants as qd


@qd.data_oriented
class Holder:
    def __init__(self, n: int) -> None:
        self.x = qd.Vector.field(3, qd.f64, shape=n)

    @qd.kernel
    def add(self, amount: qd.f64):
        for i in self.x:
            self.x[i] += amount


@pytest.mark.parametrize("cached", [False, True])
def test_instances_of_other_layouts_do_not_meet_in_the_cache(tmp_path, cached):
    for n in (8, 16, 8):
        qd.init(arch=qd.cpu, offline_cache=cached, offline_cache_file_path=str(tmp_path), log_level="error")
        holder = Holder(n)
        holder.add(2.0)
        assert (holder.x.to_numpy() == 2.0).all() and holder.x.shape == (n,)
