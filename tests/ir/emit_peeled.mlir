// RUN: qd-opt %s --qd-split-tasks --emit=llvm --target=x64 --cpu=haswell --lanes=8 --split-input-file | FileCheck %s

// The memory of arrays is not aligned to vectors: the iterations up to the first aligned store are peeled and run under a mask.
// No loop surrounds the chunk: the runtime polls between chunks, whose length is limited.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-NOT: strips
// CHECK: %[[ADDRESS:.*]] = ptrtoint ptr %{{.*}} to i64
// CHECK: head:
// CHECK: call void @llvm.masked.store.v8f32
// CHECK: vector:
// CHECK: store <8 x float>
// CHECK: tail:
qd.kernel @array [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
  %zero = qd.constant 0 : si32
  %end = qd.extent %x 0 : !qd.tensor<f32, [?], [], 4> -> si32
  %one = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    qd.store %one, %place : !qd.ref<f32>
    qd.yield
  }
}

// -----

// The memory of fields is aligned: nothing is peeled.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-NOT: head:
// CHECK: ret void
qd.kernel @field [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [1001], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 1001 : si32
  %one = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [1001], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %one, %place : !qd.ref<f32>
    qd.yield
  }
}
