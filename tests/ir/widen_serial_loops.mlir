// RUN: qd-opt %s --qd-widen-serial-loops --split-input-file | FileCheck %s

// No two iterations write the same element. The kernel lists the assumptions: unaliased arrays, with many elements.
// CHECK-LABEL: qd.kernel @own
// CHECK-SAME: qd.extents = array<i32: 0, 0, 1>
// CHECK-SAME: qd.unaliased = array<i32: 0>
// CHECK: qd.for parallel {{.*}} attributes {max_threads = 1 : i32, name = "fill"}
qd.kernel @own [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 {qd.many_axes = 1 : i32} : !qd.tensor<f32, [?], [], 4>
  %y = qd.tensor_argument "y" at 16 position 1 {qd.many_axes = 1 : i32} : !qd.tensor<f32, [?], [], 4>
  %zero = qd.constant 0 : si32
  %end = qd.extent %x 0 : !qd.tensor<f32, [?], [], 4> -> si32
  qd.for (%zero) to (%end) : (si32) to (si32) attributes {name = "fill"} {
  ^body(%i: si32):
    %copy = qd.local : !qd.ref<si32>
    qd.store %i, %copy : !qd.ref<si32>
    %j = qd.load %copy : !qd.ref<si32>
    %from = qd.element %y[%zero] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %to = qd.element %x[%j] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    qd.store %value, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// The array is short at this launch: another version is compiled when a long one comes.
// CHECK-LABEL: qd.kernel @short
// CHECK-NOT: qd.unaliased
// CHECK-SAME: qd.extents = array<i32: 0, 0, 0>
// CHECK-NOT: qd.for parallel
qd.kernel @short [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 {qd.many_axes = 0 : i32} : !qd.tensor<si32, [?], [], 4>
  %zero = qd.constant 0 : si32
  %end = qd.extent %x 0 : !qd.tensor<si32, [?], [], 4> -> si32
  qd.for (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %to = qd.element %x[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    qd.store %i, %to : !qd.ref<si32>
    qd.yield
  }
}

// -----

// Two arguments share memory at this launch: the loop stays serial.
// CHECK-LABEL: qd.kernel @shared
// CHECK-NOT: qd.for parallel
qd.kernel @shared [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 {qd.many_axes = 1 : i32, qd.shares} : !qd.tensor<si32, [?], [], 4>
  %zero = qd.constant 0 : si32
  %end = qd.extent %x 0 : !qd.tensor<si32, [?], [], 4> -> si32
  qd.for (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %to = qd.element %x[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    qd.store %i, %to : !qd.ref<si32>
    qd.yield
  }
}

// -----

// Loops that stay serial: an iteration reads what the last one wrote, a carried variable, one element for all iterations, an early exit.
// CHECK-LABEL: qd.kernel @in_order
// CHECK-NOT: qd.for parallel
qd.kernel @in_order [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %sum = qd.local : !qd.ref<si32>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %end = qd.constant 60 : si32
  qd.for (%one) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %before = qd.binary sub %i, %one : si32, si32 -> si32
    %from = qd.element %x[%before] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %to = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %from : !qd.ref<si32>
    qd.store %value, %to : !qd.ref<si32>
    qd.yield
  }
  qd.for (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    qd.store %i, %sum : !qd.ref<si32>
    qd.yield
  }
  qd.for (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %to = qd.element %x[%one] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.atomic add %to, %i : !qd.ref<si32>
    qd.yield
  }
  qd.for (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %to = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    qd.store %i, %to : !qd.ref<si32>
    %stop = qd.constant true
    qd.if %stop {
      qd.break
    }
    qd.yield
  }
}

// -----

// One independent axis of two is enough: it becomes the outer loop.
// CHECK-LABEL: qd.kernel @columns
// CHECK-DAG: %[[ROWS:.*]] = qd.constant 3 : si32
// CHECK-DAG: %[[COLUMNS:.*]] = qd.constant 40 : si32
// CHECK: qd.for parallel (%{{.*}}) to (%[[COLUMNS]])
// CHECK-NEXT: ^bb0(%[[J:.*]]: si32):
// CHECK: qd.for (%{{.*}}) to (%[[ROWS]])
// CHECK-NEXT: ^bb0(%[[I:.*]]: si32):
// CHECK: qd.element %{{.*}}[%[[J]]]
// CHECK: qd.store %[[I]]
qd.kernel @columns [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [40], [4], 4>
  %zero = qd.constant 0 : si32
  %rows = qd.constant 3 : si32
  %columns = qd.constant 40 : si32
  qd.for (%zero, %zero) to (%rows, %columns) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %to = qd.element %x[%j] : !qd.tensor<si32, [40], [4], 4>, si32 -> !qd.ref<si32>
    qd.store %i, %to : !qd.ref<si32>
    qd.yield
  }
}

// -----

// Loops in a qd.repeat are handled like those of the kernel.
// CHECK-LABEL: qd.kernel @rounds
// CHECK: qd.repeat
// CHECK: qd.for parallel
qd.kernel @rounds [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [40], [4], 4>
  %again = qd.local : !qd.ref<i1>
  %zero = qd.constant 0 : si32
  %end = qd.constant 40 : si32
  qd.repeat while %again {
    qd.for (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %to = qd.element %x[%i] : !qd.tensor<si32, [40], [4], 4>, si32 -> !qd.ref<si32>
      qd.store %i, %to : !qd.ref<si32>
      qd.yield
    }
  } : !qd.ref<i1>
}

// -----

// Functions are analyzed with the arguments of their calls.
// CHECK-LABEL: qd.kernel @calls
// CHECK: qd.for parallel
// CHECK-NOT: qd.for parallel
qd.kernel @calls [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    qd.call @put(%i, %x) : (si32, !qd.tensor<si32, [64], [4], 4>) -> ()
    qd.yield
  }
  qd.for (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    qd.call @put(%zero, %x) : (si32, !qd.tensor<si32, [64], [4], 4>) -> ()
    qd.yield
  }
}
qd.func @put(%i: si32, %x: !qd.tensor<si32, [64], [4], 4>) {
  %to = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
  qd.store %i, %to : !qd.ref<si32>
  qd.return
}

// -----

// The only array shares memory with no other one. With strides two of its indices may mean one element, so launches check those.
// CHECK-LABEL: qd.kernel @alone
// CHECK-SAME: qd.unaliased = array<i32: 0>
// CHECK: qd.for parallel
qd.kernel @alone [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 {qd.many_axes = 1 : i32} : !qd.tensor<si32, [?], [?], 4>
  %zero = qd.constant 0 : si32
  %end = qd.extent %x 0 : !qd.tensor<si32, [?], [?], 4> -> si32
  qd.for (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %to = qd.element %x[%i] : !qd.tensor<si32, [?], [?], 4>, si32 -> !qd.ref<si32>
    qd.store %i, %to : !qd.ref<si32>
    qd.yield
  }
}

// -----

// Loops under an `if` that contains nothing else become parallel; if the condition is false they have no iterations.
// CHECK-LABEL: qd.kernel @under_an_if
// CHECK-NOT: qd.unaliased
// CHECK: %[[POSITIVE:.*]] = qd.binary gt
// CHECK-NOT: qd.if
// CHECK: %[[UPPER:.*]] = qd.select %[[POSITIVE]]
// CHECK: qd.for parallel ({{.*}}) to (%[[UPPER]]) : (si32) to (si32) {
// CHECK: %[[OTHER:.*]] = qd.unary logical_not %[[POSITIVE]]
// CHECK: %[[SECOND:.*]] = qd.select %[[OTHER]]
// CHECK: qd.for parallel ({{.*}}) to (%[[SECOND]])
qd.kernel @under_an_if [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 {qd.many_axes = 1 : i32} : !qd.tensor<si32, [?], [], 4>
  %n = qd.argument 16 : si32
  %zero = qd.constant 0 : si32
  %positive = qd.binary gt %n, %zero : si32, si32 -> i1
  qd.if %positive {
    %end = qd.extent %x 0 : !qd.tensor<si32, [?], [], 4> -> si32
    qd.for (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %to = qd.element %x[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
      qd.store %i, %to : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  } else {
    %end = qd.extent %x 0 : !qd.tensor<si32, [?], [], 4> -> si32
    qd.for (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %to = qd.element %x[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
      qd.store %n, %to : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// A loop reads at another index what the loop before it wrote: all loops stay in the `if`.
// CHECK-LABEL: qd.kernel @dependent_under_an_if
// CHECK: qd.if
// CHECK-NOT: qd.for parallel
qd.kernel @dependent_under_an_if [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 {qd.many_axes = 1 : i32} : !qd.tensor<si32, [?], [], 4>
  %n = qd.argument 16 : si32
  %zero = qd.constant 0 : si32
  %positive = qd.binary gt %n, %zero : si32, si32 -> i1
  qd.if %positive {
    %end = qd.extent %x 0 : !qd.tensor<si32, [?], [], 4> -> si32
    qd.for (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %from = qd.element %x[%zero] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
      %to = qd.element %x[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
      %value = qd.load %from : !qd.ref<si32>
      qd.store %value, %to : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// Loops inside a parallel loop become its axes, up to the innermost one along which lanes reach neighbors. What stands before the inner
// loop moves into the body, bounds move before the loop.
// CHECK-LABEL: qd.kernel @rows
// CHECK-SAME: qd.unaliased = array<i32: 0>
// CHECK: %[[END:.*]] = qd.binary sub
// CHECK: qd.for parallel (%{{.*}}, %{{.*}}, %{{.*}}) to (%{{.*}}, %[[END]], %{{.*}}) : {{.*}} attributes {name = "rows"}
// CHECK-NEXT: ^bb0(%[[I:.*]]: si32, %[[J:.*]]: si32, %[[K:.*]]: si32):
// CHECK: qd.element %{{.*}}[%[[I]]]
// CHECK: qd.element %{{.*}}[%[[I]], %[[J]], %[[K]]]
// CHECK-NOT: qd.for
qd.kernel @rows [] attributes {argument_bytes = 64 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?], [], 4>
  %n = qd.argument 48 : si32
  %zero = qd.constant 0 : si32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) attributes {name = "rows"} {
  ^body(%i: si32):
    %from = qd.element %y[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %copy = qd.local : !qd.ref<f32>
    qd.store %value, %copy : !qd.ref<f32>
    %one = qd.constant 1 : si32
    %end = qd.binary sub %n, %one : si32, si32 -> si32
    qd.for (%one) to (%end) : (si32) to (si32) {
    ^body(%j: si32):
      qd.for (%zero) to (%n) : (si32) to (si32) {
      ^body(%k: si32):
        %loaded = qd.load %copy : !qd.ref<f32>
        %to = qd.element %x[%i, %j, %k] : !qd.tensor<f32, [?, ?, ?], [], 4>, si32, si32, si32 -> !qd.ref<f32>
        qd.store %loaded, %to : !qd.ref<f32>
        qd.yield
      }
      qd.yield
    }
    qd.yield
  }
}

// -----

// Not merged: the lanes of the outer loop reach neighbors, a row is shorter than a vector, an access is transposed, the end depends on the
// outer index, the loop writes what stands before it.
// CHECK-LABEL: qd.kernel @columns
// CHECK-NOT: to (%{{.*}}, %{{.*}})
qd.kernel @columns [] attributes {argument_bytes = 80 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 64 : si32
  %zero = qd.constant 0 : si32
  %three = qd.constant 3 : si32
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
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    qd.for (%zero) to (%three) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %one, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %from = qd.element %y[%j, %i] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      %value = qd.load %from : !qd.ref<f32>
      %to = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %value, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    qd.for (%zero) to (%i) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %one, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %x[%i, %zero] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %value, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// Two loops along rows, with a sum between them: both are marked, and the parallel loop. Their ends move before it.
// CHECK-LABEL: qd.kernel @marked
// CHECK-SAME: qd.unaliased = array<i32: 0>
// CHECK: %[[END:.*]] = qd.binary sub
// CHECK: qd.for parallel (%{{[0-9]+}}) to (%{{[0-9]+}}) : (si32) to (si32) attributes {qd.rows}
// CHECK: qd.for (%{{.*}}) to (%[[END]]) : (si32) to (si32) attributes {qd.rows}
// CHECK: qd.for (%{{.*}}) to (%{{.*}}) : (si32) to (si32) attributes {qd.rows}
qd.kernel @marked [] attributes {argument_bytes = 72 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 64 : si32
  %zero = qd.constant 0 : si32
  %none = qd.constant 0.0 : f32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<f32>
    qd.store %none, %sum : !qd.ref<f32>
    %one = qd.constant 1 : si32
    %end = qd.binary sub %n, %one : si32, si32 -> si32
    qd.for (%zero) to (%end) : (si32) to (si32) {
    ^body(%j: si32):
      %from = qd.element %y[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      %value = qd.load %from : !qd.ref<f32>
      %before = qd.load %sum : !qd.ref<f32>
      %after = qd.binary add %before, %value : f32, f32 -> f32
      qd.store %after, %sum : !qd.ref<f32>
      qd.yield
    }
    %total = qd.load %sum : !qd.ref<f32>
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %total, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// Not marked: lanes of the parallel loop read one element for all of them, the sum is read in the loop, most of the work is elsewhere.
// CHECK-LABEL: qd.kernel @unmarked
// CHECK-NOT: qd.rows
qd.kernel @unmarked [] attributes {argument_bytes = 72 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<si32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<si32, [?], [], 4>
  %n = qd.argument 64 : si32
  %zero = qd.constant 0 : si32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<si32>
    qd.store %zero, %sum : !qd.ref<si32>
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %from = qd.element %y[%j] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
      %value = qd.load %from : !qd.ref<si32>
      %before = qd.load %sum : !qd.ref<si32>
      %after = qd.binary add %before, %value : si32, si32 -> si32
      qd.store %after, %sum : !qd.ref<si32>
      qd.yield
    }
    %total = qd.load %sum : !qd.ref<si32>
    %to = qd.element %x[%i, %zero] : !qd.tensor<si32, [?, ?], [], 4>, si32, si32 -> !qd.ref<si32>
    qd.store %total, %to : !qd.ref<si32>
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<si32>
    qd.store %zero, %sum : !qd.ref<si32>
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.element %x[%i, %j] : !qd.tensor<si32, [?, ?], [], 4>, si32, si32 -> !qd.ref<si32>
      %value = qd.load %to : !qd.ref<si32>
      %before = qd.load %sum : !qd.ref<si32>
      %after = qd.binary add %before, %value : si32, si32 -> si32
      qd.store %after, %sum : !qd.ref<si32>
      qd.store %after, %to : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// Updates have no order: the first nest is merged although all iterations share the sum. In the second one lanes along `i` own what they
// update, and in the third one the sum is read.
// CHECK-LABEL: qd.kernel @updates
// CHECK: qd.for parallel (%{{[0-9]+}}, %{{[0-9]+}}) to
// CHECK: qd.for parallel (%{{[0-9]+}}) to
// CHECK: qd.for parallel (%{{[0-9]+}}) to
// CHECK-NOT: qd.for parallel
qd.kernel @updates [] attributes {argument_bytes = 72 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<si32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<si32, [?], [], 4>
  %n = qd.argument 64 : si32
  %zero = qd.constant 0 : si32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %from = qd.element %x[%i, %j] : !qd.tensor<si32, [?, ?], [], 4>, si32, si32 -> !qd.ref<si32>
      %value = qd.load %from : !qd.ref<si32>
      %to = qd.element %y[%zero] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
      %old = qd.atomic add %to, %value : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %from = qd.element %x[%i, %j] : !qd.tensor<si32, [?, ?], [], 4>, si32, si32 -> !qd.ref<si32>
      %value = qd.load %from : !qd.ref<si32>
      %to = qd.element %y[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
      %old = qd.atomic add %to, %value : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %from = qd.element %x[%i, %j] : !qd.tensor<si32, [?, ?], [], 4>, si32, si32 -> !qd.ref<si32>
      %to = qd.element %y[%zero] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
      %value = qd.load %to : !qd.ref<si32>
      %old = qd.atomic add %to, %value : !qd.ref<si32>
      qd.store %value, %from : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// All iterations read one element that the loop writes: those before it and those behind it are parts of a row.
// CHECK-LABEL: qd.kernel @pivot
// CHECK: qd.for parallel {{.*}} attributes {qd.rows}
// CHECK: qd.for {{.*}} attributes {qd.part_of_row, qd.rows}
// CHECK: qd.for (%{{.*}}) to (%{{.*}}) : (si32) to (si32) {
// CHECK: qd.for {{.*}} attributes {qd.part_of_row, qd.rows}
qd.kernel @pivot [] attributes {argument_bytes = 48 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 32 : si32
  %k = qd.argument 36 : si32
  %zero = qd.constant 0 : si32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %fixed = qd.element %x[%i, %k] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      %a = qd.load %fixed : !qd.ref<f32>
      %above = qd.element %x[%k, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      %b = qd.load %above : !qd.ref<f32>
      %to = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      %old = qd.load %to : !qd.ref<f32>
      %sum = qd.binary add %a, %b : f32, f32 -> f32
      %new = qd.binary min %old, %sum : f32, f32 -> f32
      qd.store %new, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// What an earlier pass assumed stays.
// CHECK-LABEL: qd.kernel @assumed
// CHECK-SAME: qd.unaliased = array<i32: 0, 32>
qd.kernel @assumed [] attributes {argument_bytes = 64 : i32, qd.unaliased = array<i32: 32>} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?], [], 4>
  %n = qd.argument 56 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
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

// Rows of four elements are vectors of their own, unless they lie as near to each other as the members of structs, or have sums.
// CHECK-LABEL: qd.kernel @four
// CHECK: qd.for parallel {{.*}} attributes {qd.rows}
// CHECK: qd.for {{.*}} attributes {qd.rows}
// CHECK-NOT: qd.rows
qd.kernel @four [] attributes {argument_bytes = 72 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 64 : si32
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  %value = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%p: si32):
    qd.for (%zero) to (%four) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.element %x[%p, %zero, %j] : !qd.tensor<f32, [?, ?, ?], [], 4>, si32, si32, si32 -> !qd.ref<f32>
      qd.store %value, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%p: si32):
    qd.for (%zero) to (%four) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.element %y[%p, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %value, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%p: si32):
    %sum = qd.local : !qd.ref<f32>
    qd.store %value, %sum : !qd.ref<f32>
    qd.for (%zero) to (%four) : (si32) to (si32) {
    ^body(%j: si32):
      %from = qd.element %x[%p, %zero, %j] : !qd.tensor<f32, [?, ?, ?], [], 4>, si32, si32, si32 -> !qd.ref<f32>
      %added = qd.load %from : !qd.ref<f32>
      %before = qd.load %sum : !qd.ref<f32>
      %after = qd.binary add %before, %added : f32, f32 -> f32
      qd.store %after, %sum : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}
