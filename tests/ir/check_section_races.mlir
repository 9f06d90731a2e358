// RUN: qd-opt %s --qd-check-races=loops=false | FileCheck %s

// The attribute has the number of a context, 1, in its upper half. Stores to containers that several sections write are claimed by their
// sections for the context, so are updates of them; stores to others, and those outside of sections, are not.
// CHECK-LABEL: qd.kernel @sections
// CHECK: qd.task parallel
// CHECK: %[[FIRST:.*]] = qd.constant 1 : si32
// CHECK: qd.claim %{{.*}} by(%[[FIRST]]) of 16777217 ["Data race: x", "[", "", [""], "]", " is written by a section of {{.*}}, and by another one"]
// CHECK-NEXT: qd.store
// CHECK-NOT: qd.claim
// CHECK: qd.store
// CHECK: qd.task
// CHECK: %[[SECOND:.*]] = qd.constant 2 : si32
// CHECK: qd.claim %{{.*}} by(%[[SECOND]]) of -16777218 ["Data race: x", {{.*}}" is updated by a section of {{.*}}, and written by another one"]
// CHECK: qd.atomic
// CHECK-NOT: qd.claim
qd.kernel @sections [] attributes {argument_bytes = 16 : i32} {
  qd.task parallel attributes {qd.stream_block = 4294967297 : i64} {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [8], [4], 4>
    %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<f32, [8], [4], 4>
    %zero = qd.constant 0 : si32
    %end = qd.constant 8 : si32
    %one = qd.constant 1.0 : f32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %place = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
      qd.store %one, %place : !qd.ref<f32>
      %other = qd.element %y[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
      qd.store %one, %other : !qd.ref<f32>
      qd.yield
    }
  }
  qd.task attributes {qd.stream_block = 4294967298 : i64} {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [8], [4], 4>
    %zero = qd.constant 0 : si32
    %one = qd.constant 1.0 : f32
    %place = qd.element %x[%zero] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %old = qd.atomic add %place, %one : !qd.ref<f32>
  }
  qd.task {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [8], [4], 4>
    %zero = qd.constant 0 : si32
    %one = qd.constant 1.0 : f32
    %place = qd.element %x[%zero] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %one, %place : !qd.ref<f32>
  }
}
