// RUN: qd-opt %s --qd-split-tasks --emit=llvm --target=x64 --cpu=znver4 --split-input-file | FileCheck %s

// Rows that had three elements at the first launch: a version whose lanes are 12 bytes apart, and one for other launches.
// CHECK-LABEL: define internal i1 @qd_task_0
// CHECK: icmp eq i64 %{{.*}}, 3
// CHECK: br i1 %{{.*}}, label %rows, label %rows.else
// CHECK-LABEL: define internal void @qd_task_0_short_rows
// CHECK: vector:
// CHECK-NOT: gather
// CHECK-COUNT-3: load <16 x float>
// CHECK: shufflevector <48 x float>
// CHECK: tail:
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: vector:
// CHECK: masked.gather.v16f32
qd.kernel @lengths [] attributes {argument_bytes = 48 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 {qd.row_length = 3 : i64} : !qd.tensor<f32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 24 position 1 : !qd.tensor<f32, [?], [], 4>
  %n = qd.argument 40 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %x[%i, %one] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    qd.store %value, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Lanes along the rows need no other version.
// CHECK-NOT: short_rows
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-NOT: short_rows
// CHECK: attributes
qd.kernel @along [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 {qd.row_length = 3 : i64} : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 24 : si32
  %zero = qd.constant 0 : si32
  %none = qd.constant 0.0 : f32
  qd.for parallel (%zero, %zero) to (%n, %n) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %to = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %none, %to : !qd.ref<f32>
    qd.yield
  }
}
