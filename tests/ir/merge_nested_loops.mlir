// RUN: qd-opt %s --qd-merge-nested-loops --split-input-file | FileCheck %s
// RUN: qd-opt %s --qd-merge-nested-loops --qd-demote-atomics --qd-distribute-rows --split-input-file | FileCheck %s --check-prefix=ROWS

// A thread for each iteration of both loops, also where the inner index is not the last one of an element.
// CHECK-LABEL: qd.kernel @merged
// CHECK-SAME: qd.unaliased = array<i32: 0>
// CHECK: qd.for parallel (%{{.*}}, %{{.*}}) to (%{{.*}}, %{{.*}})
// CHECK-NOT: qd.for
qd.kernel @merged [] attributes {argument_bytes = 56 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?, ?], [], 4>
  %other = qd.tensor_argument "other" at 40 position 1 : !qd.tensor<f32, [?], [], 4>
  %n = qd.argument 32 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.element %x[%i, %j, %zero] : !qd.tensor<f32, [?, ?, ?], [], 4>, si32, si32, si32 -> !qd.ref<f32>
      qd.store %one, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// The merged loop may have more iterations than the outer one can have.
// CHECK-LABEL: qd.kernel @bounded
// CHECK: qd.for parallel
// CHECK-NOT: qd.most_iterations
qd.kernel @bounded [] attributes {argument_bytes = 28 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 24 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) attributes {qd.most_iterations = 1048576 : i64} {
  ^body(%i: si32):
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %one, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// Not merged: threads along the outer loop reach neighbors, the loop has a number of threads, much stands before the inner loop (which is
// along a row).
// CHECK-LABEL: qd.kernel @apart
// CHECK-NOT: to (%{{.*}}, %{{.*}})
qd.kernel @apart [] attributes {argument_bytes = 40 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 32 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.element %x[%j, %i] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %one, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) attributes {block_dim = 64 : i32} {
  ^body(%i: si32):
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %one, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %a = qd.cast %i : si32 -> f32
    %b = qd.unary sqrt %a : f32 -> f32
    %c = qd.unary sin %b : f32 -> f32
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %c, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// Sums of rows: the threads of a subgroup add up parts of a row, combine them, and the first one writes. Short rows have a thread each.
// CHECK-LABEL: qd.kernel @sums
// CHECK: qd.for parallel {{.*}} attributes {qd.rows}
// CHECK: qd.for {{.*}} attributes {qd.rows}
// ROWS-LABEL: qd.kernel @sums
// ROWS: qd.binary mul
// ROWS: %[[END:.*]] = qd.binary mul
// ROWS: qd.for parallel (%{{.*}}) to (%[[END]]) : (si64)
// ROWS: qd.if
// ROWS: %[[ROUND:.*]] = qd.binary raw_div
// ROWS: %[[THREAD:.*]] = qd.cast
// ROWS: %[[IS_FIRST:.*]] = qd.binary eq %[[THREAD]]
// ROWS: qd.select %[[IS_FIRST]]
// ROWS: qd.barrier group
// ROWS: qd.for
// ROWS: qd.barrier group
// ROWS-COUNT-6: qd.shuffle
// ROWS: qd.barrier group
// ROWS: qd.if %[[IS_FIRST]]
// ROWS: qd.store
// ROWS: qd.barrier group
// ROWS: else
// ROWS-NOT: qd.shuffle
qd.kernel @sums [] attributes {argument_bytes = 72 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?], [], 4>
  %n = qd.argument 64 : si32
  %zero = qd.constant 0 : si32
  %none = qd.constant 0.0 : f32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<f32>
    qd.store %none, %sum : !qd.ref<f32>
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %from = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      %value = qd.load %from : !qd.ref<f32>
      %before = qd.load %sum : !qd.ref<f32>
      %after = qd.binary add %before, %value : f32, f32 -> f32
      qd.store %after, %sum : !qd.ref<f32>
      qd.yield
    }
    %all = qd.load %sum : !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    qd.store %all, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Rows add to elements that the iterations share: each thread of a subgroup to those that it reaches. Between the rows, the first thread
// takes a value that it changes, and the others get it.
// ROWS-LABEL: qd.kernel @shared_columns
// ROWS: qd.shuffle
// ROWS: qd.barrier group
// ROWS-NEXT: %[[OLD:.*]] = qd.local
// ROWS-NEXT: qd.if
// ROWS-NEXT: %[[TAKEN:.*]] = qd.atomic exchange
// ROWS-NEXT: qd.store %[[TAKEN]], %[[OLD]]
// ROWS: %[[LOADED:.*]] = qd.load %[[OLD]]
// ROWS: %[[ALL:.*]] = qd.shuffle %[[LOADED]]
// ROWS: qd.for
// ROWS: qd.binary mul %{{.*}}, %[[ALL]]
// ROWS: qd.atomic add
qd.kernel @shared_columns [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [100, 64], [256, 4], 4>
  %columns = qd.tensor_argument field "columns" at 8 position 1 : !qd.tensor<si32, [64], [4], 4>
  %taken = qd.tensor_argument field "taken" at 16 position 2 : !qd.tensor<si32, [200], [4], 4>
  %zero = qd.constant 0 : si32
  %n = qd.constant 100 : si32
  %m = qd.constant 64 : si32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<si32>
    qd.store %zero, %sum : !qd.ref<si32>
    qd.for (%zero) to (%m) : (si32) to (si32) {
    ^body(%j: si32):
      %place = qd.element %x[%i, %j] : !qd.tensor<si32, [100, 64], [256, 4], 4>, si32, si32 -> !qd.ref<si32>
      %value = qd.load %place : !qd.ref<si32>
      %before = qd.load %sum : !qd.ref<si32>
      %after = qd.binary add %before, %value : si32, si32 -> si32
      qd.store %after, %sum : !qd.ref<si32>
      qd.yield
    }
    %whole = qd.load %sum : !qd.ref<si32>
    %own = qd.element %taken[%i] : !qd.tensor<si32, [200], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.atomic exchange %own, %whole : !qd.ref<si32>
    %next = qd.binary add %i, %n : si32, si32 -> si32
    %other = qd.element %taken[%next] : !qd.tensor<si32, [200], [4], 4>, si32 -> !qd.ref<si32>
    %unused = qd.load %other : !qd.ref<si32>
    qd.for (%zero) to (%m) : (si32) to (si32) {
    ^body(%j: si32):
      %place = qd.element %x[%i, %j] : !qd.tensor<si32, [100, 64], [256, 4], 4>, si32, si32 -> !qd.ref<si32>
      %value = qd.load %place : !qd.ref<si32>
      %product = qd.binary mul %value, %old : si32, si32 -> si32
      %column = qd.element %columns[%j] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
      %was = qd.atomic add %column, %product : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}
