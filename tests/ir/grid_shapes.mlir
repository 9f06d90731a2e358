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

// -----

// A loop over the blocks of a list, of 5^3 cells: a thread takes the five cells of a block along its second axis, and its neighbors have
// neighboring cells. Iterations have 32-bit numbers, because there are not more than the loop says.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK: udiv i32 %{{.*}}, 5
// CHECK-NOT: masked:
// CHECK-COUNT-5: store float
// CHECK-NOT: store float
// CHECK: ret void
qd.kernel @blocks [] attributes {argument_bytes = 16 : i32} {
  %list = qd.tensor_argument field "list" at 0 position 0 : !qd.tensor<si32, [32768], [4], 4>
  %x = qd.tensor_argument field "x" at 8 position 1 : !qd.tensor<f32, [32768, 5, 5, 5], [500, 100, 20, 4], 4>
  %zero = qd.constant 0 : si32
  %five = qd.constant 5 : si32
  %one = qd.constant 1.0 : f32
  %first = qd.element %list[%zero] : !qd.tensor<si32, [32768], [4], 4>, si32 -> !qd.ref<si32>
  %count = qd.load %first : !qd.ref<si32>
  qd.for parallel (%zero, %zero, %zero, %zero) to (%count, %five, %five, %five) : (si32, si32, si32, si32) to (si32, si32, si32, si32) attributes {qd.most_iterations = 4096000 : i64} {
  ^body(%n: si32, %i: si32, %j: si32, %k: si32):
    %to = qd.element %x[%n, %i, %j, %k] : !qd.tensor<f32, [32768, 5, 5, 5], [500, 100, 20, 4], 4>, si32, si32, si32, si32 -> !qd.ref<f32>
    qd.store %one, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// With a condition, the cells along the second axis follow each other in a loop.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK: round:
// CHECK-COUNT-1: store float
// CHECK-NOT: store float
// CHECK: !"llvm.loop.unroll.count", i32 5
qd.kernel @conditions [] attributes {argument_bytes = 16 : i32} {
  %list = qd.tensor_argument field "list" at 0 position 0 : !qd.tensor<si32, [32768], [4], 4>
  %x = qd.tensor_argument field "x" at 8 position 1 : !qd.tensor<f32, [32768, 5, 5, 5], [500, 100, 20, 4], 4>
  %zero = qd.constant 0 : si32
  %five = qd.constant 5 : si32
  %one = qd.constant 1.0 : f32
  %first = qd.element %list[%zero] : !qd.tensor<si32, [32768], [4], 4>, si32 -> !qd.ref<si32>
  %count = qd.load %first : !qd.ref<si32>
  qd.for parallel (%zero, %zero, %zero, %zero) to (%count, %five, %five, %five) : (si32, si32, si32, si32) to (si32, si32, si32, si32) attributes {qd.most_iterations = 4096000 : i64} {
  ^body(%n: si32, %i: si32, %j: si32, %k: si32):
    %isInside = qd.binary gt %k, %zero : si32, si32 -> i1
    qd.if %isInside {
      %to = qd.element %x[%n, %i, %j, %k] : !qd.tensor<f32, [32768, 5, 5, 5], [500, 100, 20, 4], 4>, si32, si32, si32, si32 -> !qd.ref<f32>
      qd.store %one, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}
