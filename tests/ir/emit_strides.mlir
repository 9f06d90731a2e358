// RUN: qd-opt %s --pipeline --emit=llvm --target=cuda --split-input-file | FileCheck %s
// RUN: qd-opt %s --pipeline --emit=asm --target=cuda --split-input-file | FileCheck %s --check-prefix=PTX

// The strides of arrays have 32 bits, and one instruction multiplies them by an index.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK: load i32, {{.*}} !invariant.load
// PTX-LABEL: .visible .entry qd_task_0(
// PTX: mul.wide.s32
// PTX-NOT: mul.lo.s64
// PTX: st.global.b32
qd.kernel @narrow [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %row = qd.argument 24 : si32
  %zero = qd.constant 0 : si32
  %end = qd.constant 8 : si32
  %one = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%row, %i] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %one, %place : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Strides of 64 bits, where an array needs them.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK-NOT: load i32, {{.*}} !invariant.load
// CHECK: ret void
// PTX-LABEL: .visible .entry qd_task_0(
// PTX: mul.lo.s64
// PTX: st.global.b32
module attributes {qd.wide_strides} {
qd.kernel @wide [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %row = qd.argument 24 : si64
  %zero = qd.constant 0 : si32
  %end = qd.constant 8 : si32
  %one = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%row, %i] : !qd.tensor<f32, [?, ?], [], 4>, si64, si32 -> !qd.ref<f32>
    qd.store %one, %place : !qd.ref<f32>
    qd.yield
  }
}
}
