// RUN: qd-opt %s --split-input-file --qd-differentiate-forward --verify-diagnostics | FileCheck %s

// Tangents are computed after values; a function takes and returns the tangents of active parameters and results.
// CHECK-LABEL: qd.kernel @apply
// CHECK-DAG: qd.tensor_argument field "y.dual" at 24
// CHECK-DAG: qd.tensor_argument field "x.dual" at 16
// CHECK: %[[V:.*]] = qd.load
// CHECK: %[[D:.*]] = qd.load
// CHECK: %[[C:.*]]:2 = qd.call @square(%[[V]], %[[D]]) : (f32, f32) -> (f32, f32)
// CHECK: qd.store %[[C]]#0
// CHECK: qd.store %[[C]]#1
qd.kernel @apply [] attributes {argument_bytes = 32 : i32, qd.derivative = "forward"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [], [], 4>, true]} : !qd.tensor<f32, [], [], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [], [], 4>, true]} : !qd.tensor<f32, [], [], 4>
  %from = qd.element %x[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
  %v = qd.load %from : !qd.ref<f32>
  %w = qd.call @square(%v) : (f32) -> f32
  %to = qd.element %y[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
  qd.store %w, %to : !qd.ref<f32>
}

// CHECK-LABEL: qd.func @square(%arg0: f32, %arg1: f32) -> (f32, f32)
// CHECK: qd.return %{{.*}}, %{{.*}} : f32, f32
qd.func @square(%x: f32) -> f32 {
  %y = qd.binary mul %x, %x : f32, f32 -> f32
  qd.return %y : f32
}

// -----

// The chain rule, factor by factor: cos(x) dx, then times 2. If a factor is zero the tangent is zero, even for an infinite change.
// CHECK-LABEL: qd.kernel @operators
// CHECK: %[[TWO:.*]] = qd.constant 2.0
// CHECK: %[[V:.*]] = qd.load
// CHECK: %[[D:.*]] = qd.load
// CHECK: %[[COS:.*]] = qd.unary cos %[[V]]
// CHECK: %[[PART:.*]] = qd.binary mul %[[COS]], %[[D]]
// CHECK: %[[IS_ZERO:.*]] = qd.binary eq %[[COS]]
// CHECK: %[[INNER:.*]] = qd.select %[[IS_ZERO]], %{{.*}}, %[[PART]]
// CHECK: %[[OUTER:.*]] = qd.binary mul %[[TWO]], %[[INNER]]
// CHECK: %[[TANGENT:.*]] = qd.select %{{.*}}, %{{.*}}, %[[OUTER]]
// CHECK: qd.store
// CHECK: qd.store %[[TANGENT]]
qd.kernel @operators [] attributes {argument_bytes = 32 : i32, qd.derivative = "forward"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [2], [4], 4>, true]} : !qd.tensor<f32, [2], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [], [], 4>, true]} : !qd.tensor<f32, [], [], 4>
  %zero = qd.constant 0 : si32
  %two = qd.constant 2.0 : f32
  %from = qd.element %x[%zero] : !qd.tensor<f32, [2], [4], 4>, si32 -> !qd.ref<f32>
  %v = qd.load %from : !qd.ref<f32>
  %s = qd.unary sin %v : f32 -> f32
  %p = qd.binary mul %s, %two : f32, f32 -> f32
  %to = qd.element %y[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
  qd.store %p, %to : !qd.ref<f32>
}

// -----

// Integers and containers without tangents have none: their stores get no second store.
// CHECK-LABEL: qd.kernel @without_tangents
// CHECK-COUNT-1: .dual"
// CHECK-NOT: .dual"
// CHECK: qd.cast
// CHECK-NEXT: qd.element
// CHECK-NEXT: qd.store
// CHECK: qd.store
// CHECK-NOT: qd.store
qd.kernel @without_tangents [] attributes {argument_bytes = 32 : i32, qd.derivative = "forward"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [2], [4], 4>, true]} : !qd.tensor<f32, [2], [4], 4>
  %n = qd.tensor_argument field "n" at 8 position 0 : !qd.tensor<si32, [2], [4], 4>
  %z = qd.tensor_argument field "z" at 24 position 0 : !qd.tensor<f32, [2], [4], 4>
  %zero = qd.constant 0 : si32
  %place = qd.element %x[%zero] : !qd.tensor<f32, [2], [4], 4>, si32 -> !qd.ref<f32>
  %v = qd.load %place : !qd.ref<f32>
  %whole = qd.cast %v : f32 -> si32
  %count = qd.element %n[%zero] : !qd.tensor<si32, [2], [4], 4>, si32 -> !qd.ref<si32>
  qd.store %whole, %count : !qd.ref<si32>
  %square = qd.binary mul %v, %v : f32, f32 -> f32
  %other = qd.element %z[%zero] : !qd.tensor<f32, [2], [4], 4>, si32 -> !qd.ref<f32>
  qd.store %square, %other : !qd.ref<f32>
}

// -----

// A constant overwrites the tangent with zero.
// CHECK-LABEL: qd.kernel @constant_store
// CHECK: %[[DUAL:.*]] = qd.tensor_argument field "x.dual"
// CHECK: %[[PLACE:.*]] = qd.element %[[DUAL]]
// CHECK: %[[ZERO:.*]] = qd.constant -0.0
// CHECK: qd.store %[[ZERO]], %[[PLACE]]
qd.kernel @constant_store [] attributes {argument_bytes = 16 : i32, qd.derivative = "forward"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [2], [4], 4>, true]} : !qd.tensor<f32, [2], [4], 4>
  %zero = qd.constant 0 : si32
  %three = qd.constant 3.0 : f32
  %place = qd.element %x[%zero] : !qd.tensor<f32, [2], [4], 4>, si32 -> !qd.ref<f32>
  qd.store %three, %place : !qd.ref<f32>
}

// -----

// A variable gets a second variable for its tangent, initialized to zero and carried by the loop. The loops stay as they are.
// CHECK-LABEL: qd.kernel @variable
// CHECK: qd.for parallel
// CHECK: %[[V:.*]] = qd.load
// CHECK: %[[D:.*]] = qd.load
// CHECK: %[[POWER:.*]] = qd.local
// CHECK: %[[TANGENT:.*]] = qd.local
// CHECK: qd.store %{{.*}}, %[[TANGENT]]
// CHECK: qd.store %[[V]], %[[POWER]]
// CHECK: qd.store %[[D]], %[[TANGENT]]
// CHECK: qd.for (
// CHECK: %[[OLD:.*]] = qd.load %[[POWER]]
// CHECK: %[[CHANGE:.*]] = qd.load %[[TANGENT]]
// CHECK: %[[NEW:.*]] = qd.binary mul %[[OLD]], %[[V]]
// CHECK: qd.binary mul %[[V]], %[[CHANGE]]
// CHECK: qd.binary mul %[[OLD]], %[[D]]
// CHECK: %[[SUM:.*]] = qd.binary add
// CHECK: qd.store %[[NEW]], %[[POWER]]
// CHECK: qd.store %[[SUM]], %[[TANGENT]]
qd.kernel @variable [] attributes {argument_bytes = 16 : i32, qd.derivative = "forward"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  qd.for parallel (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %place : !qd.ref<f32>
    %power = qd.local : !qd.ref<f32>
    qd.store %v, %power : !qd.ref<f32>
    qd.for (%zero) to (%four) : (si32) to (si32) {
    ^bb0(%k: si32):
      %old = qd.load %power : !qd.ref<f32>
      %new = qd.binary mul %old, %v : f32, f32 -> f32
      qd.store %new, %power : !qd.ref<f32>
      qd.yield
    }
    %all = qd.load %power : !qd.ref<f32>
    qd.store %all, %place : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Atomic additions are linear: the tangent is added atomically, too, and the loop stays parallel.
// CHECK-LABEL: qd.kernel @sum
// CHECK: qd.for parallel
// CHECK: %[[PLACE:.*]] = qd.element %{{.*}}[] : !qd.tensor<f32, [], [], 4>
// CHECK: %[[DUAL:.*]] = qd.element %{{.*}}[] : !qd.tensor<f32, [], [], 4>
// CHECK: qd.atomic add %[[PLACE]]
// CHECK: qd.atomic add %[[DUAL]]
qd.kernel @sum [] attributes {argument_bytes = 32 : i32, qd.derivative = "forward"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [], [], 4>, true]} : !qd.tensor<f32, [], [], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  qd.for parallel (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    %to = qd.element %y[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
    %unused = qd.atomic add %to, %v : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A maximum and its tangent must change together: the loop becomes serial.
// CHECK-LABEL: qd.kernel @largest
// CHECK-NOT: parallel
// CHECK: qd.for (
// CHECK: %[[OLD:.*]] = qd.atomic max
// CHECK: %[[BEFORE:.*]] = qd.load
// CHECK: qd.binary ge %[[OLD]]
// CHECK: qd.select %{{.*}}, %[[BEFORE]]
// CHECK: qd.store
qd.kernel @largest [] attributes {argument_bytes = 32 : i32, qd.derivative = "forward"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [], [], 4>, true]} : !qd.tensor<f32, [], [], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  qd.for parallel (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    %to = qd.element %y[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
    %unused = qd.atomic max %to, %v : !qd.ref<f32>
    qd.yield
  }
}

// -----

// The tangent of a selected value is selected by the same condition.
// CHECK-LABEL: qd.kernel @choice
// CHECK: %[[V:.*]] = qd.load
// CHECK: %[[D:.*]] = qd.load
// CHECK: %[[LESS:.*]] = qd.binary lt
// CHECK: qd.select %[[LESS]], %[[V]]
// CHECK: qd.select %[[LESS]], %[[D]], %{{.*}}
qd.kernel @choice [] attributes {argument_bytes = 16 : i32, qd.derivative = "forward"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [2], [4], 4>, true]} : !qd.tensor<f32, [2], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1.0 : f32
  %place = qd.element %x[%zero] : !qd.tensor<f32, [2], [4], 4>, si32 -> !qd.ref<f32>
  %v = qd.load %place : !qd.ref<f32>
  %less = qd.binary lt %v, %one : f32, f32 -> i1
  %chosen = qd.select %less, %v, %one : i1, f32
  qd.store %chosen, %place : !qd.ref<f32>
}

// -----

qd.kernel @compare_exchange [] attributes {argument_bytes = 16 : i32, qd.derivative = "forward"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [2], [4], 4>, true]} : !qd.tensor<f32, [2], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1.0 : f32
  %place = qd.element %x[%zero] : !qd.tensor<f32, [2], [4], 4>, si32 -> !qd.ref<f32>
  // expected-error @below {{an atomic compare_exchange of something that has a tangent cannot be differentiated}}
  %unused = qd.compare_exchange %place, %one, %one : !qd.ref<f32>, f32
}

// -----

// Parameters that are not floats get no tangent; a function with only such parameters stays as it is.
// CHECK-LABEL: qd.kernel @call
// CHECK: qd.call @scale(%{{.*}}, %{{.*}}, %{{.*}}) : (si32, f32, f32) -> (f32, f32)
// CHECK: qd.call @plain(%{{.*}}) : (si32) -> si32
// CHECK: qd.func @scale(%{{.*}}: si32, %{{.*}}: f32, %{{.*}}: f32) -> (f32, f32)
// CHECK: qd.func @plain(%{{.*}}: si32) -> si32
qd.kernel @call [] attributes {argument_bytes = 32 : i32, qd.derivative = "forward"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [], [], 4>, true]} : !qd.tensor<f32, [], [], 4>
  %three = qd.constant 3 : si32
  %place = qd.element %x[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
  %v = qd.load %place : !qd.ref<f32>
  %w = qd.call @scale(%three, %v) : (si32, f32) -> f32
  %n = qd.call @plain(%three) : (si32) -> si32
  qd.store %w, %place : !qd.ref<f32>
}
qd.func @scale(%n: si32, %v: f32) -> f32 {
  %f = qd.cast %n : si32 -> f32
  %y = qd.binary mul %f, %v : f32, f32 -> f32
  qd.return %y : f32
}
qd.func @plain(%n: si32) -> si32 {
  qd.return %n : si32
}

// -----

// A kernel without a mode stays as it is.
// CHECK-LABEL: qd.kernel @unmarked
// CHECK-NOT: .dual
// CHECK: qd.store
// CHECK-NOT: qd.store
qd.kernel @unmarked [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [2], [4], 4>, true]} : !qd.tensor<f32, [2], [4], 4>
  %zero = qd.constant 0 : si32
  %three = qd.constant 3.0 : f32
  %place = qd.element %x[%zero] : !qd.tensor<f32, [2], [4], 4>, si32 -> !qd.ref<f32>
  qd.store %three, %place : !qd.ref<f32>
}
