// RUN: qd-opt %s --pipeline --emit=llvm --target=cuda --split-input-file | FileCheck %s

// How many iterations a thread of a grid takes at a time (chooseShape), told by the code for them: lanes one block apart (`masked` is the
// remainder), neighboring rows, and columns of rows.

// Accesses at constant offsets from the index: four columns of four rows, one access for all columns of a row if containers are aligned.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK-NOT: masked:
// CHECK: aligned:
// CHECK: columns:
// CHECK-COUNT-16: store float
// CHECK: {{^}}count:
qd.kernel @columns [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 4096 : si32
  qd.for parallel (%zero, %zero) to (%end, %end) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %from = qd.element %x[%i, %j] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    %to = qd.element %y[%i, %j] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    qd.store %value, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A transposed access is at no constant offset: eight rows of one column, and blocks take tiles of 4 groups of rows and 32 columns.
// The number of steps is rounded up to whole tiles, and threads outside of the loop are idle.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK-NOT: griddepcontrol
// CHECK-NOT: columns:
// CHECK: inside:
// CHECK-COUNT-8: store float
// CHECK-NOT: store float
qd.kernel @rows [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 4096 : si32
  qd.for parallel (%zero, %zero) to (%end, %end) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %from = qd.element %x[%j, %i] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    %to = qd.element %y[%i, %j] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    qd.store %value, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A grid that is too small for several rows per thread: one iteration at a time. The next task may start before its end.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK: griddepcontrol.launch_dependents
// CHECK-NOT: columns:
// CHECK-COUNT-1: store float
// CHECK-NOT: store float
// CHECK: ret void
qd.kernel @small [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [256, 256], [1024, 4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [256, 256], [1024, 4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 256 : si32
  qd.for parallel (%zero, %zero) to (%end, %end) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %from = qd.element %x[%i, %j] : !qd.tensor<f32, [256, 256], [1024, 4], 4>, si32, si32 -> !qd.ref<f32>
    %to = qd.element %y[%i, %j] : !qd.tensor<f32, [256, 256], [1024, 4], 4>, si32, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    qd.store %value, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A branch: one iteration at a time, without a remainder.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK-NOT: masked:
// CHECK: store float
// CHECK-NOT: {{store float|masked:}}
qd.kernel @branch [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [1048576], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 1048576 : si32
  %limit = qd.constant 0.0 : f32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [1048576], [4], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %place : !qd.ref<f32>
    %is_below = qd.binary lt %value, %limit : f32, f32 -> i1
    qd.if %is_below {
      qd.store %limit, %place : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}
