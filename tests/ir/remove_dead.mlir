// RUN: qd-opt %s --split-input-file --test-remove-dead | FileCheck %s

// A variable that is never read is removed, with all computations for it and the loop that fills it.
// CHECK-LABEL: qd.kernel @unread
// CHECK-NOT: qd.local
// CHECK-NOT: qd.for
// CHECK-NOT: qd.load
// CHECK: qd.store %{{.*}} : !qd.ref<f32>
// CHECK-NOT: qd.store
qd.kernel @unread [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  %sum = qd.local : !qd.ref<f32>
  qd.for (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    %old = qd.load %sum : !qd.ref<f32>
    %new = qd.binary add %old, %v : f32, f32 -> f32
    qd.store %new, %sum : !qd.ref<f32>
    qd.yield
  }
  %one = qd.constant 1.0 : f32
  %to = qd.element %x[%zero] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
  qd.store %one, %to : !qd.ref<f32>
}

// -----

// The same with a load after the loop: all of it stays.
// CHECK-LABEL: qd.kernel @read
// CHECK: qd.local
// CHECK: qd.for
// CHECK: qd.binary add
// CHECK: qd.store
// CHECK: qd.store
qd.kernel @read [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  %sum = qd.local : !qd.ref<f32>
  qd.for (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    %old = qd.load %sum : !qd.ref<f32>
    %new = qd.binary add %old, %v : f32, f32 -> f32
    qd.store %new, %sum : !qd.ref<f32>
    qd.yield
  }
  %all = qd.load %sum : !qd.ref<f32>
  %to = qd.element %x[%zero] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
  qd.store %all, %to : !qd.ref<f32>
}

// -----

// A store to one component of a vector is a store to the vector and stays, with the computation of its value.
// CHECK-LABEL: qd.kernel @components
// CHECK: %[[KEPT:.*]] = qd.local : !qd.ref<vector<2xf32>>
// CHECK: qd.component %[[KEPT]]
// CHECK-NOT: qd.local
qd.kernel @components [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1.0 : f32
  %kept = qd.local : !qd.ref<vector<2xf32>>
  %dropped = qd.local : !qd.ref<vector<2xf32>>
  %part = qd.component %kept[%zero] : !qd.ref<vector<2xf32>>, si32 -> !qd.ref<f32>
  %other = qd.component %dropped[%zero] : !qd.ref<vector<2xf32>>, si32 -> !qd.ref<f32>
  qd.store %one, %part : !qd.ref<f32>
  qd.store %one, %other : !qd.ref<f32>
  %v = qd.load %part : !qd.ref<f32>
  %to = qd.element %x[%zero] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
  qd.store %v, %to : !qd.ref<f32>
}

// -----

// Calls without an effect are removed if their results are not used; calls with an effect stay. An unused parameter gets zero, and an unused
// result is returned as zero.
// CHECK-LABEL: qd.kernel @calls
// CHECK-NOT: qd.call @pure
// CHECK: %[[NONE:.*]] = qd.constant -0.0
// CHECK: qd.call @effect(%{{.*}}, %[[NONE]])
qd.kernel @calls [] attributes {argument_bytes = 8 : i32} {
  %three = qd.constant 3 : si32
  %one = qd.constant 1.0 : f32
  %half = qd.unary sqrt %one : f32 -> f32
  %unused = qd.call @pure(%half) : (f32) -> f32
  %unused2 = qd.call @effect(%three, %half) : (si32, f32) -> f32
}
qd.func @pure(%v: f32) -> f32 {
  %w = qd.unary sin %v : f32 -> f32
  qd.return %w : f32
}
// CHECK: qd.func @effect
// CHECK-NOT: qd.unary
// CHECK: qd.atomic add
// CHECK: %[[ZERO:.*]] = qd.constant -0.0
// CHECK: qd.return %[[ZERO]]
qd.func @effect(%i: si32, %v: f32) -> f32 {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [4], [4], 4>
  %to = qd.element %x[%i] : !qd.tensor<si32, [4], [4], 4>, si32 -> !qd.ref<si32>
  %old = qd.atomic add %to, %i : !qd.ref<si32>
  %w = qd.unary cos %v : f32 -> f32
  qd.return %w : f32
}

// -----

// Prints and assertions are effects, also inside an `if`, whose condition is then needed.
// CHECK-LABEL: qd.kernel @messages
// CHECK: qd.binary lt
// CHECK: qd.if
// CHECK: qd.assert
// CHECK-NOT: qd.unary sin
qd.kernel @messages [] attributes {argument_bytes = 8 : i32} {
  %n = qd.argument 0 : si32
  %v = qd.argument 4 : f32
  %three = qd.constant 3 : si32
  %less = qd.binary lt %n, %three : si32, si32 -> i1
  qd.if %less {
    %isSmall = qd.binary lt %n, %n : si32, si32 -> i1
    qd.assert %isSmall, 0 ["too large"]
    %w = qd.unary sin %v : f32 -> f32
    qd.yield
  } else {
    qd.yield
  }
}

// -----

// A live compare_exchange reads the variable: stores to it stay.
// CHECK-LABEL: qd.kernel @exchanged
// CHECK: %[[FIRST:.*]] = qd.constant 7
// CHECK: qd.store %[[FIRST]]
// CHECK: qd.compare_exchange
qd.kernel @exchanged [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %seven = qd.constant 7 : si32
  %variable = qd.local : !qd.ref<si32>
  qd.store %seven, %variable : !qd.ref<si32>
  %old = qd.compare_exchange %variable, %seven, %zero : !qd.ref<si32>, si32
  %to = qd.element %x[%zero] : !qd.tensor<si32, [4], [4], 4>, si32 -> !qd.ref<si32>
  qd.store %old, %to : !qd.ref<si32>
}
