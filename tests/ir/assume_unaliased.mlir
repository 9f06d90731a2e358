// RUN: qd-opt %s --qd-assume-unaliased --split-input-file | FileCheck %s
// RUN: qd-opt %s --qd-assume-unaliased --split-input-file | qd-opt --pipeline --emit=llvm --target=cuda --split-input-file | FileCheck %s --check-prefix=LLVM

// The written array is assumed to be unaliased, so the other one is read through the read-only cache. Launches check it.
// CHECK-LABEL: qd.kernel @scale
// CHECK-SAME: qd.unaliased = array<i32: 16>
// LLVM-LABEL: define ptx_kernel void @qd_task_0
// LLVM: load float, {{.*}}!invariant.load
qd.kernel @scale [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
  %y = qd.tensor_argument "y" at 16 position 1 : !qd.tensor<f32, [?], [], 4>
  %zero = qd.constant 0 : si32
  %end = qd.extent %x 0 : !qd.tensor<f32, [?], [], 4> -> si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    qd.store %value, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// The arrays share memory at this launch: a version without the assumption.
// CHECK-LABEL: qd.kernel @shared
// CHECK-NOT: qd.unaliased
// LLVM-LABEL: define ptx_kernel void @qd_task_0
// LLVM-NOT: load float, {{.*}}!invariant.load
qd.kernel @shared [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 {qd.shares} : !qd.tensor<f32, [?], [], 4>
  %y = qd.tensor_argument "y" at 16 position 1 {qd.shares} : !qd.tensor<f32, [?], [], 4>
  %zero = qd.constant 0 : si32
  %end = qd.extent %x 0 : !qd.tensor<f32, [?], [], 4> -> si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    qd.store %value, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// One array only, and an array with strides, which may have holes: nothing to assume.
// CHECK-LABEL: qd.kernel @alone
// CHECK-NOT: qd.unaliased
// LLVM-LABEL: define ptx_kernel void @qd_task_0
qd.kernel @alone [] attributes {argument_bytes = 40 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
  %y = qd.tensor_argument "y" at 16 position 1 : !qd.tensor<f32, [?], [?], 4>
  %zero = qd.constant 0 : si32
  %end = qd.extent %x 0 : !qd.tensor<f32, [?], [], 4> -> si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [?], [?], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    qd.store %value, %to : !qd.ref<f32>
    qd.yield
  }
}
