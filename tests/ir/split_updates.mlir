// RUN: qd-opt %s --qd-split-updates --split-input-file | FileCheck %s

// Each loop updates an element of its own; the last one keeps what the updates do not need.
// CHECK-LABEL: qd.kernel @neighbors
// CHECK-SAME: qd.unaliased = array<i32: 16>
// CHECK: qd.for parallel
// CHECK: %[[NEXT:.*]] = qd.binary add
// CHECK: qd.load
// CHECK: qd.element %{{.*}}[%[[NEXT]]]
// CHECK: qd.atomic sub
// CHECK-NOT: qd.atomic
// CHECK: qd.for parallel
// CHECK-NOT: qd.binary
// CHECK: qd.atomic exchange
// CHECK: qd.atomic add
// CHECK-NOT: qd.for
qd.kernel @neighbors [] attributes {argument_bytes = 40 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
  %f = qd.tensor_argument "f" at 16 position 1 : !qd.tensor<f32, [?], [], 4>
  %n = qd.argument 32 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %none = qd.constant 0.0 : f32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %next = qd.binary add %i, %one : si32, si32 -> si32
    %from = qd.element %x[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %value = qd.atomic exchange %from, %none : !qd.ref<f32>
    %left = qd.element %f[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %right = qd.element %f[%next] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %a = qd.atomic add %left, %value : !qd.ref<f32>
    %b = qd.atomic sub %right, %value : !qd.ref<f32>
    qd.yield
  }
}

// -----

// One loop: the update reads what the iteration wrote; an index is not the loop's; a counter gives each iteration a number.
// CHECK-LABEL: qd.kernel @together
// CHECK-COUNT-3: qd.for parallel
// CHECK-NOT: qd.for
qd.kernel @together [] attributes {argument_bytes = 40 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<si32, [?], [], 4>
  %f = qd.tensor_argument "f" at 16 position 1 : !qd.tensor<si32, [?], [], 4>
  %n = qd.argument 32 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %next = qd.binary add %i, %one : si32, si32 -> si32
    %own = qd.element %x[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    qd.store %i, %own : !qd.ref<si32>
    %value = qd.load %own : !qd.ref<si32>
    %left = qd.element %f[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    %right = qd.element %f[%next] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    %a = qd.atomic add %left, %value : !qd.ref<si32>
    %b = qd.atomic add %right, %value : !qd.ref<si32>
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %at = qd.binary mod %i, %n : si32, si32 -> si32
    %left = qd.element %f[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    %right = qd.element %f[%at] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    %a = qd.atomic add %left, %one : !qd.ref<si32>
    %b = qd.atomic add %right, %one : !qd.ref<si32>
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %next = qd.binary add %i, %one : si32, si32 -> si32
    %counter = qd.element %x[%zero] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    %number = qd.atomic add %counter, %one : !qd.ref<si32>
    %left = qd.element %f[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    %right = qd.element %f[%next] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    %a = qd.atomic add %left, %number : !qd.ref<si32>
    %b = qd.atomic add %right, %number : !qd.ref<si32>
    qd.yield
  }
}
