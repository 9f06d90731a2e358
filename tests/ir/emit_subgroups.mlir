// RUN: qd-opt %s --pipeline --emit=optimized --target=cuda:sm_80 | FileCheck %s --check-prefix=CUDA
// RUN: qd-opt %s --pipeline --emit=optimized --target=cuda:sm_75 | FileCheck %s --check-prefix=OLD
// RUN: qd-opt %s --pipeline --emit=optimized --target=vulkan:subgroup=32,threads=256,shared=32768,combines | FileCheck %s --check-prefix=VULKAN
// RUN: qd-opt %s --pipeline --emit=optimized --target=vulkan:subgroup=32,threads=256,shared=32768 | FileCheck %s --check-prefix=PLAIN
// RUN: qd-opt %s --pipeline --emit=source --target=metal | FileCheck %s --check-prefix=METAL
// RUN: qd-opt %s | qd-opt | FileCheck %s --check-prefix=TEXT

// A word of each thread is combined by one instruction where the device has one, and by five shuffles where it has none. Some threads of a
// subgroup exchange values: CUDA's instructions take the mask, other devices run threads in lockstep.
// CUDA: call i32 @llvm.nvvm.redux.sync.umin(i32 {{.*}}, i32 -1)
// CUDA: %[[MASK:.*]] = call i32 @llvm.nvvm.activemask()
// CUDA: call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 %[[MASK]], i32
// CUDA: call i32 @llvm.nvvm.vote.ballot.sync(i32 %[[MASK]], i1
// CUDA: call void @llvm.nvvm.bar.warp.sync(i32 %[[MASK]])
// OLD-COUNT-6: @llvm.nvvm.shfl.sync.idx.i32(i32
// VULKAN: call i32 @grid.combine.umin(i32
// VULKAN: %[[MASK:.*]] = call i64 @grid.ballot(i1 true)
// VULKAN: call i32 @grid.shuffle(i32
// VULKAN: %[[VOTES:.*]] = call i64 @grid.ballot(i1
// VULKAN: fence syncscope("workgroup")
// PLAIN-COUNT-6: @grid.shuffle(i32
// METAL: uint(simd_min(uint(
// TEXT: qd.combine min %{{.*}} over 32 : ui32
// TEXT: qd.active : ui64
// TEXT: qd.shuffle %{{.*}} from %{{.*}} among(%{{.*}} : ui64) : ui32, si32
// TEXT: qd.ballot %{{.*}} among(%{{.*}} : ui64) : ui64
// TEXT: qd.barrier group among %{{.*}} : ui64
qd.kernel @exchange [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<ui32, [1024], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<ui64, [1024], [8], 8>
  %zero = qd.constant 0 : si32
  %end = qd.constant 1024 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) attributes {block_dim = 32 : i32} {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<ui32, [1024], [4], 4>, si32 -> !qd.ref<ui32>
    %value = qd.load %place : !qd.ref<ui32>
    %least = qd.combine min %value over 32 : ui32
    %threads = qd.active : ui64
    %got = qd.shuffle %least from %i among(%threads : ui64) : ui32, si32
    %vote = qd.binary lt %got, %value : ui32, ui32 -> i1
    %votes = qd.ballot %vote among(%threads : ui64) : ui64
    %other = qd.element %y[%i] : !qd.tensor<ui64, [1024], [8], 8>, si32 -> !qd.ref<ui64>
    qd.store %votes, %other : !qd.ref<ui64>
    qd.barrier group among %threads : ui64
    qd.store %got, %place : !qd.ref<ui32>
    qd.yield
  }
}
