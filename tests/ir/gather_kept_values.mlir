// RUN: qd-opt %s --qd-gather-updates --split-input-file | FileCheck %s
// RUN: qd-opt %s --qd-gather-updates=on-grid=true --split-input-file | FileCheck %s --check-prefix=GRID

// A layer: each x[b, j] gets w[i, j] times what depends on all of z[b, i]. The loop over b, i keeps that in memory with the extents of y, and a
// loop behind it adds up over i. Its lanes are along j.
// CHECK-LABEL: qd.kernel @layer
// CHECK-SAME: argument_bytes = 72
// CHECK: %[[KEPT:.*]] = qd.tensor_argument field "kept" at 48 position 0 {qd.extents_of = 24 : i32} : !qd.tensor<f32, [?, ?], [], 4>
// CHECK: qd.for parallel
// CHECK: ^bb0(%[[B:.*]]: si32, %[[I:.*]]: si32):
// CHECK: %[[G:.*]] = qd.unary tanh
// CHECK: %[[TO:.*]] = qd.element %[[KEPT]][%[[B]], %[[I]]]
// CHECK: qd.store %[[G]], %[[TO]]
// CHECK-NOT: qd.atomic
// CHECK: qd.for parallel
// CHECK: ^bb0(%[[OWN:.*]]: si32, %[[J:.*]]: si32):
// CHECK: qd.for (
// CHECK: ^bb0(%[[TERM:.*]]: si32):
// CHECK-DAG: qd.element %[[KEPT]][%[[OWN]], %[[TERM]]]
// CHECK-NOT: qd.unary
// CHECK: qd.atomic add
// GRID-LABEL: qd.kernel @layer
// GRID: %[[KEPT:.*]] = qd.tensor_argument field "kept"
// GRID: qd.for parallel
// GRID: qd.store %{{.*}}, %{{.*}}
// GRID: qd.for parallel
// GRID: qd.for (
// GRID: qd.element %[[KEPT]]
// GRID: qd.atomic add
qd.kernel @layer [] attributes {argument_bytes = 48 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [600, 512], [2048, 4], 4>
  %w = qd.tensor_argument field "w" at 8 position 0 : !qd.tensor<f32, [400, 512], [2048, 4], 4>
  %z = qd.tensor_argument field "z" at 16 position 0 : !qd.tensor<f32, [400], [4], 4>
  %y = qd.tensor_argument "y" at 24 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %zero = qd.constant 0 : si32
  %none = qd.constant 0.0 : f32
  %batch = qd.constant 600 : si32
  %rows = qd.constant 400 : si32
  %columns = qd.constant 512 : si32
  qd.for parallel (%zero, %zero) to (%batch, %rows) : (si32, si32) to (si32, si32) {
  ^body(%b: si32, %i: si32):
    %sum = qd.local : !qd.ref<f32>
    qd.store %none, %sum : !qd.ref<f32>
    %own = qd.element %y[%b, %i] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
    %first = qd.load %own : !qd.ref<f32>
    qd.for (%zero) to (%rows) : (si32) to (si32) {
    ^dot(%k: si32):
      %from = qd.element %z[%k] : !qd.tensor<f32, [400], [4], 4>, si32 -> !qd.ref<f32>
      %part = qd.load %from : !qd.ref<f32>
      %before = qd.load %sum : !qd.ref<f32>
      %product = qd.binary mul %part, %first : f32, f32 -> f32
      %after = qd.binary add %before, %product : f32, f32 -> f32
      qd.store %after, %sum : !qd.ref<f32>
      qd.yield
    }
    %total = qd.load %sum : !qd.ref<f32>
    %g = qd.unary tanh %total : f32 -> f32
    qd.for (%zero) to (%columns) : (si32) to (si32) {
    ^inner(%j: si32):
      %weight = qd.element %w[%i, %j] : !qd.tensor<f32, [400, 512], [2048, 4], 4>, si32, si32 -> !qd.ref<f32>
      %factor = qd.load %weight : !qd.ref<f32>
      %change = qd.binary mul %factor, %g : f32, f32 -> f32
      %to = qd.element %x[%b, %j] : !qd.tensor<f32, [600, 512], [2048, 4], 4>, si32, si32 -> !qd.ref<f32>
      %old = qd.atomic add %to, %change : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// As it was: the second loop would read from a container that the first writes; there is no element of the iteration's own, which limits the
// memory.
// CHECK-LABEL: qd.kernel @kept
// CHECK-SAME: argument_bytes = 24
// CHECK-NOT: qd.extents_of
// CHECK-COUNT-2: qd.for parallel
// CHECK-NOT: qd.for parallel
qd.kernel @kept [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [600, 512], [2048, 4], 4>
  %w = qd.tensor_argument field "w" at 8 position 0 : !qd.tensor<f32, [600, 512], [2048, 4], 4>
  %y = qd.tensor_argument field "y" at 16 position 0 : !qd.tensor<f32, [600, 512], [2048, 4], 4>
  %zero = qd.constant 0 : si32
  %batch = qd.constant 600 : si32
  %rows = qd.constant 512 : si32
  %none = qd.constant 0.0 : f32
  qd.for parallel (%zero, %zero) to (%batch, %rows) : (si32, si32) to (si32, si32) {
  ^body(%b: si32, %i: si32):
    %sum = qd.local : !qd.ref<f32>
    qd.store %none, %sum : !qd.ref<f32>
    %own = qd.element %y[%b, %i] : !qd.tensor<f32, [600, 512], [2048, 4], 4>, si32, si32 -> !qd.ref<f32>
    qd.for (%zero) to (%rows) : (si32) to (si32) {
    ^dot(%k: si32):
      %before = qd.load %sum : !qd.ref<f32>
      %after = qd.unary sin %before : f32 -> f32
      qd.store %after, %sum : !qd.ref<f32>
      qd.yield
    }
    %g = qd.load %sum : !qd.ref<f32>
    qd.for (%zero) to (%rows) : (si32) to (si32) {
    ^inner(%j: si32):
      %weight = qd.element %w[%i, %j] : !qd.tensor<f32, [600, 512], [2048, 4], 4>, si32, si32 -> !qd.ref<f32>
      %factor = qd.load %weight : !qd.ref<f32>
      %change = qd.binary mul %factor, %g : f32, f32 -> f32
      %to = qd.element %x[%b, %j] : !qd.tensor<f32, [600, 512], [2048, 4], 4>, si32, si32 -> !qd.ref<f32>
      %old = qd.atomic add %to, %change : !qd.ref<f32>
      qd.yield
    }
    qd.store %g, %own : !qd.ref<f32>
    %written = qd.element %w[%b, %i] : !qd.tensor<f32, [600, 512], [2048, 4], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %g, %written : !qd.ref<f32>
    qd.yield
  }
  qd.for parallel (%zero, %zero) to (%batch, %rows) : (si32, si32) to (si32, si32) {
  ^body(%b: si32, %i: si32):
    %sum = qd.local : !qd.ref<f32>
    qd.store %none, %sum : !qd.ref<f32>
    qd.for (%zero) to (%rows) : (si32) to (si32) {
    ^dot(%k: si32):
      %before = qd.load %sum : !qd.ref<f32>
      %after = qd.unary sin %before : f32 -> f32
      qd.store %after, %sum : !qd.ref<f32>
      qd.yield
    }
    %g = qd.load %sum : !qd.ref<f32>
    qd.for (%zero) to (%rows) : (si32) to (si32) {
    ^inner(%j: si32):
      %to = qd.element %x[%b, %j] : !qd.tensor<f32, [600, 512], [2048, 4], 4>, si32, si32 -> !qd.ref<f32>
      %old = qd.atomic add %to, %g : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}
