// RUN: qd-opt %s --qd-reuse-loads --split-input-file | FileCheck %s

// The same element by another expression of the same index, and in a branch. Another element, and what two branches load, remains.
// CHECK-LABEL: qd.kernel @repeated
// CHECK: %[[FIRST:.*]] = qd.load
// CHECK: %[[NEXT:.*]] = qd.load
// CHECK-NOT: qd.load
// CHECK: qd.binary add %[[FIRST]], %[[NEXT]]
// CHECK: qd.if
// CHECK-NEXT: qd.element
// CHECK-NEXT: qd.store %[[FIRST]]
// CHECK: %[[IN_BRANCH:.*]] = qd.load
// CHECK: qd.store %[[IN_BRANCH]]
// CHECK: else
// CHECK: %[[OTHERWISE:.*]] = qd.load
// CHECK: qd.store %[[OTHERWISE]]
qd.kernel @repeated [] attributes {argument_bytes = 72 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [16], [0], 4>
  %y = qd.tensor_argument field "y" at 32 position 1 : !qd.tensor<f32, [16], [0], 4>
  %n = qd.argument 64 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %two = qd.constant 2 : si32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %i1 = qd.binary add %i, %one : si32, si32 -> si32
    %a = qd.element %x[%i1] : !qd.tensor<f32, [16], [0], 4>, si32 -> !qd.ref<f32>
    %first = qd.load %a : !qd.ref<f32>
    %b = qd.element %x[%i] : !qd.tensor<f32, [16], [0], 4>, si32 -> !qd.ref<f32>
    %next = qd.load %b : !qd.ref<f32>
    %again1 = qd.constant 1 : si32
    %i2 = qd.binary add %i, %again1 : si32, si32 -> si32
    %x2 = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [16], [0], 4>
    %c = qd.element %x2[%i2] : !qd.tensor<f32, [16], [0], 4>, si32 -> !qd.ref<f32>
    %again = qd.load %c : !qd.ref<f32>
    %sum = qd.binary add %again, %next : f32, f32 -> f32
    %less = qd.binary lt %sum, %next : f32, f32 -> i1
    qd.if %less {
      %own = qd.element %y[%i] : !qd.tensor<f32, [16], [0], 4>, si32 -> !qd.ref<f32>
      %inside = qd.load %c : !qd.ref<f32>
      qd.store %inside, %own : !qd.ref<f32>
      %far = qd.element %x[%two] : !qd.tensor<f32, [16], [0], 4>, si32 -> !qd.ref<f32>
      %in_branch = qd.load %far : !qd.ref<f32>
      qd.store %in_branch, %own : !qd.ref<f32>
      qd.yield
    } else {
      %own = qd.element %y[%i] : !qd.tensor<f32, [16], [0], 4>, si32 -> !qd.ref<f32>
      %far = qd.element %x[%two] : !qd.tensor<f32, [16], [0], 4>, si32 -> !qd.ref<f32>
      %otherwise = qd.load %far : !qd.ref<f32>
      qd.store %otherwise, %own : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// A field that is written, an array beside one that is written, and values of two loops, which become tasks, are loaded each time. A field
// shares memory with no array.
// CHECK-LABEL: qd.kernel @written
// CHECK: qd.for parallel
// CHECK-COUNT-5: qd.load
// CHECK-NOT: qd.load
// CHECK: qd.for parallel
// CHECK: qd.load
// CHECK-NOT: qd.load
qd.kernel @written [] attributes {argument_bytes = 136 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [16], [0], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?], [], 4>
  %z = qd.tensor_argument "z" at 64 position 2 : !qd.tensor<f32, [?], [], 4>
  %w = qd.tensor_argument field "w" at 96 position 3 : !qd.tensor<f32, [16], [0], 4>
  %n = qd.argument 128 : si32
  %zero = qd.constant 0 : si32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %a = qd.element %x[%i] : !qd.tensor<f32, [16], [0], 4>, si32 -> !qd.ref<f32>
    %b = qd.element %y[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %c = qd.element %z[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %d = qd.element %w[%i] : !qd.tensor<f32, [16], [0], 4>, si32 -> !qd.ref<f32>
    %a1 = qd.load %a : !qd.ref<f32>
    %b1 = qd.load %b : !qd.ref<f32>
    %d1 = qd.load %d : !qd.ref<f32>
    qd.store %a1, %c : !qd.ref<f32>
    qd.store %b1, %a : !qd.ref<f32>
    %a2 = qd.load %a : !qd.ref<f32>
    qd.store %d1, %c : !qd.ref<f32>
    %b2 = qd.load %b : !qd.ref<f32>
    %d2 = qd.load %d : !qd.ref<f32>
    %sum = qd.binary add %a2, %b2 : f32, f32 -> f32
    %all = qd.binary add %sum, %d2 : f32, f32 -> f32
    qd.store %all, %a : !qd.ref<f32>
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %a = qd.element %x[%i] : !qd.tensor<f32, [16], [0], 4>, si32 -> !qd.ref<f32>
    %d = qd.element %w[%zero] : !qd.tensor<f32, [16], [0], 4>, si32 -> !qd.ref<f32>
    %d1 = qd.load %d : !qd.ref<f32>
    qd.store %d1, %a : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A kernel that watches memory is not touched: another one may write what it reads.
// CHECK-LABEL: qd.kernel @watching
// CHECK-COUNT-3: qd.load
qd.kernel @watching [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [16], [0], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  qd.for parallel (%zero) to (%one) : (si32) to (si32) {
  ^body(%i: si32):
    %a = qd.element %x[%i] : !qd.tensor<si32, [16], [0], 4>, si32 -> !qd.ref<si32>
    %flag = qd.load %a {qd.volatile} : !qd.ref<si32>
    %b1 = qd.load %a : !qd.ref<si32>
    %b2 = qd.load %a : !qd.ref<si32>
    %sum = qd.binary add %b1, %b2 : si32, si32 -> si32
    %same = qd.binary eq %sum, %flag : si32, si32 -> i1
    qd.if %same {
      qd.yield
    }
    qd.yield
  }
}
