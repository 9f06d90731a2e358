// RUN: qd-opt %s --pipeline --emit=source --target=metal | FileCheck %s

// A task is a kernel of its own. Threads sum, then lanes by shuffles, then the last block what all blocks have written: its loads are
// coherent, and a fence orders them. Each value is a variable, and each width has one type in memory.
// CHECK: #include <metal_stdlib>
// CHECK: #pragma METAL fp contract(off)
// CHECK: kernel void qd_task_0(constant ulong &launch {{\[\[}}buffer(0)]]
// CHECK: threadgroup uint a{{[0-9]+}}[4];
// CHECK: while (true) {
// CHECK: as_type<float>(*(coherent(device) device uint *)
// CHECK: if ({{.*}}) break;
// CHECK: simd_shuffle({{.*}}, ushort(
// CHECK: threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
// CHECK: atomic_thread_fence(mem_flags::mem_device | mem_flags::mem_threadgroup, memory_order_seq_cst, thread_scope_device);
// CHECK: atomic_fetch_add_explicit((device atomic_uint *)
qd.kernel @sum [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [1024], [4], 4>
  %s = qd.tensor_argument field "s" at 8 position 1 : !qd.tensor<f32, [], [], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 1024 : si32
  %target = qd.element %s[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [1024], [4], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %place : !qd.ref<f32>
    %old = qd.atomic add %target, %value : !qd.ref<f32>
    qd.yield
  }
}
