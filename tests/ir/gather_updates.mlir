// RUN: qd-opt %s --qd-gather-updates --split-input-file | FileCheck %s

// All iterations of `i` add to x[j]: they become a sum in a loop over j. What the loop stores besides stays in it.
// CHECK-LABEL: qd.kernel @columns
// CHECK: qd.for parallel (%{{.*}}) to (%[[COLUMNS:.*]]) :
// CHECK: ^bb0(%[[J:.*]]: si32):
// CHECK: %[[SUM:.*]] = qd.local : !qd.ref<si32>
// CHECK: qd.for
// CHECK: qd.binary mul
// CHECK-NOT: qd.atomic
// CHECK: qd.store %{{.*}}, %[[SUM]]
// CHECK: qd.element %{{.*}}[%[[J]]]
// CHECK: qd.atomic add
// CHECK: qd.for parallel
// CHECK-NOT: qd.for
// CHECK: qd.store
// CHECK-NOT: qd.atomic
qd.kernel @columns [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [512], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<si32, [100], [4], 4>
  %z = qd.tensor_argument field "z" at 16 position 0 : !qd.tensor<si32, [100], [4], 4>
  %zero = qd.constant 0 : si32
  %rows = qd.constant 100 : si32
  %columns = qd.constant 512 : si32
  qd.for parallel (%zero) to (%rows) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %y[%i] : !qd.tensor<si32, [100], [4], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %from : !qd.ref<si32>
    %own = qd.element %z[%i] : !qd.tensor<si32, [100], [4], 4>, si32 -> !qd.ref<si32>
    qd.store %value, %own : !qd.ref<si32>
    qd.for (%zero) to (%columns) : (si32) to (si32) {
    ^inner(%j: si32):
      %product = qd.binary mul %value, %j : si32, si32 -> si32
      %to = qd.element %x[%j] : !qd.tensor<si32, [512], [4], 4>, si32 -> !qd.ref<si32>
      %old = qd.atomic add %to, %product : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// An update under a condition: the element is touched only if one of them ran. Arrays are assumed unaliased.
// CHECK-LABEL: qd.kernel @guarded
// CHECK-SAME: qd.unaliased = array<i32: 0>
// CHECK: qd.for parallel
// CHECK: %[[TOUCHED:.*]] = qd.local : !qd.ref<si32>
// CHECK: qd.for
// CHECK: qd.if
// CHECK: qd.binary bit_or
// CHECK: %[[ANY:.*]] = qd.binary ne
// CHECK: qd.if %[[ANY]]
// CHECK: qd.atomic add
// CHECK-NOT: qd.for
qd.kernel @guarded [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
  %other = qd.tensor_argument "other" at 16 position 1 : !qd.tensor<f32, [?], [], 4>
  %one = qd.constant 1.0 : f32
  %zero = qd.constant 0 : si32
  %rows = qd.constant 100 : si32
  %columns = qd.constant 512 : si32
  qd.for parallel (%zero, %zero) to (%rows, %columns) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %isBelow = qd.binary lt %i, %j : si32, si32 -> i1
    qd.if %isBelow {
      %to = qd.element %x[%j] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
      %old = qd.atomic add %to, %one : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// As they were: eight sums are too few; a sum that the order of memory serves better; an update whose old value is used.
// CHECK-LABEL: qd.kernel @kept
// CHECK-COUNT-3: qd.for parallel (%{{.*}}, %{{.*}}) to
// CHECK-NOT: qd.for
qd.kernel @kept [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [512], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<si32, [100, 512], [2048, 4], 4>
  %zero = qd.constant 0 : si32
  %rows = qd.constant 100 : si32
  %few = qd.constant 8 : si32
  %columns = qd.constant 512 : si32
  qd.for parallel (%zero, %zero) to (%rows, %few) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %to = qd.element %x[%j] : !qd.tensor<si32, [512], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.atomic add %to, %i : !qd.ref<si32>
    qd.yield
  }
  qd.for parallel (%zero, %zero) to (%rows, %columns) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %from = qd.element %y[%i, %j] : !qd.tensor<si32, [100, 512], [2048, 4], 4>, si32, si32 -> !qd.ref<si32>
    %value = qd.load %from : !qd.ref<si32>
    %to = qd.element %x[%j] : !qd.tensor<si32, [512], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.atomic add %to, %value : !qd.ref<si32>
    qd.yield
  }
  qd.for parallel (%zero, %zero) to (%rows, %columns) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %to = qd.element %x[%j] : !qd.tensor<si32, [512], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.atomic add %to, %i : !qd.ref<si32>
    %own = qd.element %y[%i, %j] : !qd.tensor<si32, [100, 512], [2048, 4], 4>, si32, si32 -> !qd.ref<si32>
    qd.store %old, %own : !qd.ref<si32>
    qd.yield
  }
}

// -----

// What a serial loop adds to an element of the iteration is summed up in a variable.
// CHECK-LABEL: qd.kernel @own
// CHECK: qd.for parallel
// CHECK: %[[SUM:.*]] = qd.local : !qd.ref<si32>
// CHECK: qd.for
// CHECK-NOT: qd.atomic
// CHECK: qd.store %{{.*}}, %[[SUM]]
// CHECK: qd.atomic add
qd.kernel @own [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [512], [4], 4>
  %zero = qd.constant 0 : si32
  %few = qd.constant 8 : si32
  %columns = qd.constant 512 : si32
  qd.for parallel (%zero) to (%columns) : (si32) to (si32) {
  ^body(%i: si32):
    %to = qd.element %x[%i] : !qd.tensor<si32, [512], [4], 4>, si32 -> !qd.ref<si32>
    qd.for (%zero) to (%few) : (si32) to (si32) {
    ^inner(%j: si32):
      %old = qd.atomic add %to, %j : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}
