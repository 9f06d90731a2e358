// RUN: qd-opt %s --split-input-file --qd-differentiate-reverse --verify-diagnostics | FileCheck %s

// A gradient may repeat loads of elements that the kernel does not overwrite later. A gradient that replays a call of a tape may read the
// entry values of a container, if it needs none of its later values.

// An error: the gradient needs a value that the same iteration overwrites.
qd.kernel @overwritten [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  qd.for parallel (%zero) to (%eight) : (si32) to (si32) {
  ^bb0(%i: si32):
    %p = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    // expected-error @below {{element of 'x' is read here and overwritten later in the kernel}}
    %v = qd.load %p : !qd.ref<f32>
    %w = qd.unary sin %v : f32 -> f32
    qd.store %w, %p : !qd.ref<f32>
    qd.yield
  }
}

// -----

// The gradient of a sum needs none of the operands: they may be overwritten, and nothing is loaded.
// CHECK-LABEL: qd.kernel @not_needed
// CHECK-NOT: qd.load
// CHECK: qd.atomic exchange
// CHECK: qd.atomic add
qd.kernel @not_needed [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  qd.for parallel (%zero) to (%eight) : (si32) to (si32) {
  ^bb0(%i: si32):
    %p = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %p : !qd.ref<f32>
    %w = qd.binary add %v, %v : f32, f32 -> f32
    qd.store %w, %p : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A constant index shows that the store is to another element.
// CHECK-LABEL: qd.kernel @other_element
// CHECK: %[[V:.*]] = qd.load
// CHECK: qd.atomic exchange
// CHECK: qd.unary cos %[[V]]
qd.kernel @other_element [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  %p = qd.element %x[%zero] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  %q = qd.element %x[%one] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  %v = qd.load %p : !qd.ref<f32>
  %w = qd.unary sin %v : f32 -> f32
  qd.store %w, %q : !qd.ref<f32>
}

// -----

// An index that is known only at run time may be that of the load: the derived kernel compares them and asserts that they differ.
// CHECK-LABEL: qd.kernel @maybe_other_element
// CHECK: qd.binary eq
// CHECK: qd.assert {{.*}}element of 'x' is read here and overwritten later in the kernel{{.*}}qd.always
qd.kernel @maybe_other_element [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %n = qd.argument 28 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  %p = qd.element %x[%zero] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  %q = qd.element %x[%n] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  %v = qd.load %p : !qd.ref<f32>
  %w = qd.unary sin %v : f32 -> f32
  qd.store %w, %q : !qd.ref<f32>
}

// -----

// Only one of two branches runs.
// CHECK-LABEL: qd.kernel @other_branch
// CHECK: qd.if
// CHECK: qd.load
// CHECK: qd.unary cos
qd.kernel @other_branch [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %n = qd.argument 28 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  %p = qd.element %x[%zero] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  %q = qd.element %x[%zero] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  %c = qd.binary lt %n, %one : si32, si32 -> i1
  qd.if %c {
    %v = qd.load %p : !qd.ref<f32>
    %w = qd.unary sin %v : f32 -> f32
    %r = qd.element %x[%one] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %w, %r : !qd.ref<f32>
    qd.yield
  } else {
    %t = qd.constant 2.0 : f32
    qd.store %t, %q : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A later loop overwrites what an earlier one has read.
qd.kernel @later_loop [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %y = qd.tensor_argument field "y" at 16 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  qd.for parallel (%zero) to (%eight) : (si32) to (si32) {
  ^bb0(%i: si32):
    %p = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    // expected-error @below {{element of 'x' is read here and overwritten later in the kernel}}
    %v = qd.load %p : !qd.ref<f32>
    %w = qd.unary sin %v : f32 -> f32
    %q = qd.element %y[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %w, %q : !qd.ref<f32>
    qd.yield
  }
  qd.for parallel (%zero) to (%eight) : (si32) to (si32) {
  ^bb0(%j: si32):
    %p2 = qd.element %x[%j] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %t = qd.constant 2.0 : f32
    qd.store %t, %p2 : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A later loop writes to another container.
// CHECK-LABEL: qd.kernel @later_loop_of_another
// CHECK: qd.for parallel
// CHECK: qd.for parallel
// CHECK: %[[V:.*]] = qd.load
// CHECK: qd.unary cos %[[V]]
qd.kernel @later_loop_of_another [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %y = qd.tensor_argument field "y" at 16 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  qd.for parallel (%zero) to (%eight) : (si32) to (si32) {
  ^bb0(%i: si32):
    %p = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %p : !qd.ref<f32>
    %w = qd.unary sin %v : f32 -> f32
    %q = qd.element %y[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %w, %q : !qd.ref<f32>
    qd.yield
  }
  qd.for parallel (%zero) to (%eight) : (si32) to (si32) {
  ^bb0(%j: si32):
    %p2 = qd.element %y[%j] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %t = qd.constant 2.0 : f32
    qd.store %t, %p2 : !qd.ref<f32>
    qd.yield
  }
}

// -----

// An element whose index depends on the serial loop is not accessed again.
// CHECK-LABEL: qd.kernel @moving
// CHECK: qd.for (
// CHECK: %[[V:.*]] = qd.load
// CHECK: qd.unary cos %[[V]]
qd.kernel @moving [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %y = qd.tensor_argument field "y" at 16 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  qd.for (%zero) to (%eight) : (si32) to (si32) {
  ^bb0(%k: si32):
    %p = qd.element %x[%k] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %p : !qd.ref<f32>
    %w = qd.unary sin %v : f32 -> f32
    %q = qd.element %y[%k] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %w, %q : !qd.ref<f32>
    qd.yield
  }
}

// -----

// The store is in a function that gets its index from the caller.
qd.kernel @through_a_call [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  %p = qd.element %x[%zero] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  // expected-error @below {{element of 'x' is read here and overwritten later in the kernel}}
  %v = qd.load %p : !qd.ref<f32>
  %w = qd.unary sin %v : f32 -> f32
  %r = qd.element %x[%one] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  qd.store %w, %r : !qd.ref<f32>
  qd.call @overwrite(%zero) : (si32) -> ()
}
qd.func @overwrite(%i: si32) {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %t = qd.constant 2.0 : f32
  %p = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  qd.store %t, %p : !qd.ref<f32>
  qd.return
}

// -----

// The same function stores to another element for this caller.
// CHECK-LABEL: qd.kernel @through_a_call_elsewhere
// CHECK: %[[V:.*]] = qd.load
// CHECK: qd.call @overwrite.adjoint
// CHECK: qd.unary cos %[[V]]
qd.kernel @through_a_call_elsewhere [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  %p = qd.element %x[%zero] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  %v = qd.load %p : !qd.ref<f32>
  %w = qd.unary sin %v : f32 -> f32
  %r = qd.element %x[%one] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  qd.store %w, %r : !qd.ref<f32>
  qd.call @overwrite(%one) : (si32) -> ()
}
qd.func @overwrite(%i: si32) {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %t = qd.constant 2.0 : f32
  %p = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  qd.store %t, %p : !qd.ref<f32>
  qd.return
}

// -----

// On a tape the gradient reads the entry values of the container.
// CHECK-LABEL: qd.kernel @replayed
// CHECK-SAME: qd.reads_entry_values = array<i32: 0>
// CHECK: %[[V:.*]] = qd.load
// CHECK: qd.unary cos %[[V]]
qd.kernel @replayed [] attributes {argument_bytes = 32 : i32, qd.derivative = "replay"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  qd.for parallel (%zero) to (%eight) : (si32) to (si32) {
  ^bb0(%i: si32):
    %p = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %p : !qd.ref<f32>
    %w = qd.unary sin %v : f32 -> f32
    qd.store %w, %p : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Elements that the call does not overwrite are read from the container as it is.
// CHECK-LABEL: qd.kernel @replayed_without_need
// CHECK-NOT: qd.reads_entry_values
// CHECK: qd.unary cos
qd.kernel @replayed_without_need [] attributes {argument_bytes = 32 : i32, qd.derivative = "replay"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %y = qd.tensor_argument field "y" at 16 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  qd.for parallel (%zero) to (%eight) : (si32) to (si32) {
  ^bb0(%i: si32):
    %p = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %p : !qd.ref<f32>
    %w = qd.unary sin %v : f32 -> f32
    %q = qd.element %y[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %w, %q : !qd.ref<f32>
    qd.yield
  }
}

// -----

// The second loop reads what the first one has stored, and overwrites it: the value exists neither before nor after the call.
qd.kernel @replayed_both [] attributes {argument_bytes = 32 : i32, qd.derivative = "replay"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  qd.for parallel (%zero) to (%eight) : (si32) to (si32) {
  ^bb0(%i: si32):
    %p = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %p : !qd.ref<f32>
    %w = qd.unary sin %v : f32 -> f32
    qd.store %w, %p : !qd.ref<f32>
    qd.yield
  }
  qd.for parallel (%zero) to (%eight) : (si32) to (si32) {
  ^bb0(%j: si32):
    %p2 = qd.element %x[%j] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    // expected-error @below {{element of 'x' is read here and overwritten later in the kernel}}
    %v2 = qd.load %p2 : !qd.ref<f32>
    %w2 = qd.unary sin %v2 : f32 -> f32
    qd.store %w2, %p2 : !qd.ref<f32>
    qd.yield
  }
}

// -----

// An iteration of a parallel loop reads what another one writes.
qd.kernel @race [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %y = qd.tensor_argument field "y" at 16 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  qd.for parallel (%one) to (%eight) : (si32) to (si32) {
  ^bb0(%i: si32):
    %b = qd.binary sub %i, %one : si32, si32 -> si32
    %p = qd.element %y[%b] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    // expected-error @below {{cross-iteration read-after-write: element of 'y' is read here that another iteration of the parallel loop writes}}
    %v = qd.load %p : !qd.ref<f32>
    %px = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %vx = qd.load %px : !qd.ref<f32>
    %w = qd.binary add %v, %vx : f32, f32 -> f32
    %q = qd.element %y[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %w, %q : !qd.ref<f32>
    qd.yield
  }
}

// -----

// The iterations of a serial loop have an order.
// CHECK-LABEL: qd.kernel @race_of_serial
// CHECK-NOT: parallel
// CHECK: qd.for (
// CHECK: qd.atomic exchange
qd.kernel @race_of_serial [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %y = qd.tensor_argument field "y" at 16 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  qd.for (%one) to (%eight) : (si32) to (si32) {
  ^bb0(%i: si32):
    %b = qd.binary sub %i, %one : si32, si32 -> si32
    %p = qd.element %y[%b] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %p : !qd.ref<f32>
    %px = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %vx = qd.load %px : !qd.ref<f32>
    %w = qd.binary add %v, %vx : f32, f32 -> f32
    %q = qd.element %y[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %w, %q : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A distance that is at least the length of the loop leads to no element of another iteration.
// CHECK-LABEL: qd.kernel @far_race
// CHECK: qd.for parallel
// CHECK: qd.atomic exchange
// CHECK: qd.atomic add
qd.kernel @far_race [] attributes {argument_bytes = 32 : i32, qd.derivative = "reverse"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.shadow = [8 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %y = qd.tensor_argument field "y" at 16 position 0 {qd.shadow = [24 : i32, !qd.tensor<f32, [8], [4], 4>, true]} : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  %four = qd.constant 4 : si32
  qd.for parallel (%zero) to (%four) : (si32) to (si32) {
  ^bb0(%i: si32):
    %b = qd.binary add %i, %four : si32, si32 -> si32
    %p = qd.element %y[%b] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %v = qd.load %p : !qd.ref<f32>
    %q = qd.element %y[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %v, %q : !qd.ref<f32>
    qd.yield
  }
}
