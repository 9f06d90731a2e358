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

// -----

// Seven elements of a row would take too many registers for four columns at a time: rows only.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK-NOT: columns:
// CHECK-COUNT-4: store float
// CHECK-NOT: store float
qd.kernel @neighbors [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>
  %zero = qd.constant 0 : si32
  %rows = qd.constant 4096 : si32
  %columns = qd.constant 4088 : si32
  qd.for parallel (%zero, %zero) to (%rows, %columns) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %c1 = qd.constant 1 : si32
    %j1 = qd.binary add %j, %c1 : si32, si32 -> si32
    %p1 = qd.element %x[%i, %j1] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    %v1 = qd.load %p1 : !qd.ref<f32>
    %c2 = qd.constant 2 : si32
    %j2 = qd.binary add %j, %c2 : si32, si32 -> si32
    %p2 = qd.element %x[%i, %j2] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    %v2 = qd.load %p2 : !qd.ref<f32>
    %s2 = qd.binary add %v1, %v2 : f32, f32 -> f32
    %c3 = qd.constant 3 : si32
    %j3 = qd.binary add %j, %c3 : si32, si32 -> si32
    %p3 = qd.element %x[%i, %j3] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    %v3 = qd.load %p3 : !qd.ref<f32>
    %s3 = qd.binary add %s2, %v3 : f32, f32 -> f32
    %c4 = qd.constant 4 : si32
    %j4 = qd.binary add %j, %c4 : si32, si32 -> si32
    %p4 = qd.element %x[%i, %j4] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    %v4 = qd.load %p4 : !qd.ref<f32>
    %s4 = qd.binary add %s3, %v4 : f32, f32 -> f32
    %c5 = qd.constant 5 : si32
    %j5 = qd.binary add %j, %c5 : si32, si32 -> si32
    %p5 = qd.element %x[%i, %j5] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    %v5 = qd.load %p5 : !qd.ref<f32>
    %s5 = qd.binary add %s4, %v5 : f32, f32 -> f32
    %c6 = qd.constant 6 : si32
    %j6 = qd.binary add %j, %c6 : si32, si32 -> si32
    %p6 = qd.element %x[%i, %j6] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    %v6 = qd.load %p6 : !qd.ref<f32>
    %s6 = qd.binary add %s5, %v6 : f32, f32 -> f32
    %c7 = qd.constant 7 : si32
    %j7 = qd.binary add %j, %c7 : si32, si32 -> si32
    %p7 = qd.element %x[%i, %j7] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    %v7 = qd.load %p7 : !qd.ref<f32>
    %s7 = qd.binary add %s6, %v7 : f32, f32 -> f32
    %to = qd.element %y[%i, %j] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %s7, %to : !qd.ref<f32>
    qd.yield
  }
}
