// RUN: qd-opt %s --split-input-file --qd-differentiate-reverse --verify-diagnostics | FileCheck %s

// The gradient of a written element is loaded, zeroed and added to that of the read element; the kernel writes nothing else.
// CHECK-LABEL: qd.kernel @square
// CHECK-DAG: %[[YG:.*]] = qd.tensor_argument field "y.grad" at 24
// CHECK-DAG: %[[XG:.*]] = qd.tensor_argument field "x.grad" at 16
// CHECK: %[[X:.*]] = qd.load %{{.*}} : !qd.ref<f32>
// CHECK: %[[PLACE:.*]] = qd.element %[[YG]]
// CHECK: %[[A:.*]] = qd.atomic exchange %[[PLACE]]
// CHECK: %[[L:.*]] = qd.binary mul %[[X]], %[[A]]
// CHECK: %[[R:.*]] = qd.binary mul %[[X]], %[[A]]
// CHECK: %[[SUM:.*]] = qd.binary add %[[L]], %[[R]]
// CHECK: %[[TO:.*]] = qd.element %[[XG]]
// CHECK: qd.atomic add %[[TO]], %[[SUM]]
// CHECK-NOT: qd.store
qd.kernel @square [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  qd.for parallel (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    %w = qd.binary mul %v, %v : f32, f32 -> f32
    %to = qd.element %y[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %w, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A loop whose adjoint needs none of its values runs only backward, without checkpoints.
// CHECK-LABEL: qd.kernel @linear_loop
// CHECK-NOT: vector<
// CHECK: qd.for (
// CHECK-NOT: qd.for (
qd.kernel @linear_loop [] attributes {argument_bytes = 16 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  qd.for parallel (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %place : !qd.ref<f32>
    %sum = qd.local : !qd.ref<f32>
    qd.store %v, %sum : !qd.ref<f32>
    qd.for (%zero) to (%four) : (si32) to (si32) {
    ^bb0(%k: si32):
      %old = qd.load %sum : !qd.ref<f32>
      %new = qd.binary add %old, %v : f32, f32 -> f32
      qd.store %new, %sum : !qd.ref<f32>
      qd.yield
    }
    %all = qd.load %sum : !qd.ref<f32>
    %unused = qd.atomic add %place, %all : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A loop with few iterations stores a checkpoint of its variable for each of them.
// CHECK-LABEL: qd.kernel @nonlinear_loop
// CHECK: %[[SLOTS:.*]] = qd.local {qd.checkpoints = [[NUMBER:.*]] : i32} : !qd.ref<vector<4xf32>>
// CHECK: %[[SLOT:.*]] = qd.component %[[SLOTS]]
// CHECK: qd.store %{{.*}}, %[[SLOT]]
// CHECK: {qd.checkpoints = array<i32: [[NUMBER]], 4, 1>}
// CHECK: %[[BACK:.*]] = qd.component %[[SLOTS]]
// CHECK: qd.load %[[BACK]]
qd.kernel @nonlinear_loop [] attributes {argument_bytes = 16 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  %other = qd.element %x[%zero] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
  %place = qd.element %x[%four] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
  %v = qd.load %place : !qd.ref<f32>
  %power = qd.local : !qd.ref<f32>
  qd.store %v, %power : !qd.ref<f32>
  qd.for (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%k: si32):
    %old = qd.load %power : !qd.ref<f32>
    %new = qd.binary mul %old, %old : f32, f32 -> f32
    qd.store %new, %power : !qd.ref<f32>
    qd.yield
  }
  %all = qd.load %power : !qd.ref<f32>
  %unused = qd.atomic add %other, %all : !qd.ref<f32>
}

// -----

// Values that an adjoint does not use are not computed: a call passes zeros.
// CHECK-LABEL: qd.kernel @unused_parameter
// CHECK-NOT: qd.load %{{.*}} : !qd.ref<si32>
// CHECK: qd.load
// CHECK: %[[NONE:.*]] = qd.constant 0 : si32
// CHECK: qd.call @add.adjoint(%{{.*}}, %[[NONE]])
qd.kernel @unused_parameter [] attributes {argument_bytes = 40 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %label = qd.tensor_argument field "label" at 16 position 1 : !qd.tensor<si32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %place = qd.element %x[%zero] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
  %mark = qd.element %label[%zero] : !qd.tensor<si32, [4], [4], 4>, si32 -> !qd.ref<si32>
  %v = qd.load %place : !qd.ref<f32>
  %m = qd.load %mark : !qd.ref<si32>
  qd.call @add(%v, %m) : (f32, si32) -> ()
}
qd.func @add(%v: f32, %m: si32) {
  %y = qd.tensor_argument field "y" at 24 position 2 {qd.shadow = [32 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %label = qd.tensor_argument field "label" at 16 position 1 : !qd.tensor<si32, [4], [4], 4>
  %one = qd.constant 1 : si32
  %place = qd.element %y[%one] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
  %mark = qd.element %label[%one] : !qd.tensor<si32, [4], [4], 4>, si32 -> !qd.ref<si32>
  %w = qd.unary sin %v : f32 -> f32
  qd.store %w, %place : !qd.ref<f32>
  qd.store %m, %mark : !qd.ref<si32>
  qd.return
}

// -----

// An element whose overwritten primal the gradient needs is an error.
qd.kernel @in_place [] attributes {argument_bytes = 16 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %place = qd.element %x[%zero] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
  // expected-error @+1 {{element of 'x' is read here and overwritten later in the kernel}}
  %v = qd.load %place : !qd.ref<f32>
  %w = qd.unary sin %v : f32 -> f32
  qd.store %w, %place : !qd.ref<f32>
}

// -----

// A kernel that only adds to one number is fused with its gradient; stores overwrite every element of the gradient.
// CHECK-LABEL: qd.kernel @sum
// CHECK-SAME: qd.replaces = array<i32: 16>
// CHECK: qd.atomic add %{{.*}}, %{{.*}} : !qd.ref<f32>
// CHECK: %[[PLACE:.*]] = qd.element %{{.*}}[%{{.*}}] : !qd.tensor<f32, [4]
// CHECK: qd.store %{{.*}}, %[[PLACE]]
// CHECK-NOT: y.grad
qd.kernel @sum [] attributes {argument_bytes = 32 : i32, qd.derivative = "fused"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [], [], 4>, true]} : !qd.tensor<f32, [], [], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  qd.for parallel (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    %w = qd.binary mul %v, %v : f32, f32 -> f32
    %to = qd.element %y[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
    %unused = qd.atomic add %to, %w : !qd.ref<f32>
    qd.yield
  }
}

// -----

// If the loop does not cover all elements, the additions stay, and the gradient must be zero before.
// CHECK-LABEL: qd.kernel @part_of_a_sum
// CHECK-SAME: qd.replaces = array<i32>
// CHECK: qd.atomic add
// CHECK: qd.atomic add
qd.kernel @part_of_a_sum [] attributes {argument_bytes = 32 : i32, qd.derivative = "fused"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [], [], 4>, true]} : !qd.tensor<f32, [], [], 4>
  %zero = qd.constant 0 : si32
  %three = qd.constant 3 : si32
  qd.for parallel (%zero) to (%three) : (si32) to (si32) {
  ^bb0(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    %to = qd.element %y[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
    %unused = qd.atomic add %to, %v : !qd.ref<f32>
    qd.yield
  }
}

// -----

qd.kernel @other_effect [] attributes {argument_bytes = 32 : i32, qd.derivative = "fused"} {
  %y = qd.tensor_argument field "y" at 8 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [], [], 4>, true]} : !qd.tensor<f32, [], [], 4>
  %to = qd.element %y[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
  %old = qd.load %to : !qd.ref<f32>
  // expected-error @below {{a kernel runs together with its gradient where it only adds to one number}}
  qd.store %old, %to : !qd.ref<f32>
}

// -----

// An element that one iteration writes, reads and overwrites becomes a variable: no element of y is loaded.
// CHECK-LABEL: qd.kernel @overwritten_in_between
// CHECK-DAG: %[[YG:.*]] = qd.tensor_argument field "y.grad" at 24
// CHECK-DAG: %[[X:.*]] = qd.tensor_argument field "x" at 0
// CHECK-NOT: "y" at 8
// CHECK: qd.for parallel
// CHECK: qd.element %[[X]]
// CHECK: qd.element %[[YG]]
// CHECK: qd.atomic exchange
// CHECK-NOT: qd.element %[[YG]]
qd.kernel @overwritten_in_between [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  qd.for parallel (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    %w = qd.unary sin %v : f32 -> f32
    %to = qd.element %y[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %w, %to : !qd.ref<f32>
    %again = qd.load %to : !qd.ref<f32>
    %square = qd.binary mul %again, %again : f32, f32 -> f32
    qd.store %square, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A run-time index selects its element in an array for the row, with a flag for each element that records whether it was written.
// CHECK-LABEL: qd.kernel @overwritten_row
// CHECK: qd.local {{.*}}: !qd.ref<vector<4xf32>>
qd.kernel @overwritten_row [] attributes {argument_bytes = 40 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [4, 4], [16, 4], 4>, true]} : !qd.tensor<f32, [4, 4], [16, 4], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  qd.for parallel (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    qd.for (%zero) to (%four) : (si32) to (si32) {
    ^bb0(%j: si32):
      %first = qd.element %y[%i, %j] : !qd.tensor<f32, [4, 4], [16, 4], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %v, %first : !qd.ref<f32>
      qd.yield
    }
    qd.for (%zero) to (%four) : (si32) to (si32) {
    ^bb0(%k: si32):
      %place = qd.element %y[%i, %k] : !qd.tensor<f32, [4, 4], [16, 4], 4>, si32, si32 -> !qd.ref<f32>
      %old = qd.load %place : !qd.ref<f32>
      %new = qd.binary mul %old, %old : f32, f32 -> f32
      qd.store %new, %place : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// If indices decide whether an iteration overwrites a loaded element, the load's address is recorded and compared with later stores.
// CHECK-LABEL: qd.kernel @checked
// CHECK: qd.load %{{.*}} {qd.guarded = 0 : i64} : !qd.ref<f32>
// CHECK: qd.store %{{.*}}, %[[NOTE:.*]] {qd.guards = 0 : i64}
// CHECK: qd.load %[[NOTE]]
// CHECK: qd.binary eq
// CHECK: qd.assert %{{.*}} ["element of 'x' is read here and overwritten later {{.*}} {qd.always, qd.guards = 0 : i64}
// CHECK-NOT: qd.assert
qd.kernel @checked [] attributes {argument_bytes = 24 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %order = qd.tensor_argument field "order" at 8 position 1 : !qd.tensor<si32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  qd.for parallel (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %place = qd.element %order[%i] : !qd.tensor<si32, [4], [4], 4>, si32 -> !qd.ref<si32>
    %j = qd.load %place : !qd.ref<si32>
    %from = qd.element %x[%j] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    %w = qd.binary mul %v, %v : f32, f32 -> f32
    %to = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %w, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// No check if the derivative does not need the value.
// CHECK-LABEL: qd.kernel @not_checked
// CHECK-NOT: qd.assert
qd.kernel @not_checked [] attributes {argument_bytes = 24 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [16 : i32, !qd.tensor<f32, [4], [4], 4>, true]} : !qd.tensor<f32, [4], [4], 4>
  %order = qd.tensor_argument field "order" at 8 position 1 : !qd.tensor<si32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  qd.for parallel (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %place = qd.element %order[%i] : !qd.tensor<si32, [4], [4], 4>, si32 -> !qd.ref<si32>
    %j = qd.load %place : !qd.ref<si32>
    %from = qd.element %x[%j] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    %w = qd.binary add %v, %v : f32, f32 -> f32
    %to = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %w, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// The adjoint of a sum is the same in all iterations of its loop, which counts up: their order shows nowhere.
// CHECK-LABEL: qd.kernel @dot
// CHECK: qd.for parallel
// CHECK: %[[OWN:.*]] = qd.atomic exchange
// CHECK: qd.store %[[OWN]], %[[ADJOINT:.*]] :
// CHECK: qd.for
// CHECK: ^bb0(%[[K:.*]]: si32):
// CHECK-NOT: qd.binary sub
// CHECK-NOT: qd.store
// CHECK: qd.element %{{.*}}[%[[K]]]
// CHECK: qd.load %[[ADJOINT]]
// CHECK-NOT: qd.store
// CHECK: qd.atomic add
qd.kernel @dot [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [100], [4], 4>, true]} : !qd.tensor<f32, [100], [4], 4>
  %y = qd.tensor_argument field "y" at 16 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [50], [4], 4>, true]} : !qd.tensor<f32, [50], [4], 4>
  %zero = qd.constant 0 : si32
  %rows = qd.constant 50 : si32
  %columns = qd.constant 100 : si32
  qd.for parallel (%zero) to (%rows) : (si32) to (si32) {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<f32>
    %none = qd.constant 0.0 : f32
    qd.store %none, %sum : !qd.ref<f32>
    qd.for (%zero) to (%columns) : (si32) to (si32) {
    ^inner(%k: si32):
      %from = qd.element %x[%k] : !qd.tensor<f32, [100], [4], 4>, si32 -> !qd.ref<f32>
      %value = qd.load %from : !qd.ref<f32>
      %square = qd.binary mul %value, %value : f32, f32 -> f32
      %old = qd.load %sum : !qd.ref<f32>
      %new = qd.binary add %old, %square : f32, f32 -> f32
      qd.store %new, %sum : !qd.ref<f32>
      qd.yield
    }
    %all = qd.load %sum : !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [50], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %all, %to : !qd.ref<f32>
    qd.yield
  }
}
